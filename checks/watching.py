"""Requests in equal blocks, and every counter read after each: the series that the memory judge sees."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .samplers import UNCOLLECTED, read_all, samplers
from .scenarios import Requests

IDLE = 4  # samples without a call, for what sampling itself keeps


@dataclass
class Watch:
    """Serves requests and keeps the readings, in room that was set aside before the first of them."""

    requests: Requests
    room: int  # samples
    calls_seconds: float = 0.0
    sampling_seconds: float = 0.0
    samples: int = 0
    series: dict[str, array[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = samplers()
        self._groups, self.unreadable = found.groups, found.unreadable
        self._glances = [group for group in self._groups if set(UNCOLLECTED).intersection(group())]
        names = read_all(self._groups)
        kept = [*names, *(f"{name}.uncollected" for name in UNCOLLECTED if name in names)]
        self.series = {name: array("d", bytes(8 * self.room)) for name in kept}

    @property
    def seconds(self) -> float:
        """What calls and sampling took so far."""
        return self.calls_seconds + self.sampling_seconds

    def block(self, calls: int) -> None:
        """So many requests with the collector off, so that its moods do not show; then a sample."""
        with collector_off():
            self.serve(calls)
            self.sample()

    def serve(self, calls: int) -> None:
        """Requests alone."""
        began = time.perf_counter()
        for _ in range(calls):
            self.requests.call()
        self.requests.settle()
        self.calls_seconds += time.perf_counter() - began

    def sample(self) -> None:
        """One reading of each counter into the series, after a collection; of some, one before it as well."""
        began = time.perf_counter()
        before, after = self.read()
        for name, value in after.items():
            self.series[name][self.samples] = value
        for name in UNCOLLECTED:
            if name in before:
                self.series[f"{name}.uncollected"][self.samples] = before[name]
        self.samples += 1
        self.sampling_seconds += time.perf_counter() - began

    def read(self) -> tuple[dict[str, float], dict[str, float]]:
        """What the collector may free before a collection, and every counter after it, when nothing is in flight."""
        import jax

        self.requests.settle()
        jax.effects_barrier()
        before = self.glance()
        gc.collect()
        return before, read_all(self._groups)

    def glance(self) -> dict[str, float]:
        """The counters of `UNCOLLECTED` now, without a collection."""
        return read_all(self._glances)

    def own_growth(self) -> dict[str, float]:
        """What one sample keeps of each counter by itself; the readings of the series begin after it."""
        self.read()
        first = self.read()[1]
        for _ in range(IDLE):
            last = self.read()[1]
        return {name: (last[name] - first[name]) / IDLE for name in first}

    def readings(self, name: str) -> list[float]:
        """The series of one signal, as far as it goes."""
        return list(self.series[name][: self.samples])

    def all_readings(self) -> dict[str, list[float]]:
        return {name: self.readings(name) for name in self.series}


@contextmanager
def collector_off() -> Iterator[None]:
    """The cyclic collector runs only where it is called."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
