"""Bundles as they run, transfers and fingerprints: what is drift of the compiler, and what is a change in the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.test_judges_aspects import ENVIRONMENTS, NEW, OLD, seen
from watchdog.judges import KernelFacts, judge_run
from watchdog.model import Cell, Check, Environment, Observation, Package, Status, Suspect, Verdict

SAME_PACKAGES = (ENVIRONMENTS[0], replace(ENVIRONMENTS[0], pins=NEW))
OWN = (
    replace(ENVIRONMENTS[0], packages=(*ENVIRONMENTS[0].packages, Package("mykernel", "1"))),
    replace(
        ENVIRONMENTS[0], pins=NEW, lock_hash="sha256:3", packages=(*ENVIRONMENTS[0].packages, Package("mykernel", "2"))
    ),
)


def schedule(pins: str, runs: int | tuple[int, int | None], implementation: str = "custom", **data: Any) -> Observation:
    """A schedule of 500 bundles that run so often, exactly or between two numbers."""
    low, high = runs if isinstance(runs, tuple) else (runs, runs)
    known = {"bundles": 500, "complete": True, "executed_bundles": {"low": low, "high": high}}
    return seen(Check.SCHEDULE, pins, implementation, **{**known, **data})


def lowered(pins: str, fingerprint: str) -> Observation:
    return seen(Check.LOWER, pins, fingerprint=fingerprint)


def judged(*observations: Observation, environments: tuple[Environment, ...] = ENVIRONMENTS) -> list[Verdict]:
    cell: Cell = observations[0].cell
    facts = {"flash": KernelFacts(own_packages=frozenset({"mykernel"}))}
    return [one for one in judge_run(observations, environments, OLD, facts) if one.cell == cell]


def test_what_runs_is_compared_not_what_is_listed() -> None:
    """The same listing that runs twice as often is a finding, in bundles as they run."""
    (verdict,) = judged(schedule(NEW, 20_000), schedule(OLD, 10_000))
    assert (verdict.status, verdict.signal, verdict.kind) == (Status.REGRESSED, "executed_bundles", "more bundles")
    assert verdict.summary.startswith("10,000 → 20,000 bundles as they run, +100.0 % against current")


@pytest.mark.parametrize("side", [NEW, OLD])
def test_a_range_is_compared_as_it_is_listed(side: str) -> None:
    """Where it is not known exactly how often bundles run, the listing is compared, and the reason is said."""
    other = OLD if side == NEW else NEW
    unknown = schedule(side, (10_000, None), notes=["flash.1: where one of its loops ends is not known"])
    both = sorted((unknown, schedule(other, 90_000)), key=lambda one: one.cell.pins != NEW)
    (verdict,) = judged(*both)
    assert (verdict.status, verdict.signal) == (Status.PASS, "bundles")


def test_drift_of_a_compiler_is_held_against_another_bound_than_the_kernels_own_change() -> None:
    """20 % more under another jax is drift, and said to be; under the same one, the kernel's own package made it."""
    (drifted,) = judged(schedule(NEW, 12_000), schedule(OLD, 10_000))
    assert drifted.status is Status.PASS
    assert "within what compilers drift by" in drifted.summary
    (changed,) = judged(schedule(NEW, 12_000), schedule(OLD, 10_000), environments=OWN)
    assert (changed.status, changed.suspect) == (Status.REGRESSED, Suspect.KERNEL)


def test_the_same_module_under_another_compiler_is_told() -> None:
    """Where the lowered module is the baseline's, only the compiler can have made it longer."""
    verdict = judged(schedule(NEW, 20_000), schedule(OLD, 10_000), lowered(NEW, "a"), lowered(OLD, "a"))[0]
    assert verdict.suspect is Suspect.LIBRARY
    assert "the very same module, compiled by another compiler" in verdict.summary


def test_native_is_the_control() -> None:
    """Where native grew as well it is the compiler's drift."""
    natives = [schedule(NEW, 900, "native"), schedule(OLD, 500, "native")]
    verdict = judged(schedule(NEW, 20_000), schedule(OLD, 10_000), *natives)[0]
    assert verdict.suspect is Suspect.LIBRARY
    assert "native implementation grew as well: drift of the compiler" in verdict.summary


