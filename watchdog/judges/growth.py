"""How one counter behaved over equal blocks of calls: still, settled, or growing, and by how much a call.

Counters that are exactly still on a sound kernel are judged by counting. Noisy bytes are judged by the median of what
the blocks added, with a sign rule. A slope is never fitted: one resized table makes one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from watchdog.judges import statistics
from watchdog.judges.statistics import Series
from watchdog.judges.view import quantity
from watchdog.model import Figure, Observation

LEAST_GROWING = 3  # blocks that must grow before a counter leaks
ALPHA = 0.05  # chance of the sign rule alone, before the floor and the spread are asked
SPREADS = 3  # medians of noise stay below this many spreads
TRICKLE = 0.1  # of the largest growth
GOES_ON = 0.25  # of the first half's growth, that the second half must show at least
# Calls of one program after which jax (0.9.2 and before, on the CPU) gives back what it keeps of each. Where requests
# take several programs by turns, each comes to its own end.
PERIOD = 1000
COARSE = 1024.0  # bytes per call, the floor of the heap where a series is shorter than two periods


class Shape(Enum):
    """How a series behaved over the blocks after the first."""

    STILL = "still"
    LEAKS = "leaks"
    SETTLED = "settled"  # grew, and then stopped
    UNSURE = "unsure"
    SHORT = "short"  # too few blocks to tell


@dataclass(frozen=True)
class Signal:
    """One thing that may grow: its unit, whether its counts are exact, and the least growth that matters.

    `least` is per call; `least_per_block` is what the check's own bookkeeping may cost.
    """

    name: str
    label: str
    unit: str
    exact: bool = True
    least: float = 0.0
    least_per_block: float = 0.0
    on_device: bool = False


# The worst first: a verdict names the first of these that grows.
SIGNALS = (
    Signal("device_bytes", "device memory", "B/call", on_device=True),
    Signal("buffer_bytes", "device buffers", "B/call", on_device=True),
    Signal("buffers", "device buffers", "buffers/call", on_device=True),
    Signal("live_arrays", "arrays", "arrays/call", on_device=True),
    Signal("live_executables", "executables", "executables/call"),
    Signal("threads", "threads", "threads/call"),
    Signal("fds", "file descriptors", "descriptors/call"),
    Signal("heap_bytes", "host heap", "B/call", exact=False, least=32.0, least_per_block=2**14),
    Signal("objects", "Python objects", "objects/call", least=0.3, least_per_block=10),
    Signal("blocks", "Python memory blocks", "blocks/call", exact=False, least=0.5, least_per_block=50),
    Signal("rss_bytes", "resident memory", "B/call", exact=False, least=4096, least_per_block=2**16),
)


@dataclass(frozen=True)
class Growth:
    """What one signal did, per call; `detectable` is the smallest growth per call that would have been called a leak."""

    signal: Signal
    shape: Shape
    rate: Figure
    detectable: float | None

    @property
    def leaks(self) -> bool:
        return self.shape is Shape.LEAKS


def measure(observation: Observation) -> list[Growth]:
    """The growth of every signal that was read, in the order of `SIGNALS`."""
    calls = quantity(observation.data, "calls_per_block") or 0
    if calls < 1:
        return []
    present = [signal for signal in SIGNALS if len(observation.series.get(signal.name, ())) > 1]
    if calls * len(observation.series.get("blocks", ())) < 2 * PERIOD:
        # Python's memory blocks swing by thousands where functions are traced; few calls cannot even that out.
        present = [signal for signal in present if signal.name != "blocks"]
    if any(signal.name == "heap_bytes" for signal in present):
        # Resident memory also grows when what was allocated long ago is touched; the heap tells allocations alone.
        present = [signal for signal in present if signal.name != "rss_bytes"]
    return [_measured(observation, signal, calls) for signal in present]


def _measured(observation: Observation, signal: Signal, calls: float) -> Growth:
    """Without what sampling itself keeps."""
    readings = after_warm_up(observation, signal.name)
    own = observation.data.get("own_growth")
    kept = max(0.0, quantity(own, signal.name) or 0.0) if isinstance(own, Mapping) else 0.0
    lengths = observation.data.get("lengths")
    programs = len(lengths) if isinstance(lengths, Sequence) and lengths else 1
    return growth(signal, readings - kept * np.arange(readings.size), calls, PERIOD * programs)


def after_warm_up(observation: Observation, name: str) -> Series:
    """The readings from the first block's end on; one that was taken before the first block is left out."""
    blocks = int(quantity(observation.data, "blocks") or 0)
    readings = observation.series[name]
    return statistics.finite(readings[-blocks:] if blocks > 0 else readings)


def growth(signal: Signal, readings: Series, calls: float, period: float = PERIOD) -> Growth:
    """How `signal` behaved, from one reading per block of `calls` calls.

    `period` is the number of calls after which the heap falls back by itself.
    """
    if readings.size < 2:  # noqa: PLR2004  # nothing between them
        return Growth(signal, Shape.SHORT, Figure.exact(0.0, signal.unit), None)
    if signal.exact:
        return _counted_growth(signal, readings, calls)
    lag = math.ceil(period / calls) if signal.name == "heap_bytes" else 1
    if lag > 1 and readings.size > 2 * lag:
        return _noisy_growth(signal, readings[lag:] - readings[:-lag], calls * lag, signal.least)
    floor = COARSE if signal.name == "heap_bytes" and calls < period else signal.least
    return _noisy_growth(signal, np.diff(readings), calls, floor)


