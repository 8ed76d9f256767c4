"""The least scoped VMEM: a figure with its interval, and growth that is a finding while everything still compiles."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.test_judges_aspects import NEW, OLD, seen, verdicts_of
from watchdog.model import Check, Observation, Status, Suspect, Verdict

KIB = 1024


def schedule(pins: str, compiles: int | None, fails: int = 0, **more: Any) -> Observation:
    """An observed schedule of 100 bundles whose program compiles with so many KiB, and fails with so many."""
    vmem: dict[str, Any] = {}
    if compiles is not None:
        vmem = {"vmem_bytes": compiles * KIB, "vmem_fails_bytes": fails * KIB}
    return seen(Check.SCHEDULE, pins, bundles=100, complete=True, programs=[], **vmem, **more)


def of_vmem(*observations: Observation, baseline: str | None = OLD) -> Verdict:
    (verdict,) = (one for one in verdicts_of(*observations, baseline=baseline) if one.signal == "vmem")
    return verdict


def test_growth_is_told_long_before_it_fails() -> None:
    """888 KiB → 1,400 KiB compiles everywhere, and is regressed with the library as suspect."""
    verdict = of_vmem(schedule(NEW, 1400, 1392), schedule(OLD, 888, 880))
    assert (verdict.status, verdict.kind, verdict.suspect) == (Status.REGRESSED, "more VMEM", Suspect.LIBRARY)
    assert "888 KiB → 1.37 MiB (+57.7 %)" in verdict.summary
    assert verdict.figure is not None
    assert (verdict.figure.value, verdict.figure.low) == (1400 * KIB, 1392 * KIB)
    assert verdict.detectable is not None
    assert verdict.detectable.value == 256 * KIB


def test_what_is_little_of_what_there_is_passes() -> None:
    """Twice as much of next to nothing is told and not called: 132 KiB → 260 KiB of 16 MiB."""
    verdict = of_vmem(schedule(NEW, 260, 256), schedule(OLD, 132, 128))
    assert verdict.status is Status.PASS
    assert "132 KiB → 260 KiB (+97.0 %)" in verdict.summary


def test_less_is_improved() -> None:
    """The other way round it is an improvement."""
    verdict = of_vmem(schedule(NEW, 888, 880), schedule(OLD, 1400, 1392))
    assert (verdict.status, verdict.kind) == (Status.IMPROVED, "less VMEM")


@given(st.integers(1, 100_000), st.integers(1, 800))
def test_what_the_search_cannot_tell_is_no_growth(compiles: int, width: int) -> None:
    """Two searches whose intervals overlap never differ."""
    old, new = schedule(OLD, compiles, max(0, compiles - width)), schedule(NEW, compiles + width - 1, compiles - 1)
    assert of_vmem(new, old).status is Status.PASS


def test_a_figure_for_every_cell() -> None:
    """The baseline's own cell, and one without a baseline, keep the figure, so that there is a history."""
    assert of_vmem(schedule(OLD, 888, 880)).status is Status.PASS
    alone = of_vmem(schedule(NEW, 888, 880, vmem_limit_bytes=2**25), baseline=None)
    assert (alone.status, alone.figure and alone.figure.value) == (Status.SKIPPED, 888 * KIB)
    assert "its author allows 32 MiB" in alone.summary


def test_what_was_not_measured_has_no_verdict() -> None:
    """Native has no such figure, and says nothing of it."""
    assert [one.signal for one in verdicts_of(schedule(NEW, None), schedule(OLD, None))] == ["bundles"]
