"""Which line makes a counter grow: the counter read between the lines of the user's own code.

For what Python's allocators do not see: memory that C code takes, file descriptors, threads.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from .faults import is_library, is_machinery, short_path

ALIKE = 0.5  # of the growth in one half of the calls, that the other half must show at least
MOST = 5


@dataclass(frozen=True)
class LineGrowth:
    """What a counter grows by while one line runs, per call."""

    where: str
    per_call: float


def by_line(call: Callable[[], None], counter: Callable[[], float], *, calls: int, seconds: float) -> list[LineGrowth]:
    """The lines during which the counter grows, most first; only those that do so in both halves of the calls.

    At most so many calls, and about so many seconds: reading a counter at every line may cost more than the call.

    What a line takes and another one gives back shows as growth of the one and as a fall of the other; what stays is
    told by the caller, who knows the whole growth.
    """
    call()
    halves = [_traced(call, counter, max(1, calls // 2), seconds / 2) for _ in range(2)]
    (first, done_first), (second, done_second) = halves
    found = [
        LineGrowth(place, (first[place] + second[place]) / (done_first + done_second))
        for place in first
        if _alike(first[place] / done_first, second[place] / done_second)
    ]
    return sorted(found, key=lambda line: line.per_call, reverse=True)[:MOST]


def _alike(one: float, other: float) -> bool:
    return min(one, other) > ALIKE * max(one, other) > 0


def _traced(
    call: Callable[[], None], counter: Callable[[], float], calls: int, seconds: float
) -> tuple[Counter[str], int]:
    """The growth by line, and how many calls were made."""
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
    return Counter({f"{short_path(name)}:{line}": grown for (name, line), grown in tracer.grown.items()}), done


class _Tracer:
    """Reads the counter at each line of the user's code, and books the change on the line that ran until then."""

    def __init__(self, counter: Callable[[], float]) -> None:
        self.counter = counter
        self.grown: Counter[tuple[str, int]] = Counter()
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
        if running:
            change = self.counter() - self._last[thread]
            if change:
                self.grown[running[-1]] += change  # type: ignore[assignment]  # a Counter holds floats as well

    def _is_own(self, filename: str) -> bool:
        if filename not in self._own:
            self._own[filename] = not (is_library(filename) or is_machinery(filename))
        return self._own[filename]
