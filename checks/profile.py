"""jax's device memory profile: a gzipped pprof message, whose samples carry the stack that made each thing.

Only the fields needed are decoded: samples (values, locations, labels), locations (lines), functions (names, files) and
the string table, by the numbers in pprof's profile.proto. Buffers and executables are kept apart by their label `kind`.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .faults import is_library, is_machinery, short_path

BUFFER, EXECUTABLE = "buffer", "executable"
_SAMPLE, _LOCATION, _FUNCTION, _STRING = 2, 4, 5, 6
_SITES = 5
_FRAMES = 5
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Stack:
    """Where something was made: the line to name, and the user's frames from there outwards."""

    where: str
    frames: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """Objects and bytes that are alive, by kind and by the stack that made them."""

    objects: Counter[tuple[str, Stack]] = field(default_factory=Counter)
    bytes: Counter[tuple[str, Stack]] = field(default_factory=Counter)

    def totals(self, kind: str) -> tuple[int, int]:
        """Count and bytes of all buffers, or of all executables. Two wrappers of one buffer count once."""
        return self._sum(self.objects, kind), self._sum(self.bytes, kind)

    def _sum(self, counts: Counter[tuple[str, Stack]], kind: str) -> int:
        return sum(count for (found, _), count in counts.items() if found == kind)


@dataclass
class Tables:
    """What samples refer to by number."""

    strings: list[str] = field(default_factory=list)
    functions: dict[int, int] = field(default_factory=dict)  # id → file name
    locations: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # id → (function, line)
    samples: list[bytes] = field(default_factory=list)

    def text(self, number: int) -> str:
        return self.strings[number] if 0 <= number < len(self.strings) else ""


def take() -> Profile:
    """What is alive now on all devices."""
    import jax

    return read(gzip.decompress(jax.profiler.device_memory_profile()))


def growth(before: Profile, after: Profile) -> list[dict[str, Any]]:
    """The lines that hold more than before, most bytes first; `share` is that of its kind's new objects.

    A line whose objects are as many as before, but larger, holds more as well.
    """
    grown = [site for site in _by_line(before, after) if site["objects"] > 0 or site["objects"] == 0 < site["bytes"]]
    totals = Counter[str]()
    for site in grown:
        totals[site["kind"]] += site["objects"]
    told = [{**site, "share": site["objects"] / max(1, totals[site["kind"]])} for site in grown]
    return sorted(told, key=lambda site: (site["bytes"], site["objects"]), reverse=True)[: 2 * _SITES]


def _by_line(before: Profile, after: Profile) -> list[dict[str, Any]]:
    """What each line holds more, or less. It may show up under several stacks: the frames are those of the heaviest."""
    by_line: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, stack in sorted(
        {**after.bytes, **before.bytes}, key=lambda key: after.bytes[key] - before.bytes[key], reverse=True
    ):
        empty = {"kind": kind, "where": stack.where, "bytes": 0, "objects": 0, "frames": list(stack.frames)}
        site = by_line.setdefault((kind, stack.where), empty)
        site["bytes"] += after.bytes[kind, stack] - before.bytes[kind, stack]
        site["objects"] += after.objects[kind, stack] - before.objects[kind, stack]
    return list(by_line.values())


def read(message: bytes) -> Profile:
    """A decompressed profile."""
    tables = _tables(message)
    profile = Profile()
    stacks: dict[tuple[int, ...], Stack] = {}
    for sample in tables.samples:
        locations, values, kind = _sample(sample, tables)
        stack = stacks.get(locations)
        if stack is None:
            stack = stacks[locations] = _stack(locations, tables)
        profile.objects[kind, stack] += values[0]
        profile.bytes[kind, stack] += values[1]
    return profile


def _tables(message: bytes) -> Tables:
    tables = Tables()
    for number, value in _fields(message):
        if number == _STRING:
            tables.strings.append(bytes(value).decode("utf-8", errors="replace"))
        elif number == _FUNCTION:
            entry = dict(_fields(value))
            tables.functions[entry[1]] = entry.get(4, 0)
        elif number == _LOCATION:
            parts = list(_fields(value))
            lines = [dict(_fields(part)) for name, part in parts if name == 4]  # noqa: PLR2004  # Location.line
            tables.locations[dict(parts)[1]] = [(line.get(1, 0), line.get(2, 0)) for line in lines]
        elif number == _SAMPLE:
            tables.samples.append(value)
    return tables


def _sample(message: bytes, tables: Tables) -> tuple[tuple[int, ...], list[int], str]:
    """(location ids, innermost first; values: objects, bytes; kind)."""
    stack: list[int] = []
    values: list[int] = []
    kind = BUFFER
    for number, value in _fields(message):
        if number == 3:  # noqa: PLR2004  # Sample.label
            label = dict(_fields(value))
            kind = tables.text(label.get(2, 0)) if tables.text(label.get(1, 0)) == "kind" else kind
        elif number in (1, 2):
            target = stack if number == 1 else values
            target += [value] if isinstance(value, int) else list(_varints(value))
    return tuple(stack), [*values, 0, 0][: max(2, len(values))], kind


def _stack(locations: tuple[int, ...], tables: Tables) -> Stack:
    """Named by the innermost line of the user's code, else by the innermost of all."""
    innermost, own = None, []
    for location in locations:
        for function, line in tables.locations.get(location, ()):
            filename = tables.text(tables.functions.get(function, 0))
            if is_machinery(filename):
                continue
            place = f"{short_path(filename)}:{line}" if filename else _UNKNOWN
            innermost = innermost or place
            if filename and not is_library(filename):
                own.append(place)
    return Stack(own[0] if own else innermost or _UNKNOWN, tuple(own[:_FRAMES]))


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a protocol buffer message: an int for a varint, bytes for a length-delimited field."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, position = _varint(message, position)
            yield number, value
        elif kind == 2:  # noqa: PLR2004  # length-delimited
            length, position = _varint(message, position)
            yield number, message[position : position + length]
            position += length
        else:
            position += {1: 8, 5: 4}[kind]


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  # the last byte of a varint has its top bit clear
            return value, position
        shift += 7


def _varints(message: bytes) -> Iterator[int]:
    position = 0
    while position < len(message):
        value, position = _varint(message, position)
        yield value
