"""What is running now, how far the run is, and how long it may still take; on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from watchdog.model import Outcome
from watchdog.publish.wording import duration, listed, one_line

_LINE_EVERY = 15.0  # seconds between lines where there is no terminal, so that a log of a night stays short
_ESTIMATE_FROM = 3  # finished cells before the time left is guessed
_SHOWN = 4  # running labels


class Progress(Protocol):
    """What the runner tells while a run goes on; labels are text for people."""

    def started(self, label: str) -> None: ...
    def finished(self, label: str, outcome: Outcome, seconds: float) -> None: ...


@contextmanager
def progress(
    total: int, console: Console, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
) -> Iterator[Progress]:
    """Show the progress of `total` cells on `console`: live in a terminal, a line now and then elsewhere.

    `console` is one of standard error: `Console(stderr=True)`. Quiet shows nothing.
    """
    tally = _Tally(total, clock)
    if quiet:
        yield tally
    elif console.is_terminal:
        with Live(
            get_renderable=lambda: _picture(tally), console=console, refresh_per_second=4, transient=True
        ) as live:
            yield _Live(tally, live)
    else:
        lines = _Lines(tally, console)
        ending = "stopped"
        try:
            yield lines
            ending = "ended"  # perhaps before all was done, where less was enough
        finally:
            lines.say(f"{tally.so_far}, {ending}")


class _Tally:
    """Counts; alone it is the quiet display."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self.total, self.done, self.faults = total, 0, 0
        self.running: dict[str, int] = {}
        self.clock, self.began = clock, clock()

    def started(self, label: str) -> None:
        self.running[label] = self.running.get(label, 0) + 1

    def finished(self, label: str, outcome: Outcome, seconds: float) -> None:  # noqa: ARG002 - other displays show it
        self.done += 1
        self.faults += outcome.is_fault
        left = self.running.get(label, 0) - 1
        if left > 0:
            self.running[label] = left
        else:
            self.running.pop(label, None)

    @property
    def elapsed(self) -> float:
        return self.clock() - self.began

    @property
    def left(self) -> float | None:
        """Seconds, were the rest like what is done; None before that means anything."""
        if self.done < _ESTIMATE_FROM or self.done > self.total:
            return None
        return self.elapsed / self.done * (self.total - self.done)

    @property
    def so_far(self) -> str:
        failed = f", {self.faults} failed" if self.faults else ""
        return f"{self.done}/{self.total}, {duration(self.elapsed)}{failed}"

    def text(self) -> str:
        return f"{self.so_far}, about {duration(self.left)} left" if self.left else self.so_far


class _Live:
    def __init__(self, tally: _Tally, live: Live) -> None:
        self._tally, self._live = tally, live

    def started(self, label: str) -> None:
        self._tally.started(label)

    def finished(self, label: str, outcome: Outcome, seconds: float) -> None:
        self._tally.finished(label, outcome, seconds)
        if outcome.is_fault:
            self._live.console.print(_ended(label, outcome, seconds))


def _picture(tally: _Tally) -> Group:
    names = [one_line(label, 70) for label in list(tally.running)[:_SHOWN]]
    more = len(tally.running) - len(names)
    running = [Text(f"  {name}", "dim", no_wrap=True, overflow="ellipsis") for name in names]
    if more > 0:
        running.append(Text(f"  and {more} more", "dim"))
    return Group(ProgressBar(max(tally.total, 1), tally.done, width=40), Text(tally.text()), *running)


class _Lines:
    """Lines: the first start, each fault, and otherwise one every so often."""

    def __init__(self, tally: _Tally, console: Console) -> None:
        self._tally, self._console = tally, console
        self._said: float | None = None

    def started(self, label: str) -> None:
        self._tally.started(label)
        if self._due():
            self.say(f"{self._tally.text()}, running {listed([one_line(name, 70) for name in self._tally.running], 3)}")

    def finished(self, label: str, outcome: Outcome, seconds: float) -> None:
        self._tally.finished(label, outcome, seconds)
        if outcome.is_fault:
            self.say(_ended(label, outcome, seconds).plain)
        elif self._due():
            self.say(f"{self._tally.text()}, last {one_line(label, 70)}")

    def say(self, sentence: str) -> None:
        self._said = self._tally.clock()
        self._console.print(Text(sentence), soft_wrap=True)

    def _due(self) -> bool:
        return self._said is None or self._tally.clock() - self._said >= _LINE_EVERY


def _ended(label: str, outcome: Outcome, seconds: float) -> Text:
    return Text.assemble(
        (outcome.value, "red"), f"  {one_line(label, 160)}  ", (duration(seconds), "dim"), overflow="fold"
    )
