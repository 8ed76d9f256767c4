"""Robust figures from short, noisy series. Numpy only; every interval makes no assumption about the noise's shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from watchdog.model import Figure

Series: TypeAlias = NDArray[np.float64]

CONFIDENCE = 0.99


def finite(values: Sequence[float] | Series) -> Series:
    """The readings that are numbers, in their order."""
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]


def median_figure(values: Series, unit: str, confidence: float = CONFIDENCE) -> Figure:
    """The median with its order-statistic interval (the interval of the sign test).

    The k-th smallest and k-th largest of n values hold the true median between them with probability
    1 - 2 P(Binomial(n, 1/2) < k), whatever the distribution. With too few values for `confidence`, the interval is
    the whole range. Raises ValueError when `values` is empty.
    """
    if values.size == 0:
        msg = "a median needs at least one value"
        raise ValueError(msg)
    ordered = np.sort(values)
    rank = _rank(ordered.size, 1 - confidence)
    return Figure(float(np.median(ordered)), float(ordered[rank]), float(ordered[-1 - rank]), unit)


def ratio_of_medians(candidate: Series, baseline: Series, unit: str = "times") -> Figure:
    """Candidate's median over the baseline's, with the interval that both medians' intervals allow together.

    Raises ValueError when a side is empty or the baseline's interval reaches zero or less.
    """
    above, below = median_figure(candidate, unit), median_figure(baseline, unit)
    if below.low <= 0:
        msg = "a ratio needs a baseline above zero"
        raise ValueError(msg)
    return Figure(above.value / below.value, above.low / below.high, above.high / below.low, unit)


def widened(ratio: Figure, allowance: float) -> Figure:
    """The ratio with its interval stretched by the factor `allowance` (1 or more) on both sides."""
    return Figure(ratio.value, ratio.low / allowance, ratio.high * allowance, ratio.unit)


def increments(readings: Sequence[float] | Series) -> Series:
    """What each block added. The first reading is taken after the first block, so that block is dropped as warm-up."""
    return np.diff(finite(readings))


def spread(values: Series) -> float:
    """The median absolute deviation from the median, unscaled; 0 for an empty series."""
    return float(np.median(np.abs(values - np.median(values)))) if values.size else 0.0


def sign_count(size: int, alpha: float) -> int | None:
    """How many of `size` increments must be positive before chance explains it with probability `alpha` at most.

    The smallest k with P(Binomial(size, 1/2) >= k) <= alpha; None when even all of them would not do.
    """
    tail, needed = 0.0, None
    for positive in range(size, -1, -1):
        tail += _binomial_half(size, positive)
        if tail > alpha:
            return needed
        needed = positive
    return needed


def _rank(size: int, alpha: float) -> int:
    """How many values may be left off at each end of a sorted series while the interval keeps 1 - alpha."""
    tail, rank = 0.0, 0
    for left_off in range(size // 2):
        tail += 2 * _binomial_half(size, left_off)
        if tail > alpha:
            break
        rank = left_off
    return rank


def _binomial_half(size: int, count: int) -> float:
    """P(Binomial(size, 1/2) = count), by logarithms, so that thousands of rounds do not overflow."""
    log_ways = math.lgamma(size + 1) - math.lgamma(count + 1) - math.lgamma(size - count + 1)
    return math.exp(log_ways - size * math.log(2))
