"""Which line makes a counter grow: the counter read between the lines of the user's own code.

For what Python's allocators do not see: memory that C code takes, file descriptors, threads.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from .faults import is_library, is_machinery, short_path

MOST = 5


@dataclass(frozen=True)
class LineGrowth:
    """What a counter grows by while one line runs, per call."""

    where: str
    per_call: float


def by_line(call: Callable[[], None], counter: Callable[[], float], *, calls: int, seconds: float) -> list[LineGrowth]:
    """The lines during which the counter grows, most first.

    At most so many calls, and about so many seconds: reading a counter at every line may cost more than the call.
    What a line takes and another one gives back shows as growth of the one and as a fall of the other; which of them
    keeps something is told by the caller, who knows the whole growth.
    """
    call()
    tracer = _Tracer(counter)
    before, before_of_threads = sys.gettrace(), threading.gettrace()
    give_up, done = time.monotonic() + seconds, 0
    threading.settrace(tracer.enter)
    sys.settrace(tracer.enter)
    try:
        while done < calls and (done == 0 or time.monotonic() < give_up):
            call()
            done += 1
    finally:
        sys.settrace(before)
        threading.settrace(before_of_threads)
    found = [
        LineGrowth(f"{short_path(name)}:{line}", _typical(changes) / done)
        for (name, line), changes in tracer.changes.items()
    ]
    return sorted((one for one in found if one.per_call > 0), key=lambda one: one.per_call, reverse=True)[:MOST]


def _typical(changes: Counter[float]) -> float:
    """The sum over all times that the line ran.

    By the median where it takes something nearly always, for other threads' work does not move that; else exactly.
    """
    if _quantile(changes, 0.25) > 0:
        return _quantile(changes, 0.5) * changes.total()
    return sum(value * count for value, count in changes.items())


def _quantile(changes: Counter[float], share: float) -> float:
    """The change that this share of all times do not exceed."""
    ordered = sorted(changes)
    reached = itertools.accumulate(changes[change] for change in ordered)
    return next(change for change, times in zip(ordered, reached, strict=True) if times >= share * changes.total())


class _Tracer:
    """Reads the counter at each line of the user's code, and books the change on the line that ran until then."""

    def __init__(self, counter: Callable[[], float]) -> None:
        self.counter = counter
        self.changes: dict[tuple[str, int], Counter[float]] = {}  # how often each change, by line
        self._running: dict[int, list[tuple[str, int]]] = {}  # by thread: the lines that wait for their callees
        self._last: dict[int, float] = {}
        self._own: dict[str, bool] = {}

    def enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """A call: what the caller's line did so far is the caller's; the callee's lines are booked by themselves."""
        if not self._is_own(frame.f_code.co_filename):
            return None
        thread = threading.get_ident()
        self._book(thread)
        self._running.setdefault(thread, []).append((frame.f_code.co_filename, frame.f_lineno))
        self._last[thread] = self.counter()
        return self.step

    def step(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """A line, a return or an exception inside a frame of the user's."""
        thread = threading.get_ident()
        self._book(thread)
        running = self._running.setdefault(thread, [])
        if event == "return":
            if running:
                running.pop()
        elif event == "line" and running:
            running[-1] = (frame.f_code.co_filename, frame.f_lineno)
        self._last[thread] = self.counter()
        return self.step

    def _book(self, thread: int) -> None:
        running = self._running.get(thread)
        if not running:
            return
        change = self.counter() - self._last[thread]
        self.changes.setdefault(running[-1], Counter())[change] += 1
        for other in list(self._last):  # what one thread's line takes is not the doing of another's that waits for it
            if other != thread:
                self._last[other] += change

    def _is_own(self, filename: str) -> bool:
        if filename not in self._own:
            self._own[filename] = not (is_library(filename) or is_machinery(filename))
        return self._own[filename]
