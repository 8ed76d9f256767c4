"""Time as an experiment, fed with scripted processes: none, a step, a drift, strays, and noise that hides everything."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.judges import judge_run
from watchdog.judges.experiment import FLOOR, Decision, Reading, Rule, read
from watchdog.model import Cell, Check, Environment, Observation, Outcome, Package, Status, Suspect, Verdict

Times = list[float]
RULE = Rule()
GATES = 200
times = st.lists(st.floats(1e-6, 1e3), min_size=4, max_size=20)


def noisy(seed: int, count: int = RULE.processes, spread: float = 0.02) -> tuple[Times, Times]:
    """Processes of both sides without any change, in seconds."""
    random = np.random.default_rng(seed)
    base, head = np.exp(random.normal(0, spread, (2, count))) * 1e-3
    return base.tolist(), head.tolist()


def slower(seconds: Sequence[float], by: float) -> Times:
    return [one * (1 + by) for one in seconds]


def at_the_end(base: Sequence[float], head: Sequence[float], rule: Rule = RULE) -> Reading:
    return read(base, head, rule, ended=True)


def decisions(change: float, rule: Rule = RULE, spread: float = 0.02) -> list[Decision]:
    sides = (noisy(seed, rule.processes, spread) for seed in range(GATES))
    return [at_the_end(base, slower(head, change), rule).decision for base, head in sides]


def test_nothing_is_called_slower_that_is_not() -> None:
    """At the rate of one false alarm in a thousand gates, two hundred gates without a change raise two at the most."""
    assert decisions(0).count(Decision.SLOWER) <= 2


def test_a_slowdown_of_five_percent_is_found() -> None:
    """At 2 % noise between processes, at least 95 of 100."""
    assert decisions(0.05).count(Decision.SLOWER) >= 0.95 * GATES


def test_a_speedup_of_five_percent_is_told() -> None:
    """The other direction is told as surely, and is no slowdown."""
    found = decisions(-0.05)
    assert found.count(Decision.FASTER) >= 0.95 * GATES
    assert Decision.SLOWER not in found


def test_more_cells_ask_for_clearer_proof() -> None:
    """The error rate belongs to the gate and is divided among its cells, so that fewer small slowdowns are called."""
    one, many = (decisions(0.025, Rule(cells=cells)).count(Decision.SLOWER) for cells in (1, 50))
    assert many < one


def test_a_change_that_does_not_matter_is_not_called() -> None:
    """A slowdown as sure as can be is no regression below the relevant one, nor below the floor."""
    base, head = noisy(1, spread=0.0005)
    assert at_the_end(base, slower(head, 0.05)).decision is Decision.SLOWER
    assert at_the_end(base, slower(head, 0.05), Rule(relevant=0.1)).decision is Decision.SAME
    assert at_the_end(base, slower(head, FLOOR / 2)).decision is Decision.SAME


def test_the_detectable_slowdown_is_detected() -> None:
    """What a reading says it would have seen with a chance of four in five is seen about so often."""
    detectable = [at_the_end(*noisy(seed)).detectable for seed in range(GATES)]
    typical = float(np.median([one or math.nan for one in detectable]))
    assert 0.7 * GATES <= decisions(typical - 1).count(Decision.SLOWER) <= 0.9 * GATES


def test_the_figure_holds_the_truth() -> None:
    """The interval of 99 % misses the true ratio in a few of two hundred gates at the most."""
    ratios = [at_the_end(base, slower(head, 0.03)).ratio for base, head in map(noisy, range(GATES))]
    missed = sum(not (one is not None and one.low <= 1.03 <= one.high) for one in ratios)
    assert missed <= 8


def test_a_drift_of_the_machine_is_no_slowdown() -> None:
    """Processes of both sides grow slower by 30 % from the first to the last, in A B B A."""
    base, head = noisy(3, spread=0.005)
    order = np.arange(len(base) * 2).reshape(-1, 4)
    drift = 1 + 0.3 * order / order.max()
    slow_base = (np.array(base) * drift[:, [0, 3]].ravel()).tolist()
    slow_head = (np.array(head) * drift[:, [1, 2]].ravel()).tolist()
    reading = at_the_end(slow_base, slow_head)
    assert reading.decision is Decision.SAME
    assert reading.baseline is not None
    assert reading.baseline.low > 1.05  # and the drift itself is told


@pytest.mark.parametrize("strays", [1, 3])
def test_strays_decide_nothing(strays: int) -> None:
    """Some processes of the head that took twice the time are left out, and a slowdown is found beside them."""
    base, head = noisy(4)
    spoilt = [*slower(head[:strays], 1.0), *head[strays:]]
    assert at_the_end(base, spoilt).decision is not Decision.SLOWER
    assert at_the_end(base, slower(spoilt, 0.06)).decision is Decision.SLOWER


def test_a_slowdown_that_fades_is_not_confirmed() -> None:
    """The head was slow while it became suspicious; most of the processes started since then are not.

    At this error rate the ranks alone would call it.
    """
    base, head = noisy(5, spread=0.004)
    rule, fading = Rule(error_rate=0.05), [*slower(head[:10], 0.05), *head[10:]]
    reading = at_the_end(base, fading, rule)
    assert reading.p < rule.last_rate
    assert reading.decision is not Decision.SLOWER
    assert at_the_end(base, slower(head, 0.05), rule).decision is Decision.SLOWER


def test_one_block_tells_nothing() -> None:
    """Before two blocks there is no figure: more is wanted, or it stays undecided."""
    few = [1.0, 1.0]
    assert read(few, few, RULE, ended=False) == Reading(Decision.MORE, 2)
    assert read(few, few, RULE, ended=True) == Reading(Decision.UNDECIDED, 2)
    assert read([], [], RULE, ended=True) == Reading(Decision.UNDECIDED, 0)


def test_what_ended_too_early_is_undecided() -> None:
    """Three blocks cannot prove a slowdown at this rate, however clear: undecided, and nothing would have been seen."""
    base, head = noisy(6, 6, spread=0.001)
    reading = at_the_end(base, slower(head, 0.5))
    assert (reading.decision, reading.detectable) == (Decision.UNDECIDED, None)


def test_the_same_is_seen_before_the_end() -> None:
    """Where a slowdown worth finding is ruled out no further process is taken."""
    assert all(read(*noisy(seed, 12), RULE, ended=False).decision is Decision.SAME for seed in range(3))


@pytest.mark.parametrize(("base", "head"), [([1.0], [1.0, 2.0]), ([1.0, 0.0], [1.0, 1.0]), ([1.0, 1.0], [1.0, -1.0])])
def test_what_cannot_be_compared_is_refused(base: Times, head: Times) -> None:
    """Sides of different lengths and times that are none."""
    with pytest.raises(ValueError, match="cannot be compared"):
        read(base, head, RULE, ended=True)


@given(times, times, st.booleans())
def test_any_times_are_read(one: Times, two: Times, ended: bool) -> None:
    """Figures stay ordered, p-values are chances, and a gate that ended never asks for more."""
    count = min(len(one), len(two))
    reading = read(one[:count], two[:count], RULE, ended=ended)
    assert 0 <= reading.p <= 1 + 1e-9
    assert not (ended and reading.decision is Decision.MORE)
    for figure in (reading.ratio, reading.baseline):
        assert figure is not None
        assert figure.low <= figure.value <= figure.high
    assert reading.detectable is None or reading.detectable >= 1 + FLOOR - 1e-12


@given(times)
def test_a_side_is_the_same_as_itself(seconds: Times) -> None:
    """Whatever the times are, the very same ones on both sides are never a change."""
    assert at_the_end(seconds, seconds).decision not in (Decision.SLOWER, Decision.FASTER)


BASE, HEAD = "before", "after"


def gate(head: Times, base: Times, *, control: float, changed: str = "my-kernels", same: bool = False) -> Verdict:
    """The verdict on the custom implementation; the control took `control` times as long under the head."""
    environments = [
        Environment(pins, (), f"sha256:{pins}", "", "3.11.7", (Package(changed, version), Package("numpy", "2.4.6")))
        for pins, version in ((BASE, "1.0"), (HEAD, "1.1"))
    ]
    observations, samples = [], {}
    steady = noisy(9, spread=0.003)
    sides = {
        ("custom", BASE): base,
        ("custom", HEAD): head,
        ("native", BASE): steady[0],
        ("native", HEAD): slower(steady[1], control - 1),
    }
    for (implementation, pins), seconds in sides.items():
        cell = Cell("flash", implementation, "small", pins, "host", Check.TIMING)
        samples[cell] = seconds
        observations.append(Observation(cell, Outcome.OBSERVED, series={"seconds": seconds[:5]}))
        for check in (Check.LOWER, Check.COMPILE):
            program = {"fingerprint": "same" if same else pins, "code_bytes": 9}
            built = Cell("flash", implementation, "small", pins, "host", check)
            observations.append(Observation(built, Outcome.OBSERVED, data=program))
    verdicts = judge_run(observations, environments, BASE, {}, samples=samples, rule=RULE)
    wanted = Cell("flash", "custom", "small", HEAD, "host", Check.TIMING)
    (verdict,) = [one for one in verdicts if one.cell == wanted]
    return verdict


class TestWhoDidIt:
    def test_native_that_stayed_leaves_the_kernels_own_package(self) -> None:
        """The package that changed is named beside the suspect, and the sentence shows the control."""
        base, head = noisy(7)
        verdict = gate(slower(head, 0.05), base, control=1.0)
        assert (verdict.status, verdict.kind) == (Status.REGRESSED, "slower")
        assert "my-kernels 1.0 → 1.1" in verdict.summary
        assert "the native implementation took 0.999 times" in verdict.summary

    def test_native_that_moved_alike_accuses_the_library(self) -> None:
        """Both became slower under another jax."""
        base, head = noisy(7)
        verdict = gate(slower(head, 0.05), base, control=1.05, changed="jax")
        assert (verdict.status, verdict.suspect) == (Status.REGRESSED, Suspect.LIBRARY)

    def test_a_base_that_became_slower_excuses_it(self) -> None:
        """The base's later processes took longer than its earlier ones: that was the machine."""
        base, head = noisy(8, spread=0.002)
        drifting = [*base[:10], *slower(base[10:], 0.05)]
        verdict = gate([*slower(head[:10], 0.05), *slower(head[10:], 0.11)], drifting, control=1.0)
        assert (verdict.status, verdict.suspect) == (Status.INCONCLUSIVE, Suspect.MACHINE)
        assert "itself became slower meanwhile" in verdict.summary

    def test_the_same_program_on_the_same_libraries_excuses_it(self) -> None:
        """What was compiled is the very same, and so is what runs it."""
        base, head = noisy(7)
        verdict = gate(slower(head, 0.05), base, control=1.0, same=True)
        assert (verdict.status, verdict.suspect) == (Status.INCONCLUSIVE, Suspect.MACHINE)

    def test_every_verdict_says_what_it_would_have_seen(self) -> None:
        """A pass as well."""
        base, head = noisy(7)
        verdict = gate(head, base, control=1.0)
        assert verdict.status is Status.PASS
        assert verdict.detectable is not None
        assert "would have been seen" in verdict.summary
