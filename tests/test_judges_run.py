"""Judging a whole run: it never raises, every cell is accounted for, and the order of arrival does not matter."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdog.judges import KernelFacts, exit_code, judge_run, worst
from watchdog.judges.wording import percent_text
from watchdog.model import Cell, Check, Environment, Fault, Observation, Outcome, Package, Status, Verdict

CELL = Cell("flash", "custom", "small", "next", "host", Check.COMPILE)

counts = st.none() | st.integers(0, 10**12)
reals = st.none() | st.floats(0, 1e12)
texts = st.text(max_size=40)
readings = st.lists(st.floats(-1e12, 1e12), max_size=12)
warnings = st.lists(
    st.fixed_dictionaries(
        {"category": st.sampled_from(["DeprecationWarning", "UserWarning"]), "message": texts, "where": texts}
    ),
    max_size=3,
)
output = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["out", "dq", "dk"]),
        "shape": st.lists(st.integers(0, 4096), max_size=4),
        "dtype": st.sampled_from(["float32", "bfloat16", "int32", "float8_e4m3fn", "bool", "odd"]),
        "max_abs": reals | st.just(math.nan),
        "rms": reals | st.just(math.inf),
        "scale": reals,
        "nan": counts,
        "inf": counts,
    }
)
programs = st.lists(st.fixed_dictionaries({"name": texts, "kind": texts, "bundles": counts}), max_size=3)
sites = st.lists(st.fixed_dictionaries({"where": texts, "bytes": counts, "objects": counts}), max_size=3)
data = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("temp_bytes", "output_bytes", "code_bytes", "stablehlo_bytes", "bundles"), counts),
        **dict.fromkeys(("spill_stores", "spill_fills", "races", "calls_per_block", "blocks", "verified"), counts),
        "fingerprint": st.none() | st.sampled_from(["a", "b"]),
        "warnings": warnings,
        "deprecations": warnings,
        "mode": st.sampled_from(["device", "tpu interpreter", "generic interpreter"]),
        "outputs": st.lists(output, max_size=3),
        "programs": programs,
        "complete": st.booleans(),
        "notes": st.lists(texts, max_size=2),
        "messages": st.lists(texts, max_size=2),
        "sites": sites,
    },
)
SIGNALS = ("seconds", "device_bytes", "live_arrays", "live_executables", "objects", "heap_bytes", "rss_bytes", "fds")
series = st.dictionaries(st.sampled_from(SIGNALS), readings)
faults = st.builds(
    Fault, kind=texts, message=texts, where=st.none() | texts, traceback=texts, missing=st.none() | texts
)
cells = st.builds(
    Cell,
    kernel=st.sampled_from(["flash", "norm"]),
    implementation=st.sampled_from(["custom", "native"]),
    case=st.just("small"),
    pins=st.sampled_from(["current", "next"]),
    target=st.just("host"),
    check=st.sampled_from(list(Check)),
    scenario=st.sampled_from(["", "steady", "grad"]),
)
observations = st.builds(
    Observation,
    cell=cells,
    outcome=st.sampled_from(list(Outcome)) | st.just(Outcome.OBSERVED),
    reason=st.none() | texts,
    fault=st.none() | faults,
    data=data,
    series=series,
    log_tail=texts,
    at=st.sampled_from(["", "2026-01-31T02:00:00Z"]),
)
environments = st.lists(
    st.builds(
        Environment,
        pins=st.sampled_from(["current", "next"]),
        kernels=st.sampled_from([(), ("flash",)]),
        lock_hash=st.sampled_from(["", "sha256:1"]),
        lock=st.just(""),
        python=st.sampled_from(["3.11.7", "3.12.1"]),
        packages=st.lists(
            st.builds(Package, st.sampled_from(["jax", "my-kernel", "numpy"]), st.sampled_from(["1", "2"])),
            max_size=3,
            unique_by=lambda package: package.name,
        ).map(tuple),
    ),
    max_size=3,
    unique_by=lambda environment: (environment.pins, environment.kernels),
)
baselines = st.sampled_from([None, "current", "absent"])
FACTS = {"flash": KernelFacts(frozenset({"my-kernel"}), 1e-3)}


def finite(verdict: Verdict) -> bool:
    figure, detectable = verdict.figure, verdict.detectable
    numbers = [figure.value, figure.low, figure.high] if figure else []
    return all(math.isfinite(number) for number in [*numbers, *([detectable.value] if detectable else [])])


@settings(max_examples=150, deadline=None)
@given(seen=st.lists(observations, max_size=8), known=environments, baseline=baselines, seed=st.randoms())
def test_any_run_is_judged(
    seen: list[Observation], known: list[Environment], baseline: str | None, seed: random.Random
) -> None:
    """Whatever was observed: no exception, each cell judged, distinct ids, finite figures, the same in any order."""
    verdicts = judge_run(seen, known, baseline, FACTS)
    assert {verdict.cell for verdict in verdicts} == {observation.cell for observation in seen}
    assert len({verdict.id for verdict in verdicts}) == len(verdicts)
    assert all(verdict.summary and verdict.summary.isprintable() for verdict in verdicts)
    assert all(finite(verdict) for verdict in verdicts)
    assert all(verdict.figure is None or verdict.figure.low <= verdict.figure.high for verdict in verdicts)
    shuffled = list(seen)
    seed.shuffle(shuffled)
    assert judge_run(shuffled, known[::-1], baseline, FACTS) == verdicts


def test_what_only_falls_has_an_interval_too() -> None:
    """A counter that fell in every block has its low below its high."""
    cell = replace(CELL, check=Check.MEMORY, scenario="steady")
    seen = Observation(
        cell, Outcome.OBSERVED, data={"calls_per_block": 10}, series={"device_bytes": [900.0, 300.0, 100.0, 0.0]}
    )
    (verdict,) = judge_run([seen], [], None, {})
    assert verdict.figure is not None
    assert verdict.figure.low <= verdict.figure.value <= verdict.figure.high


@settings(max_examples=100, deadline=None)
@given(observation=observations)
def test_skips_and_faults_never_pass(observation: Observation) -> None:
    """What was skipped is skipped, and what failed is never passed."""
    (verdict, *_) = judge_run([observation], [], None, {})
    if observation.outcome is Outcome.SKIPPED:
        assert verdict.status is Status.SKIPPED
    if observation.outcome.is_fault:
        assert verdict.status in (Status.REGRESSED, Status.INCONCLUSIVE)


def test_later_observation_counts() -> None:
    """A cell that was observed again, as after a resumed run, is judged by its last observation."""
    failed = Observation(CELL, Outcome.FAILED, fault=Fault("ValueError", "x"), at="2026-01-31T02:00:00Z")
    passed = Observation(CELL, Outcome.OBSERVED, at="2026-01-31T03:00:00Z")
    (verdict,) = judge_run([passed, failed], [], None, {})
    assert verdict.status is Status.PASS


def test_environment_of_one_kernel_goes_first() -> None:
    """A kernel with requirements of its own is judged by its own environment, not by the shared one."""
    shared = Environment("next", (), "sha256:1", "", "3.11.7", (Package("jax", "1"),))
    own = replace(shared, kernels=("flash",), lock_hash="sha256:0", packages=(Package("jax", "2"),))
    fault = Fault("ValueError", "x")
    (verdict,) = judge_run([Observation(CELL, Outcome.FAILED, fault=fault)], [own, shared], None, {})
    assert "next (jax 2)" in verdict.summary


def verdicts(*statuses: Status) -> list[Verdict]:
    return [Verdict(CELL, status, "…") for status in statuses]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([Status.PASS, Status.IMPROVED, Status.SKIPPED], 0),
        ([Status.PASS, Status.REGRESSED], 1),
        ([Status.INCONCLUSIVE, Status.SKIPPED], 0),
        ([Status.SKIPPED], 3),
        ([], 3),
    ],
)
def test_exit_code(statuses: list[Status], code: int) -> None:
    """1 for a regression, 3 when nothing at all was judged, else 0: no decision was asked for."""
    assert exit_code(verdicts(*statuses)) == code


def test_worst() -> None:
    """The worst status is the one that needs a person most; of nothing there is none."""
    every: list[Any] = list(Status)
    assert worst(verdicts(*every)) is Status.REGRESSED
    assert worst(verdicts(Status.PASS, Status.SKIPPED)) is Status.SKIPPED
    assert worst([]) is None


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        (196, 132, "+48.5 %"),
        (100, 100, "+0.0 %"),
        (6183, 6185, "-0.03 %"),
        (100_049, 100_000, "+0.05 %"),
        (134e6 + 1, 134e6, "<0.001 % more"),
        (134e6 - 1, 134e6, "<0.001 % less"),
        (1, 0, "from nothing"),
    ],
)
def test_a_change_is_never_said_to_be_none(new: float, old: float, text: str) -> None:
    """Small changes keep a digit, and the smallest their direction."""
    assert percent_text(new, old) == text
