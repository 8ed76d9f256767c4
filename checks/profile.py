"""jax's device memory profile: a gzipped pprof message, whose samples carry the stack that made each buffer.

Only the fields needed are decoded: samples (values, locations), locations (lines), functions (names, files) and the
string table, by the numbers in pprof's profile.proto.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .faults import is_library, is_machinery, short_path

_SAMPLE, _LOCATION, _FUNCTION, _STRING = 2, 4, 5, 6
_SITES = 5


@dataclass(frozen=True)
class Profile:
    """Objects and bytes that are alive, by the line that allocated them."""

    objects: Counter[str]
    bytes: Counter[str]


def take() -> Profile:
    """What is alive now on all devices."""
    import jax

    return _summed(gzip.decompress(jax.profiler.device_memory_profile()))


def growth(before: Profile, after: Profile) -> list[dict[str, Any]]:
    """The lines whose allocations are more than they were, most bytes first."""
    objects = after.objects - before.objects
    grown = sorted(objects, key=lambda line: after.bytes[line] - before.bytes[line], reverse=True)
    return [
        {"where": line, "bytes": after.bytes[line] - before.bytes[line], "objects": objects[line]}
        for line in grown[:_SITES]
    ]


def _summed(message: bytes) -> Profile:
    strings: list[str] = []
    functions: dict[int, tuple[int, int]] = {}
    locations: dict[int, list[tuple[int, int]]] = {}
    samples: list[tuple[list[int], list[int]]] = []
    for number, value in _fields(message):
        if number == _STRING:
            strings.append(bytes(value).decode("utf-8", errors="replace"))
        elif number == _FUNCTION:
            entry = dict(_fields(value))
            functions[entry[1]] = (entry.get(2, 0), entry.get(4, 0))
        elif number == _LOCATION:
            parts = list(_fields(value))
            lines = [dict(_fields(part)) for field, part in parts if field == 4]  # noqa: PLR2004  # Location.line
            locations[dict(parts)[1]] = [(line.get(1, 0), line.get(2, 0)) for line in lines]
        elif number == _SAMPLE:
            samples.append(_sample(value))
    profile = Profile(Counter(), Counter())
    for stack, (count, size, *_) in samples:
        line = _line(stack, locations, functions, strings)
        profile.objects[line] += count
        profile.bytes[line] += size
    return profile


def _sample(message: bytes) -> tuple[list[int], list[int]]:
    """(location ids, innermost first; values: objects, bytes)."""
    stack: list[int] = []
    values: list[int] = []
    for number, value in _fields(message):
        target = {1: stack, 2: values}.get(number)
        if target is not None:
            target += [value] if isinstance(value, int) else list(_varints(value))
    return stack, [*values, 0, 0][: max(2, len(values))]


def _line(
    stack: list[int],
    locations: dict[int, list[tuple[int, int]]],
    functions: dict[int, tuple[int, int]],
    strings: list[str],
) -> str:
    """The innermost line of the user's code on a stack, else the innermost of all."""
    innermost = None
    for location in stack:
        for function, line in locations.get(location, ()):
            filename = strings[functions.get(function, (0, 0))[1]]
            if is_machinery(filename):
                continue
            place = f"{short_path(filename)}:{line}" if filename else "unknown"
            innermost = innermost or place
            if filename and not is_library(filename):
                return place
    return innermost or "unknown"


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
