"""Which lines allocate what Python keeps from call to call: tracemalloc, in a pass of its own.

It sees what goes through Python's allocators (objects, NumPy arrays), and nothing that C code takes by itself.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .faults import is_library, is_machinery, short_path

FRAMES = 25  # deep enough to reach the user's line below jax's own
FEWEST = 3  # calls, however slow they are
MOST = 5
_UNKNOWN = "<unknown>"


@dataclass(frozen=True)
class Allocation:
    """What the allocations of one line grow by, per call."""

    where: str
    bytes: float
    blocks: float


def by_line(call: Callable[[], None], *, calls: int, seconds: float) -> list[Allocation]:
    """The lines whose allocations are more after some calls, most bytes first.

    At most so many calls, and about so many seconds: under deep stacks tracing costs up to 40 times the call itself.
    """
    tracemalloc.start(FRAMES)
    try:
        call()
        before = _by_stack()
        give_up, done = time.monotonic() + seconds, 0
        while done < calls and (done < FEWEST or time.monotonic() < give_up):
            call()
            done += 1
        after = _by_stack()
    finally:
        tracemalloc.stop()
    sizes, counts = Counter[str](), Counter[str]()
    for stack, (size, count) in after.items():
        if stack[-1].filename == tracemalloc.__file__:  # a snapshot's own
            continue
        old_size, old_count = before.get(stack, (0, 0))
        place = _place(stack)
        sizes[place] += size - old_size
        counts[place] += count - old_count
    grown = [
        Allocation(place, sizes[place] / done, counts[place] / done)
        for place in sizes
        if sizes[place] > 0 and place != _UNKNOWN
    ]
    return sorted(grown, key=lambda one: one.bytes, reverse=True)[:MOST]


def _by_stack() -> dict[tracemalloc.Traceback, tuple[int, int]]:
    gc.collect()
    statistics = tracemalloc.take_snapshot().statistics("traceback")
    return {one.traceback: (one.size, one.count) for one in statistics}


def _place(stack: tracemalloc.Traceback) -> str:
    """The innermost line of the user's code, else the innermost that is not the checks' own."""
    innermost = None
    for frame in reversed(stack):  # a traceback has its innermost frame last
        if is_machinery(frame.filename):
            continue
        place = f"{short_path(frame.filename)}:{frame.lineno}"
        if not is_library(frame.filename):
            return place
        innermost = innermost or place
    return innermost or _UNKNOWN
