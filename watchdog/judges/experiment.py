"""Time as an experiment: is the head slower than the base, told by fresh processes of both in blocks A B B A.

The rule, its sources and its measured error rates: docs/judging-timing.md. Everything is on the logarithms of the
processes' medians, so that a difference is a ratio. Numpy only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from watchdog.model import Figure

Table: TypeAlias = NDArray[
    np.float64
]  # logarithms: a row is a block, its columns two of the base, then two of the head
Kept: TypeAlias = NDArray[np.bool_]

UNIT = "times"
SIDE = 2  # processes of each side in a block
FEWEST_BLOCKS = 2  # before anything is decided
FLOOR = 0.01  # relative; smaller changes are never called
POWER = 0.8  # with which the smallest visible change would have been called
# Exact ranks, looks and confirmation ask for more than the normal formula knows of: by this times the square of its quantile,
# over the number of blocks. Measured at 2 % Gaussian noise, 5 to 15 blocks and 1 to 50 cells: 0.15 to 0.24.
RANKS_ASK = 0.18
CONFIDENCE = 0.99  # of intervals
RULED_OUT = 0.975  # one-sided confidence with which a change worth finding is ruled out before the end
SUSPICION = 10.0  # times the error rate: a p-value below that is no pass
SUSPECTED = 0.1  # the p-value from which a pair looks slower, and has to be confirmed by processes still to come
# Looks: after which share of the blocks a slowdown may be called, and which share of the error rate that look may use.
LOOKS = ((0.6, 0.15), (0.8, 0.15), (1.0, 0.7))
STRAY = 4.0  # robust standard deviations beyond which a process is a stray, whichever side it is of
NEIGHBOURS = 2  # blocks before and after, which tell the machine's level at a block
_TINY = 1e-6  # relative; a spread below that is none
_MAD = 1.4826  # median absolute deviation → standard deviation of a normal distribution
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Rule:
    """What a gate compares by."""

    error_rate: float = 0.001  # of the whole gate; it is divided among its cells (Bonferroni)
    cells: int = 1
    relevant: float | None = None  # smallest relative slowdown that matters; None: the smallest that can be seen
    processes: int = 20  # of each side, at the most

    @property
    def blocks(self) -> int:
        """How many blocks there are at the most."""
        return self.processes // SIDE

    @property
    def rate(self) -> float:
        """The error rate of one cell."""
        return self.error_rate / self.cells

    def rate_at(self, blocks: int) -> float:
        """How much of it a look after this many blocks may use; 0 where no look is planned."""
        return sum(share * self.rate for part, share in LOOKS if math.ceil(part * self.blocks) == blocks)

    @property
    def last_rate(self) -> float:
        """How much of it the last look may use, whenever it comes."""
        return LOOKS[-1][1] * self.rate


class Decision(StrEnum):
    """What is known of a pair."""

    MORE = "more"  # take another block
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"  # a slowdown worth finding is ruled out, or nothing speaks for one
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Reading:
    """What the processes of a pair tell."""

    decision: Decision
    processes: int  # of each side
    ratio: Figure | None = None  # head over base; None where there are too few processes to tell
    detectable: float | None = None  # smallest ratio that would have been called, with probability POWER; None: none
    p: float = 1.0  # one-sided, that the head is slower by chance
    baseline: Figure | None = None  # the base's later processes over its earlier ones


def read(base: Sequence[float], head: Sequence[float], rule: Rule, *, ended: bool) -> Reading:
    """Decide about one pair. `base` and `head`: seconds of equally many processes, in the order of their blocks.

    `ended`: no further process will come, so that MORE is no answer. Raises ValueError when the sides differ in length
    or a time is not positive.
    """
    table = _table(base, head)
    blocks = len(table)
    over = ended or blocks >= rule.blocks
    if blocks < FEWEST_BLOCKS:
        return Reading(Decision.UNDECIDED if over else Decision.MORE, blocks * SIDE)
    evidence = _evidence(table)
    decision = _at_the_end(table, evidence, rule) if over else _on_the_way(table, evidence, rule)
    return Reading(
        decision,
        blocks * SIDE,
        _figure(evidence.shift, _half_width(evidence.scale, blocks, blocks)),
        _detectable(evidence.scale, blocks if over and blocks < rule.blocks else rule.blocks, rule),
        evidence.slower,
        _baseline(table, evidence.scale),
    )


@dataclass(frozen=True)
class _Evidence:
    shift: float  # of the head, on the logarithm
    scale: float  # standard deviation between processes, on the logarithm
    slower: float  # one-sided p-value
    faster: float


def _on_the_way(table: Table, evidence: _Evidence, rule: Rule) -> Decision:
    """After a block that is not the last: call it where a look is planned, or stop where there is nothing to find."""
    called = _called(table, evidence, rule, rule.rate_at(len(table)))
    if called is not None:
        return called
    worth = _worth(evidence.scale, rule)
    limit = evidence.shift + _quantile(RULED_OUT, len(table)) * _error(evidence.scale, len(table), len(table))
    looks_faster = limit < 0 and evidence.shift <= -worth  # which is worth knowing too
    return Decision.SAME if limit < worth and not looks_faster else Decision.MORE


def _at_the_end(table: Table, evidence: _Evidence, rule: Rule) -> Decision:
    """No further process will come."""
    called = _called(table, evidence, rule, rule.last_rate)
    if called is not None:
        return called
    suspicious = evidence.slower <= SUSPICION * rule.rate and evidence.shift >= _least(rule)
    limit = evidence.shift + _quantile(RULED_OUT, len(table)) * _error(evidence.scale, len(table), len(table))
    if limit < _worth(evidence.scale, rule) and not suspicious:
        return Decision.SAME
    would_see = _detectable(evidence.scale, len(table), rule)
    too_coarse = would_see is None or (rule.relevant is not None and would_see > 1 + rule.relevant)
    return Decision.UNDECIDED if suspicious or too_coarse else Decision.SAME


def _called(table: Table, evidence: _Evidence, rule: Rule, rate: float) -> Decision | None:
    """A change that is significant, relevant and, where it is for the worse, confirmed by the later processes alone."""
    if evidence.slower <= rate and evidence.shift >= _least(rule) and _is_confirmed(table, evidence.shift, rule):
        return Decision.SLOWER
    if evidence.faster <= rate and evidence.shift <= -_least(rule):
        return Decision.FASTER
    return None


def _is_confirmed(table: Table, shift: float, rule: Rule) -> bool:
    """Whether the processes that were started after the suspicion show at least half of the change by themselves."""
    fresh = table[_suspected_after(table, rule) :]
    return len(fresh) >= FEWEST_BLOCKS and _shift(fresh) >= shift / 2


def _suspected_after(table: Table, rule: Rule) -> int:
    """After how many blocks the head first looked slower."""
    for blocks in range(FEWEST_BLOCKS, len(table)):
        evidence = _evidence(table[:blocks])
        if evidence.slower <= SUSPECTED and evidence.shift >= _least(rule):
            return blocks
    return len(table)


def _least(rule: Rule) -> float:
    """The smallest change that is called at all, on the logarithm."""
    return math.log1p(FLOOR if rule.relevant is None else rule.relevant)


def _worth(scale: float, rule: Rule) -> float:
    """The smallest change that is worth more processes, on the logarithm: what all of them would show, or what matters."""
    visible = _visible(scale, rule.blocks, rule)
    return max(_least(rule), visible if visible is not None and rule.relevant is None else 0.0)


def _detectable(scale: float, blocks: int, rule: Rule) -> float | None:
    visible = _visible(scale, blocks, rule)
    if visible is None:
        return None
    asked = 1 + RANKS_ASK * _NORMAL.inv_cdf(1 - rule.last_rate) ** 2 / blocks
    return math.exp(max(visible * asked, _least(rule)))


def _visible(scale: float, blocks: int, rule: Rule) -> float | None:
    """The shift that this many blocks would show with probability POWER; None where even the clearest is no proof."""
    if 6.0**-blocks > rule.last_rate:
        return None
    return (_NORMAL.inv_cdf(1 - rule.last_rate) + _NORMAL.inv_cdf(POWER)) * _error(scale, blocks, blocks)


def _table(base: Sequence[float], head: Sequence[float]) -> Table:
    if len(base) != len(head) or min((*base, *head), default=1.0) <= 0:
        msg = f"sides of {len(base)} and {len(head)} processes, whose times must be positive, cannot be compared"
        raise ValueError(msg)
    blocks = len(base) // SIDE
    sides = (np.log(np.asarray(side[: blocks * SIDE], dtype=np.float64)).reshape(blocks, SIDE) for side in (base, head))
    return np.concatenate(list(sides), axis=1)


def _evidence(table: Table) -> _Evidence:
    level = _aligned(table)
    kept = _kept(level)
    slower, faster = _p_values(level, kept)
    shift = _shift(np.where(kept, table, np.nan))
    return _Evidence(shift, _scale(level, kept, shift), slower, faster)


def _aligned(table: Table) -> Table:
    """Without the machine's drift: each block less the median of the blocks around it.

    The median does not depend on which process is of which side, so that within a block every arrangement of the sides
    stays as likely as any other when nothing changed (aligned ranks: Hodges & Lehmann 1962).
    """
    around = [table[max(0, row - NEIGHBOURS) : row + NEIGHBOURS + 1] for row in range(len(table))]
    aligned: Table = table - np.array([np.median(window) for window in around])[:, None]
    return aligned


def _kept(level: Table) -> Kept:
    """All processes but the strays; the sides are not asked."""
    middle = np.median(level)
    spread = _MAD * float(np.median(np.abs(level - middle)))
    kept: Kept = np.abs(level - middle) <= max(STRAY * spread, _TINY)
    return kept


def _p_values(level: Table, kept: Kept) -> tuple[float, float]:
    """One-sided p-values that the head is slower, and that it is faster: exact, over all arrangements within blocks."""
    ranks = np.zeros(level.shape, dtype=np.int64)
    ranks[kept] = 2 * _midranks(level[kept])  # doubled, so that those of ties are whole
    chances = np.zeros(int(ranks.sum()) + 1)
    chances[0], observed = 1.0, 0
    for row, stays in zip(ranks, kept, strict=True):
        of_head = int(stays[SIDE:].sum())
        observed += int(row[SIDE:].sum())
        sums = [int(row[list(chosen)].sum()) for chosen in _arrangements(tuple(np.flatnonzero(stays)), of_head)]
        shifted = np.zeros_like(chances)
        for one in sums:
            shifted[one:] += chances[: len(chances) - one]
        chances = shifted / len(sums)
    return float(chances[observed:].sum()), float(chances[: observed + 1].sum())


@cache
def _arrangements(places: tuple[int, ...], of_head: int) -> tuple[tuple[int, ...], ...]:
    return tuple(itertools.combinations(places, of_head))


def _midranks(values: Table) -> Table:
    """Ranks from 1; equal values share the middle of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: Table = (last - (counts - 1) / 2)[inverse]
    return middle


