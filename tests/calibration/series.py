"""Made-up times of processes whose truth is known. All noise is on the logarithm, so that figures are relative."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]

BETWEEN = 0.02  # standard deviation between processes
WITHIN = 0.01  # standard deviation between the rounds of a process
ROUNDS = 10  # of a process
PROCESSES = 20  # of each side
AUTOCORRELATION = 0.7  # of one process with the next
SPIKES = 0.05  # share of processes that are slower by 20 to 50 %
FREEDOM = 3  # of Student's t, whose tails are heavy


@dataclass(frozen=True)
class Gate:
    """The rounds of both sides in seconds, processes × rounds each, in the order in which they ran."""

    base: Times
    head: Times


def gaussian(count: int, rng: np.random.Generator) -> Times:
    """Levels of processes that know nothing of each other."""
    return rng.normal(0, BETWEEN, count)


def heavy_tailed(count: int, rng: np.random.Generator) -> Times:
    """Now and then a process is far off."""
    levels: Times = rng.standard_t(FREEDOM, count) * BETWEEN / math.sqrt(FREEDOM / (FREEDOM - 2))
    return levels


def autocorrelated(count: int, rng: np.random.Generator) -> Times:
    """The machine's mood passes slowly."""
    steps = rng.normal(0, BETWEEN * np.sqrt(1 - AUTOCORRELATION**2), count)
    levels = np.empty(count)
    levels[0] = rng.normal(0, BETWEEN)
    for place in range(1, count):
        levels[place] = AUTOCORRELATION * levels[place - 1] + steps[place]
    return levels


def spikes(count: int, rng: np.random.Generator) -> Times:
    """Somebody else uses the machine while a process runs."""
    hit = rng.random(count) < SPIKES
    return gaussian(count, rng) + np.where(hit, np.log1p(rng.uniform(0.2, 0.5, count)), 0.0)


FAMILIES: dict[str, Callable[[int, np.random.Generator], Times]] = {
    "Gaussian": gaussian,
    "heavy-tailed": heavy_tailed,
    "autocorrelated": autocorrelated,
    "spikes": spikes,
}


def interleaved(family: str, slowdown: float, rng: np.random.Generator) -> Gate:
    """Processes of both sides, A B B A."""
    blocks = FAMILIES[family](2 * PROCESSES, rng).reshape(-1, 4)
    return _gate(blocks[:, [0, 3]].ravel(), blocks[:, [1, 2]].ravel(), slowdown, rng)


def one_after_the_other(family: str, slowdown: float, rng: np.random.Generator) -> Gate:
    """All processes of the base, then all of the head, as tools run that compare two stored results."""
    levels = FAMILIES[family](2 * PROCESSES, rng)
    return _gate(levels[:PROCESSES], levels[PROCESSES:], slowdown, rng)


def _gate(base: Times, head: Times, slowdown: float, rng: np.random.Generator) -> Gate:
    rounds = rng.normal(0, WITHIN, (2, PROCESSES, ROUNDS))
    return Gate(np.exp(base[:, None] + rounds[0]), np.exp(head[:, None] + np.log1p(slowdown) + rounds[1]))
