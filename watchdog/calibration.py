"""How well the timing of a gate would do here: noise, false alarms and power, reckoned from processes that did the same.

Each trial is a gate over these very processes: a window of them in the order in which they ran, whose blocks of four are
dealt to the two sides at random. Nothing changed between them, so that whatever is called is a false alarm; with the
head's times multiplied by a known factor, what is called is a find. The trials share their processes and are not
independent: they tell how the rule does on this noise, not how often noise of this kind comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from watchdog.judges.experiment import SIDE, Decision, Reading, Rule, read

SLOWDOWNS = (0.02, 0.03, 0.05, 0.10)  # relative, whose power is told
AT_REST = 1000  # trials without any change
TRIALS = 300  # for each size of slowdown
FEWEST = 12 * SIDE  # processes, without which nothing is told
_BLOCK = 2 * SIDE
_MAD = 1.4826  # median absolute deviation → standard deviation of a normal distribution
_LIMIT = 0.95  # one-sided confidence of the limit on false alarms


@dataclass(frozen=True)
class Found:
    """What the gates of one true slowdown came to."""

    slowdown: float  # relative; 0: none
    slower: float  # share of the gates that called it
    undecided: float  # share
    processes: float  # of each side, on average


@dataclass(frozen=True)
class Calibrated:
    """One cell on this machine."""

    processes: int
    rounds: int  # of a process, on average
    seconds: float  # median of the processes' medians
    within: float  # standard deviation between the rounds of a process, relative
    between: float  # standard deviation between the medians of processes, relative
    detectable: float | None  # smallest ratio that a gate of all allowed processes would call, four times in five
    trials: int  # without any change
    false_alarms: int  # of those
    false_alarm_limit: float  # share, 95 % confidence, if the trials were independent
    power: tuple[Found, ...]
    rule: Rule  # with the processes of each side that these allow


def calibrated(processes: Sequence[Sequence[float]], rule: Rule, *, seed: int = 0) -> Calibrated:
    """Noise, false alarms and power. `processes`: the seconds of each one's rounds, in the order in which they ran.

    Raises ValueError when there are fewer than FEWEST of them.
    """
    if len(processes) < FEWEST:
        msg = f"{len(processes)} processes tell nothing of a machine; {FEWEST} are the least"
        raise ValueError(msg)
    medians = np.array([np.median(rounds) for rounds in processes])
    usable = replace(rule, processes=min(rule.processes, len(medians) // _BLOCK * SIDE))
    rng = np.random.default_rng(seed)
    trials = {0.0: AT_REST, **dict.fromkeys(SLOWDOWNS, TRIALS)}
    gates = {slow: [_trial(medians, slow, usable, rng) for _ in range(count)] for slow, count in trials.items()}
    alarms = sum(reading.decision is Decision.SLOWER for reading in gates[0.0])
    return Calibrated(
        processes=len(medians),
        rounds=round(float(np.mean([len(rounds) for rounds in processes]))),
        seconds=float(np.median(medians)),
        within=float(np.median([_spread(np.asarray(rounds)) for rounds in processes])),
        between=_spread(medians),
        detectable=_whole(medians, usable).detectable,
        trials=AT_REST,
        false_alarms=alarms,
        false_alarm_limit=upper_limit(alarms, AT_REST),
        power=tuple(_found(slow, readings) for slow, readings in gates.items()),
        rule=usable,
    )


def decided(base: Sequence[float], head: Sequence[float], rule: Rule) -> Reading:
    """What a gate says that takes these processes block by block, as far as it needs them."""
    most = min(len(base), len(head), rule.processes)
    for taken in range(2 * SIDE, most + 1, SIDE):
        reading = read(base[:taken], head[:taken], rule, ended=taken + SIDE > most)
        if reading.decision is not Decision.MORE:
            return reading
    return read(base[:most], head[:most], rule, ended=True)


def upper_limit(count: int, trials: int) -> float:
    """The share that is no larger with 95 % confidence, when `count` of `trials` were seen (Clopper & Pearson 1934)."""
    if count >= trials:
        return 1.0
    low, high = count / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(count, trials, middle) > 1 - _LIMIT else (low, middle)
    return high


def _at_most(count: int, trials: int, share: float) -> float:
    """The chance of at most `count` among `trials`."""
    return math.fsum(math.exp(_log_chance(k, trials, share)) for k in range(count + 1))


def _log_chance(count: int, trials: int, share: float) -> float:
    """The logarithm of the binomial probability."""
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return ways + count * math.log(share) + (trials - count) * math.log1p(-share)


def _trial(medians: NDArray[np.float64], slowdown: float, rule: Rule, rng: np.random.Generator) -> Reading:
    needed = rule.processes * 2
    start = int(rng.integers(0, len(medians) - needed + 1))
    blocks = rng.permuted(medians[start : start + needed].reshape(-1, _BLOCK), axis=1)
    return decided(blocks[:, :SIDE].ravel().tolist(), (blocks[:, SIDE:].ravel() * (1 + slowdown)).tolist(), rule)


def _whole(medians: NDArray[np.float64], rule: Rule) -> Reading:
    blocks = medians[: rule.processes * 2].reshape(-1, _BLOCK)
    return read(blocks[:, [0, 3]].ravel().tolist(), blocks[:, [1, 2]].ravel().tolist(), rule, ended=True)


def _found(slowdown: float, readings: Sequence[Reading]) -> Found:
    decisions = [reading.decision for reading in readings]
    share = {kind: decisions.count(kind) / len(readings) for kind in (Decision.SLOWER, Decision.UNDECIDED)}
    taken = sum(reading.processes for reading in readings) / len(readings)
    return Found(slowdown, share[Decision.SLOWER], share[Decision.UNDECIDED], taken)


def _spread(values: NDArray[np.float64]) -> float:
    """Relative standard deviation, told by the median absolute deviation so that strays do not decide it."""
    middle = np.median(values)
    return float(_MAD * np.median(np.abs(values - middle)) / middle)
