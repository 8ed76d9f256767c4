"""Which caches grow, and how much they hold at most.

Found are Python's `functools.lru_cache`s, and what jax's modules keep behind functions that have a `cache_info` (in
jaxlib, `weakref_lru_cache`). jax's dispatch caches in C++ are not among them.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .faults import is_library, short_path

MOST = 8
LRU: type = type(functools.lru_cache(len))


@dataclass(frozen=True)
class CacheSize:
    """A cache with the entries it holds; `limit` is None where it has none."""

    name: str
    where: str | None
    library: bool
    entries: int
    limit: int | None


def find() -> dict[str, Any]:
    """Every such cache, by a name that tells it from others. Frozen objects are invisible to the collector's list."""
    by_identity = {id(one): (str(id(one)), one) for one in gc.get_objects() if type(one) is LRU}
    by_identity |= {id(one): (name, one) for name, one in _of_jax() if id(one) not in by_identity}
    return dict(by_identity.values())


def _of_jax() -> Iterator[tuple[str, Any]]:
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] not in ("jax", "jaxlib"):
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, type):
                continue
            if callable(getattr(value, "cache_info", None)):
                yield f"{module_name}.{name}", value


def sizes(found: dict[str, Any]) -> dict[str, CacheSize]:
    """What each cache holds now."""
    return {name: _size(name, cache) for name, cache in found.items()}


def grown(before: dict[str, CacheSize], after: dict[str, CacheSize]) -> list[CacheSize]:
    """The caches that hold more than before, with the entries they gained, most first."""
    found = []
    for key, now in after.items():
        gained = now.entries - (before[key].entries if key in before else 0)
        if gained > 0:
            found.append(CacheSize(now.name, now.where, now.library, gained, now.limit))
    return sorted(found, key=lambda one: one.entries, reverse=True)[:MOST]


def _size(key: str, cache: Any) -> CacheSize:
    info = cache.cache_info()
    limit = info.maxsize if info.maxsize is not None and info.maxsize >= 0 else None
    function = function_of(cache)
    if function is None:
        return CacheSize(_name(key, cache), None, _in_library(cache), int(info.currsize), limit)
    code = function.__code__
    where = f"{short_path(code.co_filename)}:{code.co_firstlineno}"
    return CacheSize(function.__qualname__, where, is_library(code.co_filename), int(info.currsize), limit)


def function_of(cache: Any) -> types.FunctionType | None:
    """The Python function that a cache wraps; None where it wraps a class, or something that C code made."""
    wrapped = getattr(cache, "__wrapped__", None)
    if type(wrapped) is types.MethodType:
        wrapped = wrapped.__func__
    return wrapped if type(wrapped) is types.FunctionType else None


def _name(key: str, cache: Any) -> str:
    """By what it wraps, whose name `functools` gives to the cache as well, or as jax's module names it."""
    if type(cache) is not LRU:
        return key.rpartition(".")[2]
    return str(getattr(cache, "__qualname__", None) or type(getattr(cache, "__wrapped__", cache)).__qualname__)


def _in_library(cache: Any) -> bool:
    file = getattr(sys.modules.get(str(cache.__module__)), "__file__", None) if type(cache) is LRU else None
    return not isinstance(file, str) or is_library(file)
