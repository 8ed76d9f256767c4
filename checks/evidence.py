"""After a suspicion: which line made what stays, who keeps it, and which cache grows.

A trail is laid before the look and after its first block. It is followed at the end of the look, before anything is
cleared; what needs further calls (allocations, lines) comes last.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from . import allocations, caches, holders, lines, profile
from .samplers import counter
from .scenarios import Requests
from .watching import Watch, collector_off

PASS_SECONDS = 0.7  # of calls in each pass that makes further ones
SLOWEST = 0.1  # seconds of a call that is worth tracing, which takes up to forty times as long
FEWEST, MOST = 4, 400  # calls in such a pass
MOST_TYPES = 5
BY_LINE = ("fds", "threads", "heap_bytes")  # counters that can be read line by line


@dataclass
class Trail:
    """What was there after the first block, and what is found by it. Made before anything is frozen, which hides it."""

    caches: dict[str, Any] = field(default_factory=dict)
    before: profile.Profile = field(default_factory=profile.Profile)
    sizes: dict[str, Any] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    arrays: set[int] = field(default_factory=set)
    found: dict[str, Any] = field(default_factory=lambda: {"notes": []})

    def __post_init__(self) -> None:
        self.caches = self._look(caches.find) or {}

    def begin(self) -> None:
        """Remember what is alive now."""
        import jax

        self.before = self._look(profile.take) or self.before
        self.sizes = self._look(lambda: caches.sizes(self.caches)) or {}
        self.known = {id(one) for one in gc.get_objects()}
        self.arrays = {id(array) for array in jax.live_arrays()}

    def follow(self) -> None:
        """What came since, while it is still held."""
        newcomers = [one for one in gc.get_objects() if id(one) not in self.known]
        self.found["sites"] = self._look(lambda: profile.growth(self.before, profile.take()))
        self.found["caches"] = self._look(self._grown_caches)
        self.found["types"] = self._look(lambda: _most(newcomers))
        self.found["holder"] = self._look(lambda: self._holder(newcomers))

    def follow_cycles(self, watch: Watch, calls: int) -> None:
        """What these calls leave to the collector, with it off: it is gone after a collection."""
        with collector_off():
            watch.serve(calls)
            newcomers = [one for one in gc.get_objects() if id(one) not in self.known]
            self.found["sites"] = self._look(lambda: profile.growth(self.before, profile.take()))
            self.found["types"] = self._look(lambda: _most(newcomers))
            self.found["cycle_of"] = self._look(lambda: _class_of_a_cycle(newcomers))

    def retrace(self, requests: Requests, suspects: list[str], seconds: float) -> None:
        """The passes that make further calls, each of which takes so many seconds.

        Buffers and executables have their line from the profile already; the heap that grows with them is theirs.
        """
        if seconds > SLOWEST:
            self.found["notes"].append("a call takes too long to be traced line by line")
            return
        calls = max(FEWEST, min(MOST, int(PASS_SECONDS / max(seconds, 1e-9))))
        on_device = {"buffers", "live_executables"}.intersection(suspects)
        if not on_device and {"objects", "blocks", "heap_bytes"}.intersection(suspects):
            self.found["allocations"] = self._look(
                lambda: [asdict(one) for one in allocations.by_line(requests.call, calls=calls, seconds=PASS_SECONDS)]
            )
        wanted = [one for one in BY_LINE if one in suspects and not (one == "heap_bytes" and on_device)]
        found = [self._look(functools.partial(_lines, requests, signal, calls)) for signal in wanted]
        self.found["lines"] = [line for some in found for line in some or []]

    def _look(self, search: Callable[[], Any]) -> Any:
        """A search that fails leaves a note: that something stays is known without it."""
        try:
            return search()
        except Exception as error:
            self.found["notes"].append(f"a search failed: {type(error).__name__}: {str(error)[:200]}")
            return None

    def _grown_caches(self) -> list[dict[str, Any]]:
        return [asdict(one) for one in caches.grown(self.sizes, caches.sizes(self.caches | caches.find()))]

    def _holder(self, newcomers: list[Any]) -> dict[str, Any] | None:
        """Of an array that stayed, else of an object of the type that most stayed of."""
        import jax

        stayed = [array for array in jax.live_arrays() if id(array) not in self.arrays]
        target = _middle(stayed) if stayed else _typical(newcomers)
        del stayed, newcomers[:]
        if target is None:
            return None
        gc.unfreeze()
        try:
            found = holders.holder_of(target)
        finally:
            gc.freeze()
        return {"of": type(target).__name__, **(asdict(found) if found is not None else {"name": None})}


def _class_of_a_cycle(newcomers: list[Any]) -> str | None:
    """The type that there are most of among the objects of classes, which are what cycles run through."""
    import jax

    owners = [one for one in newcomers if not issubclass(type(one), jax.Array) and type(one).__module__ != "builtins"]
    counts = holders.types_of(owners)
    return counts.most_common(1)[0][0] if counts else None


def _middle(objects: list[Any]) -> Any:
    """Not one of the last call's, which may still be held for a reason."""
    return objects[len(objects) // 2] if objects else None


def _most(objects: list[Any]) -> list[dict[str, Any]]:
    counts = holders.types_of(objects)
    return [{"type": name, "count": count} for name, count in counts.most_common(MOST_TYPES)]


def _typical(objects: list[Any]) -> Any:
    """One object of the type that there are most of; an object of the user's own class before Python's containers."""
    own = [one for one in objects if type(one).__module__ not in ("builtins", "functools", "weakref", "types")]
    chosen = own or objects
    counts = holders.types_of(chosen)
    if not counts:
        return None
    name = counts.most_common(1)[0][0]
    return _middle([one for one in chosen if holders.type_name(one) == name])


def _lines(requests: Requests, signal: str, calls: int) -> list[dict[str, Any]]:
    found = lines.by_line(requests.call, counter(signal), calls=calls, seconds=PASS_SECONDS)
    return [{"signal": signal, **asdict(line)} for line in found]
