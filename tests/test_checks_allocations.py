"""Which lines allocate what Python keeps: tracemalloc over calls that leak on purpose."""

from __future__ import annotations

import importlib
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from tests.inside import checks

allocations = checks("allocations")

HOARDS = """
import json

kept = []


class Record:
    def __init__(self, number):
        self.number = number


def lists():
    kept.append([None] * 125)  # lists


def blobs():
    kept.append(bytes(2000))  # blobs


def instances():
    kept.append(Record(len(kept) + 1000))  # instances


def parsed():
    kept.append(json.loads('["' + "x" * 1000 + '"]'))  # parsed


def both():
    blobs()
    lists()


def replaced():
    kept[:] = [bytes(2000)]  # replaced


def clean():
    return sum([1] * 100_000)


def seldom():
    calls[0] += 1
    if calls[0] % 10 == 0:
        blobs()


def raises():
    raise RuntimeError("on purpose")


calls = [0]
"""


@pytest.fixture
def hoards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module above, imported as a user's own."""
    (tmp_path / "hoards.py").write_text(HOARDS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("hoards")
    del sys.modules["hoards"]


def line(mark: str) -> str:
    return f"hoards.py:{next(n for n, text in enumerate(HOARDS.splitlines(), 1) if text.endswith(f'# {mark}'))}"


@pytest.mark.parametrize(
    ("name", "size", "blocks"),
    [("lists", 8 * 125, 2), ("blobs", 2000, 1), ("instances", 100, 3), ("parsed", 1000, 3)],
)
def test_lists_bytes_and_instances_are_booked_on_the_line_that_keeps_them(
    hoards: ModuleType, name: str, size: int, blocks: int
) -> None:
    """Bytes and blocks per call; what the standard library allocated is on the user's line that called it."""
    worst = allocations.by_line(getattr(hoards, name), calls=100, seconds=60)[0]
    assert worst.where == line(name)
    assert size <= worst.bytes <= 1.5 * size + 100
    assert blocks <= worst.blocks < blocks + 1


def test_the_line_with_the_most_bytes_comes_first(hoards: ModuleType) -> None:
    """Of two lines that leak in one call, the one with 2,000 bytes stands before the one with 1,000."""
    found = allocations.by_line(hoards.both, calls=100, seconds=60)
    assert [one.where for one in found[:2]] == [line("blobs"), line("lists")]


def test_a_leak_in_every_tenth_call_has_a_tenth_of_the_rate(hoards: ModuleType) -> None:
    """Rates are per call, not per leak."""
    worst = allocations.by_line(hoards.seldom, calls=200, seconds=60)[0]
    assert (worst.where, worst.bytes) == (line("blobs"), pytest.approx(2000 / 10, rel=0.15))


def test_what_is_let_go_of_again_is_no_growth(hoards: ModuleType) -> None:
    """A call that keeps its last result only holds as much after a hundred calls as after one."""
    found = allocations.by_line(hoards.replaced, calls=100, seconds=60)
    assert not [one for one in found if one.where.startswith("hoards.py") and one.bytes >= 1]


def test_a_clean_call_names_none_of_its_lines(hoards: ModuleType) -> None:
    """What a call makes and drops is no growth, however much it is."""
    found = allocations.by_line(hoards.clean, calls=100, seconds=60)
    assert not [one for one in found if one.where.startswith("hoards.py")]


def test_the_rate_is_over_the_calls_that_were_made(hoards: ModuleType) -> None:
    """Where the time is up at once, a few calls are made all the same, and the rate is theirs."""
    found = allocations.by_line(hoards.blobs, calls=100, seconds=0)
    assert len(hoards.kept) == 1 + allocations.FEWEST
    assert found[0].bytes >= 2000


@pytest.mark.parametrize(
    ("name", "ends"), [("lists", nullcontext()), ("raises", pytest.raises(RuntimeError, match="on purpose"))]
)
def test_tracing_ends_with_the_pass(hoards: ModuleType, name: str, ends: AbstractContextManager[object]) -> None:
    """Nothing is traced afterwards, whether the calls succeed or raise, and what they raise is not swallowed."""
    traced = []

    def call() -> None:
        traced.append(tracemalloc.is_tracing())
        getattr(hoards, name)()

    with ends:
        allocations.by_line(call, calls=5, seconds=60)
    assert traced
    assert all(traced)
    assert not tracemalloc.is_tracing()
