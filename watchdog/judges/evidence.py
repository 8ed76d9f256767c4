"""What a second look found beside the growth: the line that made what stays, who holds it, which caches end it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watchdog.judges.growth import Growth
from watchdog.judges.places import is_library
from watchdog.judges.view import quantity, records
from watchdog.judges.wording import number_text, one_line

# Of the growth, what a line must account for to be named. More than all of it is memory that another line gives back.
EXPLAINS, TOO_MUCH = 0.3, 1.25
BLOCKS_OF_AN_OBJECT = 8  # of Python's memory, at most
NEARLY = 0.9  # of the heaviest line's bytes, from which another line is as good an answer


def where(data: Mapping[str, Any], worst: Growth) -> str | None:
    """The line that made what stays: from the profile for buffers and executables, else from the passes over lines."""
    signal = worst.signal
    if signal.on_device:
        return site(data, "buffer")
    if signal.name == "live_executables":
        return site(data, "executable")
    return _line(data, worst)


def _line(data: Mapping[str, Any], worst: Growth) -> str | None:
    """The user's line that accounts for the growth: by the counter read line by line, else by Python's allocations."""
    found, signal = _evidence(data), worst.signal
    lines = [one for one in records(found, "lines") if one.get("signal") == signal.name]
    measure_of_allocations = "bytes" if signal.unit == "B/call" else "blocks"
    most = BLOCKS_OF_AN_OBJECT if signal.name == "objects" else TOO_MUCH
    for candidates, key in ((lines, "per_call"), (records(found, "allocations"), measure_of_allocations)):
        place = _nearest(candidates, key, worst.rate.value, most)
        if place is not None:
            return one_line(place, 120)
    return None


def _nearest(candidates: Sequence[Mapping[str, Any]], key: str, rate: float, most: float) -> str | None:
    """Of the lines outside libraries, the one whose growth comes nearest to the whole; None where none comes near."""
    shares = [((quantity(one, key) or 0.0) / rate, str(one["where"])) for one in candidates if one.get("where")]
    near = [pair for pair in shares if EXPLAINS <= pair[0] <= most and not is_library(pair[1])]
    return min(near, key=lambda pair: abs(pair[0] - 1))[1] if near else None


def site(data: Mapping[str, Any], kind: str) -> str | None:
    """The line that allocated most of what stayed; among about equals, one that is not a library's: it can be mended."""
    sites = [one for one in records(_evidence(data), "sites") if one.get("where") and one.get("kind") == kind]
    most = max(map(_weight, sites), default=(0.0, 0.0))
    near = [one for one in sites if _weight(one) >= (NEARLY * most[0], NEARLY * most[1])]
    chosen = max(near, key=_merit, default=None)
    return one_line(str(chosen["where"]), 120) if chosen else None


def _merit(site: Mapping[str, object]) -> tuple[bool, tuple[float, float], str]:
    place = str(site["where"])
    return not is_library(place), _weight(site), place


def _weight(site: Mapping[str, object]) -> tuple[float, float]:
    return quantity(site, "bytes") or 0.0, quantity(site, "objects") or 0.0


def holder(data: Mapping[str, Any]) -> str | None:
    """Who keeps it alive, in words."""
    found = _holder(data)
    if not found.get("name"):
        return None
    place = f" in {found['where']}" if found.get("where") else ""
    return one_line(f"kept alive by {found['name']}{place}", 160)


def is_held_by_a_library(data: Mapping[str, Any]) -> bool:
    """Whether the holder that was found is in jax or in what it stands on."""
    return bool(_holder(data).get("library"))


def _holder(data: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _evidence(data).get("holder")
    return found if isinstance(found, Mapping) else {}


def cycle(data: Mapping[str, Any]) -> str | None:
    """The class whose objects refer to themselves, in words."""
    owner = _evidence(data).get("cycle_of")
    return one_line(f"held by reference cycles of {owner} objects", 160) if isinstance(owner, str) else None


def caches(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The caches that grew, with their limits."""
    return records(_evidence(data), "caches")


def bound(data: Mapping[str, Any]) -> str:
    """The limits of the caches that grew, as they were read."""
    limits = sorted({int(limit) for cache in caches(data) if (limit := quantity(cache, "limit"))})
    if not limits:
        return ""
    span = number_text(limits[0]) if len(limits) == 1 else f"{number_text(limits[0])} to {number_text(limits[-1])}"
    return f"; it ends when jax's caches are full, at {span} entries"


def _evidence(data: Mapping[str, Any]) -> Mapping[str, Any]:
    found = data.get("evidence")
    return found if isinstance(found, Mapping) else {}
