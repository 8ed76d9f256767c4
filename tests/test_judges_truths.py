"""A native that is wrong is found out across pins, and a kernel that agrees with the right one is not blamed for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.test_judges_aspects import ENVIRONMENTS, NEW, OLD, seen
from watchdog.judges import judge_run
from watchdog.model import Check, Observation, Status, Suspect, Verdict

RIGHT, WRONG = [1.0, -2.0, 0.5, 3.0], [2.5, 0.5, -1.0, 1.0]


def numbers(pins: str, implementation: str, gives: list[float], truth: list[float], **more: Any) -> Observation:
    """What an implementation gave, by its projections, and what native in float64 says."""
    rms = 0.0 if gives == truth else 1.8
    output = {
        "name": "output",
        "shape": [64],
        "dtype": "float32",
        "rms": rms,
        "max_abs": rms,
        "scale": 1.0,
        "projections": gives,
        "truth_projections": truth,
    }
    data = {"mode": "device", "platform": "cpu", "reference": "native in float64", "inputs": "i", "outputs": [output]}
    return seen(Check.NUMERICS, pins, implementation, **{**data, **more})


def judged(*observations: Observation, baseline: str = OLD) -> dict[tuple[str, str], Verdict]:
    verdicts = judge_run(observations, ENVIRONMENTS, baseline, {})
    return {(one.cell.pins, one.cell.implementation): one for one in verdicts}


def test_a_native_that_was_wrong_is_the_library_s_fault() -> None:
    """Under the old pins native gives other numbers even in float64; the kernel gives the same under both."""
    verdicts = judged(
        numbers(OLD, "custom", RIGHT, WRONG),
        numbers(OLD, "native", WRONG, WRONG),
        numbers(NEW, "custom", RIGHT, RIGHT),
        numbers(NEW, "native", RIGHT, RIGHT),
    )
    native = verdicts[OLD, "native"]
    assert (native.status, native.kind, native.suspect) == (Status.REGRESSED, "wrong numbers", Suspect.LIBRARY)
    kernel = verdicts[OLD, "custom"]
    assert (kernel.status, kernel.kind, kernel.suspect) == (Status.INCONCLUSIVE, "wrong reference", Suspect.LIBRARY)
    assert (verdicts[NEW, "native"].status, verdicts[NEW, "native"].kind) == (Status.IMPROVED, "repaired")
    assert verdicts[NEW, "custom"].status is Status.PASS


def test_a_native_that_breaks_is_found_though_it_agrees_with_itself() -> None:
    """An upgrade that spoils native is native's regression, with the packages it came with."""
    verdicts = judged(
        numbers(OLD, "custom", RIGHT, RIGHT),
        numbers(OLD, "native", RIGHT, RIGHT),
        numbers(NEW, "custom", RIGHT, WRONG),
        numbers(NEW, "native", WRONG, WRONG),
    )
    assert verdicts[NEW, "native"].status is Status.REGRESSED
    assert "jax 0.8.3 → 0.9.2" in verdicts[NEW, "native"].summary
    assert verdicts[NEW, "custom"].status is Status.INCONCLUSIVE


@pytest.mark.parametrize("more", [{"inputs": "other"}, {"reference": "m:truth in float64"}])
def test_only_the_same_question_is_compared(more: dict[str, Any]) -> None:
    """Other inputs, or a reference of the user's own, say nothing of native: the kernel is wrong by its truth."""
    verdicts = judged(
        numbers(OLD, "custom", RIGHT, WRONG),
        numbers(OLD, "native", WRONG, WRONG),
        numbers(NEW, "custom", RIGHT, RIGHT, **more),
        numbers(NEW, "native", RIGHT, RIGHT, **more),
    )
    assert (verdicts[OLD, "custom"].status, verdicts[OLD, "custom"].suspect) == (Status.REGRESSED, Suspect.KERNEL)
    assert verdicts[OLD, "native"].status is Status.PASS


def test_a_kernel_that_is_wrong_everywhere_is_the_kernel_s_fault() -> None:
    """Where the truth is the same under both pins, nothing excuses the kernel."""
    cells = [
        numbers(pins, name, WRONG if name == "custom" else RIGHT, RIGHT)
        for pins in (OLD, NEW)
        for name in ("custom", "native")
    ]
    verdicts = judged(*cells)
    assert {verdicts[pins, "custom"].status for pins in (OLD, NEW)} == {Status.REGRESSED}
    assert {verdicts[pins, "native"].status for pins in (OLD, NEW)} == {Status.PASS}
