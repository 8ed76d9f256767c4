"""Requests in equal blocks with a reading after each: the counters are the tests' own, the collector is Python's."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.inside import checks

jax = SimpleNamespace(effects_barrier=lambda: None)


class Tied:
    """An object in a cycle: the collector alone frees it."""

    alive = 0

    def __init__(self) -> None:
        self.me = self
        Tied.alive += 1

    def __del__(self) -> None:
        Tied.alive -= 1


@dataclass
class Service:
    """What is watched: `request` is served, `log` says in which order things happened."""

    request: Callable[[], object] = lambda: None
    served: int = 0
    log: list[str] = field(default_factory=list)

    def call(self) -> None:
        self.served += 1
        self.log.append("call")
        self.request()

    def settle(self) -> None:
        self.log.append("settle")

    def counters(self) -> dict[str, float]:
        self.log.append("read")
        return {"calls": self.served}

    def buffers(self) -> dict[str, float]:
        return {"buffers": Tied.alive}


@pytest.fixture
def service() -> Service:
    gc.collect()
    return Service()


@pytest.fixture
def watch(service: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A watch over the service, with room for ten samples."""
    monkeypatch.setitem(sys.modules, "jax", jax)
    watching = checks("watching")
    found = checks("samplers").Samplers((service.counters, service.buffers), ())
    monkeypatch.setattr(watching, "samplers", lambda: found)
    return watching.Watch(checks("scenarios").Requests(service.call, service.settle), room=10)


def test_a_sample_follows_each_block(service: Service, watch: Any) -> None:
    """Blocks are of equal size, and the series has what was read after each, and no more."""
    for _ in range(3):
        watch.block(5)
    assert service.served == 15
    assert watch.readings("calls") == [5, 10, 15]
    assert watch.all_readings() == {"calls": [5, 10, 15], "buffers": [0, 0, 0], "buffers.uncollected": [0, 0, 0]}


def test_counters_are_read_when_nothing_is_in_flight(service: Service, watch: Any) -> None:
    """Every request of a block is waited for before the reading."""
    service.log.clear()
    watch.block(2)
    read = service.log.index("read")
    assert service.log[:2] == ["call", "call"]
    assert service.log[read - 1] == "settle"
    assert "call" not in service.log[read:]


def test_what_waits_for_the_collector_is_read_before_it_and_after(service: Service, watch: Any) -> None:
    """A cycle for each request is held at the end of a block, and gone after the collection."""
    service.request = Tied
    for _ in range(2):
        watch.block(4)
    assert watch.readings("buffers.uncollected") == [4, 4]
    assert watch.readings("buffers") == [0, 0]


def test_only_what_a_cycle_can_hold_is_read_twice(watch: Any) -> None:
    """Buffers and their bytes; for other counters there is no reading before the collection."""
    assert set(watch.series) == {"calls", "buffers", "buffers.uncollected"}
    assert set(watch.glance()) == {"buffers"}


def test_a_glance_collects_nothing(watch: Any) -> None:
    """It tells what is held now."""
    gc.disable()
    try:
        Tied()
        assert watch.glance() == {"buffers": 1}
    finally:
        gc.enable()


def test_the_collector_is_off_in_a_block_and_on_after_it(service: Service, watch: Any) -> None:
    """Its moods do not show, and the process is left as it was."""
    found: list[bool] = []
    service.request = lambda: found.append(gc.isenabled())
    watch.block(3)
    assert found == [False] * 3
    assert gc.isenabled()


def test_the_collector_is_on_again_when_a_request_raises(service: Service, watch: Any) -> None:
    """What the request raised comes through, and no reading is kept of the block that broke off."""

    def refuses() -> None:
        message = "no capacity"
        raise LookupError(message)

    service.request = refuses
    with pytest.raises(LookupError, match="no capacity"):
        watch.block(3)
    assert gc.isenabled()
    assert watch.readings("calls") == []


def test_what_sampling_keeps_by_itself_is_a_rate_of_samples(service: Service, watch: Any) -> None:
    """Without a request: a counter that each reading moves by two is told, and one that stands still is zero."""
    readings = iter(range(0, 1000, 2))
    watch._groups = [lambda: {"moved": next(readings), "still": 7}]
    assert watch.own_growth() == {"moved": 2.0, "still": 0.0}
    assert service.served == 0
    assert watch.samples == 0


def test_requests_and_readings_are_timed_apart(watch: Any) -> None:
    """Serving alone adds to the one clock, sampling to the other."""
    watch.serve(50)
    assert (watch.calls_seconds > 0, watch.sampling_seconds) == (True, 0)
    served = watch.calls_seconds
    watch.sample()
    assert (watch.calls_seconds, watch.sampling_seconds > 0) == (served, True)


def test_readings_take_room_that_was_set_aside(watch: Any) -> None:
    """The series is as long at the start as at the end, so that watching does not grow."""
    sizes = {name: sys.getsizeof(series) for name, series in watch.series.items()}
    for _ in range(10):
        watch.sample()
    assert {name: sys.getsizeof(series) for name, series in watch.series.items()} == sizes
    with pytest.raises(IndexError):
        watch.sample()
