"""The judges of series: statistics and timing, fed with scripted noise and steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from watchdog.judges import judge_run, statistics
from watchdog.model import (
    Cell,
    Check,
    Environment,
    Figure,
    Observation,
    Outcome,
    Package,
    Status,
    Suspect,
    Verdict,
)

OLD, NEW = "current", "next"
ENVIRONMENTS = (
    Environment(OLD, (), "sha256:1", "", "3.11.7", (Package("jax", "0.8.3"),)),
    Environment(NEW, (), "sha256:2", "", "3.11.7", (Package("jax", "0.9.2"),)),
)


def verdict_of(*observations: Observation, baseline: str | None = OLD) -> Verdict:
    """The one verdict on the first observation's cell."""
    verdicts = judge_run(observations, ENVIRONMENTS, baseline, {})
    (verdict,) = [verdict for verdict in verdicts if verdict.cell == observations[0].cell]
    return verdict


def timing(seconds: Sequence[float], pins: str = NEW, implementation: str = "custom") -> Observation:
    cell = Cell("flash", implementation, "small", pins, "host", Check.TIMING)
    return Observation(cell, Outcome.OBSERVED, data={"mode": "device"}, series={"seconds": seconds})


def artefacts(pins: str, fingerprint: str) -> list[Observation]:
    """The lowered and the compiled program of the timed cell."""
    cells = [Cell("flash", "custom", "small", pins, "host", check) for check in (Check.LOWER, Check.COMPILE)]
    return [Observation(cell, Outcome.OBSERVED, data={"fingerprint": fingerprint, "code_bytes": 9}) for cell in cells]


def test_median_of_few_values_is_unsure_of_everything() -> None:
    """With too few values for the confidence the interval is the whole range."""
    assert statistics.median_figure(np.array([3.0, 1.0, 2.0]), "s") == Figure(2.0, 1.0, 3.0, "s")


@pytest.mark.parametrize("size", [8, 15, 40, 400, 5000])
def test_median_interval_holds_the_truth(size: int) -> None:
    """On skewed noise the 99 % interval misses the true median in about 1 % of series."""
    random = np.random.default_rng(size)
    draws = [statistics.median_figure(random.lognormal(0, 1, size), "s") for _ in range(400)]
    missed = sum(not one.low <= 1.0 <= one.high for one in draws)
    assert missed <= 12
    assert size < 40 or np.mean([one.high - one.low for one in draws]) < 2


def test_sign_count() -> None:
    """Five blocks must all grow before chance is ruled out at 5 %; four can never do; of eight, seven do."""
    assert [statistics.sign_count(size, 0.05) for size in (4, 5, 8, 20)] == [None, 5, 7, 15]


def test_empty_median_is_refused() -> None:
    """There is no median of nothing."""
    with pytest.raises(ValueError, match="at least one value"):
        statistics.median_figure(np.array([]), "s")


def rounds(mean: float, seed: int, size: int = 40) -> list[float]:
    """Rounds with 2 % noise and a tail."""
    random = np.random.default_rng(seed)
    noise = 1 + np.abs(random.normal(0, 0.02, size)) + 0.2 * (random.random(size) > 0.95)
    return [float(seconds) for seconds in mean * noise]


def test_much_slower() -> None:
    """Three times slower while native stayed is regressed, and the library it came with is suspected."""
    controls = (timing(rounds(0.01, 3), NEW, "native"), timing(rounds(0.01, 4), OLD, "native"))
    verdict = verdict_of(timing(rounds(0.3, 1)), timing(rounds(0.1, 2), OLD), *controls)
    assert (verdict.status, verdict.kind, verdict.suspect) == (Status.REGRESSED, "slower", Suspect.LIBRARY)
    assert verdict.figure is not None
    assert verdict.figure.low < 3 < verdict.figure.high


def test_much_slower_and_so_is_native() -> None:
    """When native moved alike the machine is suspected and nothing is decided."""
    controls = (timing(rounds(0.025, 3), NEW, "native"), timing(rounds(0.01, 4), OLD, "native"))
    verdict = verdict_of(timing(rounds(0.3, 1)), timing(rounds(0.1, 2), OLD), *controls)
    assert (verdict.status, verdict.suspect) == (Status.INCONCLUSIVE, Suspect.MACHINE)


@pytest.mark.parametrize("slow", [0.3, 0.03])
def test_identical_program_with_another_time(slow: float) -> None:
    """The very same program that takes another time, longer or shorter, points at the machine."""
    cells = (timing(rounds(slow, 1)), timing(rounds(0.1, 2), OLD), *artefacts(OLD, "a"), *artefacts(NEW, "a"))
    verdict = verdict_of(*cells)
    assert (verdict.status, verdict.suspect) == (Status.INCONCLUSIVE, Suspect.MACHINE)


def test_much_faster() -> None:
    """Three times faster is an improvement."""
    verdict = verdict_of(timing(rounds(0.1, 1)), timing(rounds(0.3, 2), OLD))
    assert (verdict.status, verdict.kind) == (Status.IMPROVED, "faster")


def test_slower_than_one_process_can_tell() -> None:
    """What asv saw between two runs of the same code, 71 and 111 ms, is never called slower."""
    verdict = verdict_of(timing(rounds(0.111, 1)), timing(rounds(0.071, 2), OLD))
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.detectable is not None
    assert verdict.detectable.value > 1.6


def test_same_code_raises_no_alarm() -> None:
    """Two thousand A/A comparisons with 10 % between processes: no regression and no improvement."""
    random = np.random.default_rng(7)
    alarms = 0
    for seed in range(2000):
        sides = [rounds(0.1 * random.lognormal(0, 0.10), 2 * seed + side, 15) for side in (0, 1)]
        verdict = verdict_of(timing(sides[0]), timing(sides[1], OLD))
        alarms += verdict.status in (Status.REGRESSED, Status.IMPROVED)
    assert alarms <= 2


def test_time_of_the_baseline_itself() -> None:
    """The baseline's own cell passes with its time in seconds."""
    verdict = verdict_of(timing([0.1] * 9, OLD))
    assert (verdict.status, verdict.figure) == (Status.PASS, Figure.exact(0.1, "s"))


def test_few_rounds_of_the_baseline_are_a_time() -> None:
    """A slow call is timed in few rounds; under the baseline that still is its time."""
    assert verdict_of(timing([0.5, 0.4, 0.6], OLD)).figure == Figure(0.5, 0.4, 0.6, "s")


@pytest.mark.parametrize("baseline", [None, OLD])
def test_time_with_nothing_to_compare(baseline: str | None) -> None:
    """A time alone is no verdict: skipped, and its figure is kept."""
    verdict = verdict_of(timing([0.1] * 9), baseline=baseline)
    assert (verdict.status, verdict.figure) == (Status.SKIPPED, Figure.exact(0.1, "s"))


@pytest.mark.parametrize("seconds", [[], [0.1] * 4, [0.0] * 20, [float("nan")] * 20])
def test_rounds_that_cannot_be_used(seconds: list[float]) -> None:
    """Too few usable rounds decide nothing."""
    assert verdict_of(timing(seconds), timing([0.1] * 9, OLD)).status is Status.INCONCLUSIVE