def _counted_growth(signal: Signal, readings: Series, calls: float) -> Growth:
    added = np.diff(readings)
    blocks = added.size
    total = float(readings[-1] - readings[0])
    # One block's worth, where they differ; nothing where every one of them fell.
    spare = 0.0 if statistics.spread(added) == 0 else max(0.0, float(np.max(added)))
    rate = Figure(total / blocks, (total - spare) / blocks, (total + spare) / blocks, signal.unit)
    least = max(signal.least * calls, signal.least_per_block)
    return Growth(signal, counted(readings, least), per_call(rate, calls), max(1.0, least) / calls)


def _noisy_growth(signal: Signal, added: Series, calls: float, least: float) -> Growth:
    floor = max(least * calls, signal.least_per_block)
    rate = per_call(statistics.median_figure(added, signal.unit), calls)
    shift = _needed_shift(added, floor)
    if shift is None:
        return Growth(signal, Shape.SHORT, rate, None)
    return Growth(signal, weighed(added, floor), rate, _seen(added, shift, calls))


def counted(readings: Series, least: float) -> Shape:
    """The rule for exact counters; `least` is what a block must add on average to matter.

    Still: it does not grow, or falls back. A leak: it grew in three blocks at least, and goes on in the second half.
    """
    added = np.diff(readings)
    grew = int(np.count_nonzero(added > 0))
    if grew == 0 or float(added.sum()) < least * added.size or _returns(readings):
        return Shape.STILL if added.size >= LEAST_GROWING else Shape.SHORT
    if added.size < LEAST_GROWING:
        return Shape.SHORT
    if grew >= LEAST_GROWING and _goes_on(added):
        return Shape.LEAKS
    return Shape.SETTLED if _stopped(added) else Shape.UNSURE


def _returns(readings: Series) -> bool:
    """Whether the counter falls back: a later low is no higher than an earlier one, as with a collector's sawtooth."""
    half = readings.size // 2
    fell = bool(np.any(np.diff(readings) < 0))
    return fell and float(readings[half:].min()) <= float(readings[:half].min())


def _goes_on(added: Series) -> bool:
    """Whether growth is no warm-up: the second half adds enough beside the first, and the last three blocks add."""
    half = added.size // 2
    first, second = float(added[:half].mean()), float(added[-half:].mean())
    return second > 0 and second >= GOES_ON * first and float(added[-LEAST_GROWING:].max()) > 0


def _stopped(added: Series) -> bool:
    """Whether growth ended: it was one step, or the stillness since is longer than any stillness between growths.

    A tenth of the largest growth is stillness beside it: what fills a cache leaves a trickle of other things.
    """
    places = np.flatnonzero(added > TRICKLE * float(np.max(added)))
    if places.size == 1:
        return True
    since = added.size - 1 - int(places[-1])
    return since >= 2 and since > int(np.max(np.diff(places))) - 1  # noqa: PLR2004 - one still block is chance


def weighed(added: Series, floor: float) -> Shape:
    """The rule for noisy bytes: do sign and floor say that it grows, does it go on, and is the spread small enough."""
    median = float(np.median(added))
    if _shift_for_growth(added, floor) > 0:
        return Shape.STILL
    if 2 * float(np.median(added[added.size // 2 :])) < median:
        return Shape.SETTLED
    return Shape.LEAKS if median >= SPREADS * statistics.spread(added) else Shape.UNSURE


def _needed_shift(added: Series, floor: float) -> float | None:
    """How much more each block would have had to add to be called a leak; None with too few blocks for the sign rule.

    A shift of all increments leaves their spread as it is.
    """
    if statistics.sign_count(added.size, ALPHA) is None:
        return None
    return max(_shift_for_growth(added, floor), SPREADS * statistics.spread(added) - float(np.median(added)))


def _shift_for_growth(added: Series, floor: float) -> float:
    """How much more each block would have had to add for sign and floor to say that it grows; 0 or less if they do."""
    positive = statistics.sign_count(added.size, ALPHA) or added.size
    return max(float(-np.sort(added)[::-1][positive - 1]), floor - float(np.median(added)))


def _seen(added: Series, needed: float, calls: float) -> float:
    """The smallest leak per call that these increments, without their own drift, would have shown."""
    return max(needed + max(float(np.median(added)), 0.0), 0.0) / calls


def per_call(figure: Figure, calls: float) -> Figure:
    """What a block added, as what one call adds."""
    return Figure(figure.value / calls, figure.low / calls, figure.high / calls, figure.unit)


def survives_clearing(data: Mapping[str, Any], growth_: Growth) -> float | None:
    """The share of a signal's growth that jax.clear_caches() does not give back; None where it was not tried."""
    cleared = data.get("cleared")
    if not isinstance(cleared, Mapping) or not isinstance(cleared.get("grown"), Mapping):
        return None
    calls, kept = quantity(cleared, "calls"), quantity(cleared["grown"], growth_.signal.name)
    if not calls or kept is None or growth_.rate.value <= 0:
        return None
    return max(0.0, kept / calls / growth_.rate.value)
