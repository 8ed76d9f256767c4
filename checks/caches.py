"""Which caches grow, and how much they hold at most.

Found are Python's `functools.lru_cache`s, and what jax's modules keep behind functions that have a `cache_info` (in
jaxlib, `weakref_lru_cache`). jax's dispatch caches in C++ are not among them.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .faults import is_library, short_path

MOST = 8
_LRU: type = type(functools.lru_cache(len))


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
    by_identity = {id(one): (str(id(one)), one) for one in gc.get_objects() if type(one) is _LRU}
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
    code = getattr(getattr(cache, "__wrapped__", None), "__code__", None)
    if code is None:
        return CacheSize(key.rpartition(".")[2], None, library=True, entries=int(info.currsize), limit=limit)
    name = getattr(cache.__wrapped__, "__qualname__", key)
    where = f"{short_path(code.co_filename)}:{code.co_firstlineno}"
    return CacheSize(str(name), where, is_library(code.co_filename), int(info.currsize), limit)
