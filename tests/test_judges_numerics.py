"""What two interpreters tell of wrong numbers, and what is held against the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from watchdog.judges import KernelFacts, judge_run
from watchdog.model import Cell, Check, Environment, Observation, Outcome, Package, Status, Suspect, Verdict

OLD, NEW = "current", "next"
ENVIRONMENTS = (
    Environment(OLD, (), "sha256:1", "", "3.11.7", (Package("jax", "0.8.3"),)),
    Environment(NEW, (), "sha256:2", "", "3.11.7", (Package("jax", "0.10.2"),)),
)


def entry(rms: float = 1e-7, nan: int = 0, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """One output's error; the truth's own size is 1."""
    return {
        "name": "output",
        "shape": [256, 256],
        "dtype": dtype,
        "rms": rms,
        "max_abs": 4 * rms,
        "scale": 1.0,
        "nan": nan,
        "inf": 0,
        **more,
    }


def apart(rms: float = 0.0, nan_here: int = 0) -> dict[str, Any]:
    return {"name": "output", "rms": rms, "max_abs": 4 * rms, "nan_here": nan_here, "nan_there": 0}


def seen(
    here: dict[str, Any],
    there: dict[str, Any] | None = None,
    differs: dict[str, Any] | None = None,
    *,
    pins: str = NEW,
    diagnosis: dict[str, Any] | None = None,
) -> Observation:
    """An interpreted answer; `there` is the generic interpreter's."""
    other = {
        "mode": "generic interpreter",
        "note": None if there else "the generic interpreter of jax 0.10.2 cannot run it",
        "outputs": [there] if there else None,
        "differs": [differs or apart()] if there else None,
    }
    data = {
        "mode": "tpu interpreter",
        "platform": "cpu",
        "note": None,
        "outputs": [here],
        "other": other,
        "diagnosis": diagnosis,
    }
    return Observation(Cell("k", "custom", "small", pins, "host", Check.NUMERICS), Outcome.OBSERVED, data=data)


def judged(*observations: Observation, tolerance: float | None = None) -> Verdict:
    facts = {"k": KernelFacts(tolerance=tolerance)}
    verdicts = judge_run(observations, ENVIRONMENTS, OLD, facts)
    (verdict,) = (one for one in verdicts if one.cell.pins == NEW)
    return verdict


def test_a_copy_not_awaited_is_told_first_with_its_line() -> None:
    """The sentence begins with what the kernel does wrong; then what came of it, and how it was found out."""
    diagnosis = {"kind": "copy not awaited", "where": "k.py:20"}
    verdict = judged(seen(entry(nan=9), entry(), apart(nan_here=9), diagnosis=diagnosis))
    assert (verdict.status, verdict.kind, verdict.where) == (Status.REGRESSED, "copy not awaited", "k.py:20")
    assert verdict.summary.startswith("reads a buffer before the copy into it was waited for, at k.py:20; 9 values")
    assert "the generic interpreter, which hides this, is right" in verdict.summary


@pytest.mark.parametrize(
    ("kind", "begins"),
    [
        ("copy not awaited", "uses a buffer before a copy into or out of it was waited for; output is wrong"),
        ("depends on order", "depends on the order in which the grid points of a parallel dimension are computed; "),
    ],
)
def test_without_a_line_no_more_is_said_than_is_known(kind: str, begins: str) -> None:
    """The numbers tell what they depend on; whether by a read or by a write they do not."""
    verdict = judged(seen(entry(rms=0.5), entry(), apart(0.5), diagnosis={"kind": kind, "where": None}))
    assert (verdict.kind, verdict.where) == (kind, None)
    assert verdict.summary.startswith(begins)


def test_uninitialised_memory_is_told_though_both_interpreters_are_wrong() -> None:
    """Nothing is said of the generic interpreter's being right when it is not."""
    diagnosis = {"kind": "uninitialised memory", "where": None}
    verdict = judged(seen(entry(nan=9), entry(nan=9), diagnosis=diagnosis))
    assert (verdict.kind, verdict.where) == ("uninitialised memory", None)
    assert verdict.summary.startswith("uses memory that nothing has written; 9 values")
    assert "is right" not in verdict.summary


def test_wrong_here_and_right_there_is_the_kernels() -> None:
    """Without a diagnosis the disagreement itself is the finding, and the sentence says what it means."""
    verdict = judged(seen(entry(rms=0.5), entry(), apart(0.5)))
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, "interpreters disagree")
    assert "right under the generic interpreter, which hides copies not waited for" in verdict.summary


def test_wrong_in_both_is_wrong_numbers() -> None:
    """Two interpreters that agree on wrong numbers say nothing about copies or memory."""
    assert judged(seen(entry(rms=0.5), entry(rms=0.5))).kind == "wrong numbers"


def test_wrong_there_alone_is_not_held_against_the_kernel() -> None:
    """The generic interpreter does not simulate all that a kernel may use; the pass says that it is wrong."""
    verdict = judged(seen(entry(), entry(rms=2.0), apart(2.0)))
    assert verdict.status is Status.PASS
    assert "the generic interpreter alone is wrong" in verdict.summary


def test_an_interpreter_that_cannot_run_it_says_nothing() -> None:
    """A missing second answer is no disagreement."""
    assert judged(seen(entry())).status is Status.PASS


@pytest.mark.parametrize("rms", [0.0, 1e-7, 4e-3, 1.5e-2])
def test_rounding_is_no_disagreement(rms: float) -> None:
    """Up to what bfloat16 inside the kernel explains, for only one of the interpreters compiles it whole."""
    assert judged(seen(entry(4e-3), entry(4e-3), apart(rms)), tolerance=0.05).status is Status.PASS


def test_two_right_answers_far_apart_are_a_finding() -> None:
    """Both are within a generous tolerance, and rounding does not explain what lies between them."""
    verdict = judged(seen(entry(0.01), entry(0.012), apart(0.02)), tolerance=0.05)
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, "interpreters disagree")
    assert "each is within its bound" in verdict.summary


def test_whole_numbers_have_no_rounding() -> None:
    """Integers that differ at all are a finding, even within a tolerance."""
    here, there = entry(0.01, dtype="int32"), entry(0.0, dtype="int32")
    assert judged(seen(here, there, apart(0.01)), tolerance=0.05).kind == "interpreters disagree"


def test_a_disagreement_under_the_baseline_is_the_kernels() -> None:
    """It was there before the packages changed."""
    same = (entry(nan=9), entry(), apart(nan_here=9))
    verdict = judged(seen(*same), seen(*same, pins=OLD))
    assert (verdict.kind, verdict.suspect) == ("interpreters disagree", Suspect.KERNEL)


@pytest.mark.parametrize("other", [None, {}, {"outputs": "none"}, {"outputs": [1], "differs": [{"name": "x"}]}])
def test_observations_without_a_second_answer_are_judged_as_before(other: Any) -> None:
    """Those of a device, those stored before there was a second answer, and those that make no sense."""
    observation = seen(entry())
    data = {**observation.data, "other": other, "diagnosis": "none"}
    assert judged(Observation(observation.cell, Outcome.OBSERVED, data=data)).status is Status.PASS
