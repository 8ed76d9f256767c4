"""The verdict on races: a sentence that a kernel's author understands, with the line to look at."""

from __future__ import annotations

from typing import Any

import pytest

from watchdog.judges import judge_run
from watchdog.model import Cell, Check, Environment, Observation, Outcome, Package, Status, Verdict

PINS = "next"
ENVIRONMENTS = (Environment(PINS, (), "sha256:2", "", "3.11.7", (Package("jax", "0.10.2"),)),)


def access(how: str, where: str | None, core: int | None) -> dict[str, Any]:
    return {"access": how, "where": where, "core": core}


def fault(kind: str, first: dict[str, Any] | None, second: dict[str, Any] | None, memory: str | None) -> dict[str, Any]:
    return {"kind": kind, "memory": memory, "first": first, "second": second}


INTO = fault("copy not awaited", access("write", "k.py:19", None), access("read", "k.py:20", 0), "VMEM")
OUT_OF = fault("copy not awaited", access("read", "k.py:19", None), access("write", "k.py:20", 0), "VMEM")
BY_NUMBERS = fault("copy not awaited", access("read", "k.py:20", None), None, None)
UNWRITTEN = fault("uninitialised memory", access("read", "k.py:50", None), None, None)
CORES = fault("race", access("write", "k.py:8", 1), access("write", "k.py:8", 0), "HBM")
COPIES = fault("race", access("write", "k.py:30", None), access("read", "k.py:31", 1), "HBM")
BOTH = fault("race", access("write", "k.py:30", None), access("write", "k.py:30", None), "HBM")
SOMEHOW = fault("copy not awaited", None, None, None)
ORDER = fault("depends on order", None, None, None)
SPLIT = fault("depends on cores", None, None, None)


def judged(*found: dict[str, Any], races: int | None = None, cores: int = 2, **more: Any) -> Verdict:
    data = {"mode": "tpu interpreter", "cores": cores, "races": races, "found": list(found), "messages": [], **more}
    cell = Cell("k", "custom", "small", PINS, "host", Check.RACES)
    (verdict,) = judge_run([Observation(cell, Outcome.OBSERVED, data=data)], ENVIRONMENTS, PINS, {})
    return verdict


@pytest.mark.parametrize(
    ("found", "where", "begins"),
    [
        (
            INTO,
            "k.py:20",
            "reads a buffer in VMEM before the copy into it was waited for at k.py:20 (started at k.py:19)",
        ),
        (OUT_OF, "k.py:20", "writes a buffer in VMEM before the copy out of it was waited for at k.py:20"),
        (BY_NUMBERS, "k.py:20", "reads a buffer before the copy into it was waited for at k.py:20"),
        (UNWRITTEN, "k.py:50", "uses memory that nothing has written at k.py:50"),
        (CORES, "k.py:8", "core 1 writes HBM at k.py:8 and core 0 writes it at k.py:8, and nothing says which"),
        (COPIES, "k.py:31", "a copy writes HBM at k.py:30 and core 1 reads it at k.py:31"),
        (BOTH, "k.py:30", "a copy writes HBM at k.py:30 and another copy writes it at k.py:30"),
        (SOMEHOW, None, "uses a buffer before a copy into or out of it was waited for"),
        (ORDER, None, "depends on the order in which the grid points of a parallel dimension are computed"),
        (SPLIT, None, "gives other numbers on two cores than on one"),
    ],
)
def test_each_fault_has_a_sentence_and_a_line(found: dict[str, Any], where: str | None, begins: str) -> None:
    """The fault comes first, the pins after it, and its kind is the verdict's."""
    verdict = judged(found, races=1)
    assert (verdict.status, verdict.kind, verdict.where) == (Status.REGRESSED, found["kind"], where)
    assert verdict.summary.startswith(begins)
    assert f"under {PINS} (jax 0.10.2)" in verdict.summary


def test_the_most_telling_of_several_comes_first() -> None:
    """A copy that was not awaited explains the race beside it; the others are counted."""
    verdict = judged(CORES, SPLIT, INTO, races=2)
    assert verdict.kind == "copy not awaited"
    assert "2 more faults" in verdict.summary
    assert verdict.figure is not None
    assert verdict.figure.value == 3


def test_what_only_the_numbers_tell_regresses_without_a_race() -> None:
    """The detector saw nothing, and the kernel is wrong all the same."""
    assert judged(UNWRITTEN, races=0).status is Status.REGRESSED


def test_a_pass_says_how_many_cores_there_were() -> None:
    """A release whose interpreter has one core cannot show a race between cores."""
    assert "two simulated cores" in judged(races=0).summary
    assert "races between cores" in judged(races=0, cores=1).summary


def test_a_detector_that_is_not_understood_is_inconclusive() -> None:
    """No count is no pass."""
    assert judged(races=None).status is Status.INCONCLUSIVE


def test_a_race_without_its_accesses_is_told_by_the_detectors_words() -> None:
    """As in observations stored before accesses were, and in releases that name no lines."""
    message = "RACE DETECTED write of ('vmem', 103) from 0, /srv/kernels/k.py:12:4 (body)"
    verdict = judged(races=1, messages=[message])
    assert (verdict.kind, verdict.where) == ("race", "k.py:12")
    assert "1 race under next" in verdict.summary