def _shift(table: Table) -> float:
    """How much slower the head is, on the logarithm: the median of the differences within blocks (Hodges & Lehmann)."""
    return float(np.nanmedian(table[:, SIDE:, None] - table[:, None, :SIDE]))


def _scale(level: Table, kept: Kept, shift: float) -> float:
    """The standard deviation between processes of one side, around the block's level; strays are left out."""
    moved = level.copy()
    moved[:, SIDE:] -= shift
    sizes = kept.sum(axis=1, keepdims=True)
    centred = moved - np.where(kept, moved, 0.0).sum(axis=1, keepdims=True) / np.maximum(sizes, 1)
    freedom = int(sizes.sum()) - int((sizes > 0).sum()) - 1
    return max(math.sqrt(float((centred[kept] ** 2).sum()) / max(freedom, 1)), _TINY)


def _error(scale: float, first: int, second: int) -> float:
    """The standard error of a difference between two sides of so many blocks."""
    return scale * math.sqrt(1 / (SIDE * first) + 1 / (SIDE * second))


def _half_width(scale: float, first: int, second: int) -> float:
    return _quantile((1 + CONFIDENCE) / 2, min(first, second)) * _error(scale, first, second)


def _quantile(probability: float, blocks: int) -> float:
    """Of Student's t with the freedom that so many blocks leave (Cornish & Fisher; Abramowitz & Stegun 26.7.5)."""
    x = _NORMAL.inv_cdf(probability)
    n = max(2 * SIDE * blocks - blocks - 1, 1)
    return (
        x
        + (x**3 + x) / (4 * n)
        + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * n**2)
        + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * n**3)
    )


def _baseline(table: Table, scale: float) -> Figure:
    """The base's later half over its earlier half."""
    half = len(table) // 2
    early, late = table[:half, :SIDE], table[half:, :SIDE]
    return _figure(float(np.median(late) - np.median(early)), _half_width(scale, half, len(table) - half))


def _figure(shift: float, half: float) -> Figure:
    return Figure(math.exp(shift), math.exp(shift - half), math.exp(shift + half), UNIT)
