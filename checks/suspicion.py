"""Which counters deserve a second look. Wide on purpose: a suspicion costs seconds, and the judge decides."""

from __future__ import annotations

import itertools
import math

from .watching import Watch

EXACT = ("buffers", "live_arrays", "live_executables", "fds", "threads", "objects")
HEAP_FLOOR, COARSE_FLOOR = 24.0, 1024.0  # bytes per call, below which the heap is not worth a second look
PERIOD = 2000  # calls in a series, below which only the coarse floor can be told from jax's own ups and downs
BLOCKS_FLOOR = 0.5  # of Python's memory per call, likewise; in shorter series they tell nothing
PER_BLOCK = {"heap_bytes": 8192.0, "blocks": 50.0, "objects": 5.0}  # what single calls' own bookkeeping may cost
FLAT = ("rss_bytes", "maps", "device_peak_bytes", "device_allocations", "device_largest_free_bytes")


def suspects(watch: Watch, calls: int) -> list[str]:
    """The signals that deserve a longer look: still growing in the second half, or emptied by the collector alone."""
    found = []
    for name in watch.series:
        signal, _, uncollected = name.partition(".")
        readings = watch.readings(name)
        if uncollected:
            held = [before - after for before, after in zip(readings, watch.readings(signal), strict=True)][1:]
            if signal.startswith(("buffer", "device")) and min(held) > 0:
                found.append(name)
        elif signal not in FLAT and _still_grows(readings[1:], _floor(signal, calls, watch.samples - 1)):
            found.append(name)
    return found


def _floor(signal: str, calls: int, blocks: int) -> float:
    """What half of a series must have grown by, to be worth a longer look."""
    fine = calls * blocks >= PERIOD
    per_call = {"heap_bytes": HEAP_FLOOR if fine else COARSE_FLOOR, "blocks": BLOCKS_FLOOR if fine else math.inf}
    return max(per_call.get(signal, 0.0) * calls, PER_BLOCK.get(signal, 0.0)) * (blocks // 2)


def _still_grows(readings: list[float], floor: float) -> bool:
    """Whether the lows of the second half lie above those of the first, and the end above the middle."""
    middle = len(readings) // 2
    early, late = min(readings[:middle]), min(readings[middle:])
    return late - early > floor and readings[-1] > readings[middle]


def is_plain(watch: Watch, least: int) -> bool:
    """Whether a counter that is exactly still on a sound kernel grew in every block since the first, `least` in all."""
    if watch.samples <= least:
        return False
    return any(_always_grew(watch.readings(name)[1:]) for name in EXACT if name in watch.series)


def _always_grew(readings: list[float]) -> bool:
    return all(later > sooner for sooner, later in itertools.pairwise(readings))


def waits(suspects: list[str]) -> bool:
    """Whether something waits for the collector."""
    return any("." in name for name in suspects)