def test_an_identical_schedule_is_told() -> None:
    """Equal fingerprints end the comparison: bundle for bundle the same."""
    (verdict,) = judged(schedule(NEW, 10_000, fingerprint="f"), schedule(OLD, 10_000, fingerprint="f"))
    assert (verdict.status, verdict.summary) == (
        Status.PASS,
        "the identical schedule: bundle for bundle that of current",
    )


def test_more_traffic_is_a_finding_of_its_own() -> None:
    """A transfer per step more is told in bytes, beside the bundles."""
    dma: list[dict[str, Any]] = [{"dma_bytes": {"low": moved, "high": moved}} for moved in (4 * 2**20, 2 * 2**20)]
    verdicts = judged(schedule(NEW, 10_000, **dma[0]), schedule(OLD, 10_000, **dma[1]))
    assert [(one.signal, one.status) for one in verdicts] == [
        ("executed_bundles", Status.PASS),
        ("traffic", Status.REGRESSED),
    ]
    assert verdicts[1].summary.startswith("moves 2 MiB → 4 MiB to and from HBM (+100.0 % against current)")


def test_observations_of_before_are_judged() -> None:
    """What was stored without these figures is compared as it is listed."""
    old = [seen(Check.SCHEDULE, pins, bundles=count, complete=True) for pins, count in ((NEW, 505), (OLD, 500))]
    (verdict,) = judged(*old)
    assert (verdict.status, verdict.signal) == (Status.PASS, "bundles")


def a_program(runs: int, trips: int, uses: int, name: str = "k") -> dict[str, Any]:
    """A kernel with a loop inside its grid's loop; the inner one makes so many trips of 10 bundles."""
    loops = [
        {"depth": 1, "trips": 4, "bundles": 50, "executions": exactly(4), "executed_bundles": exactly(200)},
        {
            "depth": 2,
            "trips": trips,
            "bundles": 10,
            "executions": exactly(trips),
            "executed_bundles": exactly(10 * trips),
        },
    ]
    counts = {"bundles": 500, "executed_bundles": exactly(runs), "calls": exactly(1)}
    return {
        "name": name,
        "kind": "kernel",
        **counts,
        "loops": loops,
        "slots": {"VALU": {"used": uses}, "MXU": {"used": 32}},
    }


def exactly(count: int) -> dict[str, int]:
    return {"low": count, "high": count}


@pytest.mark.parametrize("name", ["k", "main.1"])
def test_what_grew_is_named(name: str) -> None:
    """The sentence says which program grew as it runs, in which loop of it, and which slot is busier.

    A kernel had another name under older releases.
    """
    new = schedule(NEW, 20_000, programs=[a_program(20_000, 1_600, 900)])
    old = schedule(OLD, 10_000, programs=[a_program(10_000, 800, 300, name)])
    verdict = judged(new, old)[0]
    assert "most of it in k (10,000 → 20,000 as they run)" in verdict.summary
    assert "in its loop 2 of 2: 10 → 10 bundles, 800 → 1,600 trips in all" in verdict.summary
    assert "the slot VALU is used most more often (300 → 900 listed)" in verdict.summary


def test_what_grew_as_it_is_listed_is_named() -> None:
    """Without counts as they run, programs are compared as they are listed."""
    programs = [[{"name": "k", "kind": "kernel", "bundles": size}] for size in (900, 400)]
    new, old = (
        seen(Check.SCHEDULE, pins, bundles=one[0]["bundles"], complete=True, programs=one)
        for pins, one in zip((NEW, OLD), programs, strict=True)
    )
    assert "most of it in k (400 → 900 listed)" in judged(new, old)[0].summary


def test_a_few_spills_of_another_compiler_are_its_drift() -> None:
    """20 spills more came with another jax and pass; the kernel's own change is held to 8."""
    cells = [
        schedule(NEW, 10_000, spill_stores=10, spill_fills=10),
        schedule(OLD, 10_000, spill_stores=0, spill_fills=0),
    ]
    assert [one.signal for one in judged(*cells)] == ["executed_bundles"]
    assert [one.signal for one in judged(*cells, environments=OWN)] == ["executed_bundles", "spills"]
