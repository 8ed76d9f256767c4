"""How long does a call take on this machine's device? pytest-benchmark's rounds of the compiled call."""

from __future__ import annotations

from pytest_benchmark.fixture import BenchmarkFixture

from .conftest import Ask
from .emit import Observed
from .probes import timing
from .subject import Subject


def test_timing(ask: Ask, benchmark: BenchmarkFixture) -> None:
    def probe(subject: Subject) -> Observed:
        return timing.probe(subject, benchmark)

    ask(probe)
