"""Which caches grow: caches of a user's module, filled on purpose, and what jax's modules keep."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.inside import checks

caches = checks("caches")

REMEMBERS = """
from functools import cache, lru_cache, partial


@lru_cache(maxsize=4)
def bounded(number):
    return [number]


@cache
def unbounded(number):
    return [number]


class Service:
    def __init__(self):
        self.answer = cache(self.answer)

    def answer(self, number):
        return [number]


class Tile:
    def __init__(self, number):
        self.number = number


service = Service()
tiles = lru_cache(maxsize=None)(Tile)
doubled = lru_cache(maxsize=None)(partial(pow, 2))
lengths = lru_cache(maxsize=None)(len)


def makes():
    return cache(lambda number: number)
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module above, imported as a user's own."""
    (tmp_path / "remembers.py").write_text(REMEMBERS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("remembers")
    del sys.modules["remembers"]


def line(mark: str) -> str:
    return f"remembers.py:{next(n for n, text in enumerate(REMEMBERS.splitlines(), 1) if mark in text)}"


def grown(fill: Any, values: Any) -> list[Any]:
    """What has grown once `fill` was called with each value."""
    before = caches.sizes(caches.find())
    for value in values:
        fill(value)
    found: list[Any] = caches.grown(before, caches.sizes(caches.find()))
    return found


def test_entries_gained_are_told_with_the_limit(user: ModuleType) -> None:
    """A cache without a limit has none; its function is named with its line, as the user's."""
    assert grown(user.unbounded, range(9)) == [
        caches.CacheSize("unbounded", line("@cache"), library=False, entries=9, limit=None)
    ]


def test_a_full_cache_does_not_grow(user: ModuleType) -> None:
    """It gains what it has room for, and nothing after that."""
    assert [(one.entries, one.limit) for one in grown(user.bounded, range(9))] == [(4, 4)]
    assert grown(user.bounded, range(9, 99)) == []


def test_the_cache_that_gained_most_comes_first(user: ModuleType) -> None:
    """Eight are told at most."""
    made = [user.makes() for _ in range(10)]

    def fill(number: int) -> None:
        for one in made[number:]:
            one(number)

    found = grown(fill, range(10))
    assert [one.entries for one in found] == list(range(10, 2, -1))


@pytest.mark.parametrize(
    ("cache", "name", "where", "library"),
    [
        ("service.answer", "Service.answer", "def answer", False),
        ("tiles", "Tile", None, False),
        ("lengths", "len", None, True),
        ("doubled", "partial", None, True),
    ],
)
def test_a_cache_has_the_name_of_what_it_wraps(
    user: ModuleType, cache: str, name: str, where: str | None, *, library: bool
) -> None:
    """A method with its line; a class, a function of C and a partial by name, never by a number."""
    owner, _, attribute = cache.rpartition(".")
    wrapping = getattr(getattr(user, owner) if owner else user, attribute)
    (found,) = grown(wrapping, ["a"] if cache == "lengths" else [7])
    assert (found.name, found.where, found.library) == (name, where and line(where), library)


@dataclass
class Stub:
    """As jaxlib's caches tell their size; -1 is no limit."""

    currsize: int = 0
    maxsize: int = -1

    def cache_info(self) -> Stub:
        return self


def test_what_jax_keeps_is_found_by_its_name(user: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thing in one of jax's modules that tells its size is a cache; under two names it is one, and a class is none."""
    module, kept = ModuleType("jax._src.stub"), Stub()
    vars(module).update(compiled=kept, alias=kept, Stub=Stub, ours=user.unbounded)
    monkeypatch.setitem(sys.modules, "jax._src.stub", module)
    found = caches.find()
    assert [one for one in found.values() if one is kept] == [kept]
    assert Stub not in found.values()
    before = caches.sizes(found)
    kept.currsize = 12
    (growing,) = caches.grown(before, caches.sizes(found))
    assert growing.name in ("compiled", "alias")
    assert (growing.where, growing.library, growing.entries, growing.limit) == (None, True, 12, None)


def test_a_cache_that_is_new_has_gained_all_that_it_holds(user: ModuleType) -> None:
    """A function may make its cache while it is watched."""
    before = caches.sizes(caches.find())
    late = user.makes()
    late(1), late(2)
    (found,) = caches.grown(before, caches.sizes(caches.find()))
    assert (found.name, found.entries) == ("makes.<locals>.<lambda>", 2)
