"""Who allocated, who holds, and which cache grows: searches in a process that leaks on purpose."""

from __future__ import annotations

import importlib
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.inside import checks

allocations, caches, holders, lines = (checks(name) for name in ("allocations", "caches", "holders", "lines"))

LEAKY = """
import ctypes
import functools
import os
import threading

malloc = ctypes.CDLL(None).malloc
malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
kept, by_name, calls = [], {}, [0]
never = threading.Event()
opened = []


class Thing:
    def __init__(self):
        self.payload = [0] * 50  # a thing

    def __repr__(self):
        raise RuntimeError("not to be called")

    __eq__ = __hash__ = __bool__ = __len__ = __repr__


class Shelf:
    everything = []

    def __init__(self):
        self.things = []


shelf = Shelf()


def clean():
    return sum([1] * 100)


def keeps_things():
    kept.append(Thing())


def keeps_bytes():
    kept.append(os.urandom(300))  # bytes


def opens():
    opened.append(os.open(os.devnull, os.O_RDONLY))  # opens


def seldom_opens():
    calls[0] += 1
    if calls[0] % 20 == 0:
        opens()


def starts_thread():
    threading.Thread(target=never.wait, daemon=True).start()  # starts


def borrows():
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)


def fails():
    opens()
    raise ValueError("after it")


def closure():
    thing = Thing()
    return lambda: thing


@functools.lru_cache(maxsize=64)
def remembered(number):
    return Thing()


def generator():
    thing = Thing()
    yield thing


def dies():
    thing = Thing()
    raise ValueError(thing)
"""


@pytest.fixture
def leaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module above, as a user's own code, imported afresh."""
    (tmp_path / "leaky.py").write_text(LEAKY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("leaky", None)
    return importlib.import_module("leaky")


def line(mark: str) -> str:
    return f"leaky.py:{next(number for number, one in enumerate(LEAKY.splitlines(), 1) if mark in one)}"


def descriptors() -> float:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class TestAllocations:
    @pytest.mark.parametrize(("name", "mark"), [("keeps_things", "# a thing"), ("keeps_bytes", "# bytes")])
    def test_the_line_that_keeps_is_named_with_its_rate(self, leaky: ModuleType, name: str, mark: str) -> None:
        """Bytes per call of what Python allocated, at the user's line."""
        found = allocations.by_line(getattr(leaky, name), calls=50, seconds=60)
        assert found[0].where == line(mark)
        assert 300 <= found[0].bytes <= 600
        assert found[0].blocks >= 1

    def test_a_clean_call_names_nothing_large(self, leaky: ModuleType) -> None:
        """Temporary objects are no growth."""
        assert all(one.bytes < 10 for one in allocations.by_line(leaky.clean, calls=50, seconds=60))

    def test_tracing_ends_when_the_call_raises(self, leaky: ModuleType) -> None:
        """The process is left as it was."""
        with pytest.raises(ValueError, match="after it"):
            allocations.by_line(leaky.fails, calls=5, seconds=60)
        assert not tracemalloc.is_tracing()


class TestLines:
    @pytest.mark.parametrize(("name", "rate"), [("opens", 1.0), ("seldom_opens", 0.05)])
    def test_the_line_that_opens_is_named(self, leaky: ModuleType, name: str, rate: float) -> None:
        """In a callee as well, and where it leaks once in twenty calls."""
        found = lines.by_line(getattr(leaky, name), descriptors, calls=200, seconds=60)
        assert found[0].where == line("# opens")
        assert found[0].per_call == pytest.approx(rate)

    def test_a_thread_is_named_by_the_line_that_starts_it(self, leaky: ModuleType) -> None:
        """The count of threads is a counter like any other."""
        found = lines.by_line(
            leaky.starts_thread, lambda: sum(1 for _ in Path("/proc/self/task").iterdir()), calls=20, seconds=60
        )
        leaky.never.set()
        assert (found[0].where, found[0].per_call) == (line("# starts"), 1.0)

    def test_the_former_trace_function_is_put_back(self, leaky: ModuleType) -> None:
        """Even when the call raises."""
        before = sys.gettrace()
        with pytest.raises(ValueError, match="after it"):
            lines.by_line(leaky.fails, descriptors, calls=3, seconds=60)
        assert sys.gettrace() is before


def put_into(leaky: ModuleType) -> dict[str, Callable[[Any], object]]:
    """Ways of keeping a thing, by what must be said of the holder."""
    return {
        "kept": leaky.kept.append,
        "by_name": lambda thing: leaky.by_name.setdefault("x", thing),
        "shelf.things": leaky.shelf.things.append,
        "class Shelf": leaky.Shelf.everything.append,
    }


class TestHolders:
    @pytest.mark.parametrize("name", ["kept", "by_name", "shelf.things", "class Shelf"])
    def test_what_has_a_name_is_named(self, leaky: ModuleType, name: str) -> None:
        """Lists, dictionaries, attributes of objects and of classes, without calling the thing's own methods."""
        thing = leaky.Thing()
        put_into(leaky)[name](thing)
        found = holders.holder_of(thing)
        assert found is not None
        assert found.name == name
        assert not found.library
        assert found.chain[0] == "Thing"

    def test_the_line_is_that_of_the_first_assignment(self, leaky: ModuleType) -> None:
        """Where a reader finds the name."""
        thing = leaky.Thing()
        leaky.kept.append(thing)
        assert holders.holder_of(thing).where == line("kept, by_name, calls")

    def test_a_closure(self, leaky: ModuleType) -> None:
        """The variable and the function that closes over it."""
        function = leaky.closure()
        leaky.kept.append(function)
        found = holders.holder_of(function())
        assert found.name == "thing, which closure.<locals>.<lambda> closes over"

    def test_an_lru_cache(self, leaky: ModuleType) -> None:
        """The cached function, with its line."""
        found = holders.holder_of(leaky.remembered(1))
        assert found.name == "the lru_cache of remembered"
        assert found.where == line("@functools.lru_cache")

    def test_a_suspended_generator(self, leaky: ModuleType) -> None:
        """A frame that waits holds its local variables."""
        waiting = leaky.generator()
        assert "thing in" in holders.holder_of(next(waiting)).name

    def test_behind_a_kept_frame_is_who_keeps_it(self, leaky: ModuleType) -> None:
        """An exception's traceback keeps the frame of a call that has ended; the list of exceptions is the holder."""
        try:
            leaky.dies()
        except ValueError as error:
            leaky.kept.append(error)
        assert holders.holder_of(leaky.kept[0].args[0]).name == "kept"

    def test_what_nobody_holds(self, leaky: ModuleType) -> None:
        """A thing that only this test knows has no holder in the user's code."""
        thing = leaky.Thing()
        found = holders.holder_of(thing)
        assert found is None or "leaky" not in (found.where or "")


class TestCaches:
    def test_the_one_that_grew_is_told_with_its_limit(self, leaky: ModuleType) -> None:
        """Entries gained, and how many it holds at most."""
        found = caches.find()
        before = caches.sizes(found)
        for number in range(7):
            leaky.remembered(number)
        (grown,) = [one for one in caches.grown(before, caches.sizes(found)) if one.name == "remembered"]
        assert (grown.entries, grown.limit, grown.library) == (7, 64, False)
