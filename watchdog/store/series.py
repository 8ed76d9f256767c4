"""Packs a series of numbers into few bytes, and back without changing one of them.

Whole numbers are stored as the differences between neighbours (a counter that stands still packs to almost nothing),
everything else as float64; both little-endian, then compressed with zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

DELTA = "delta-int64-zlib"
FLOAT = "float64-zlib"

_WIDTH = 8  # bytes of one packed number, in both encodings
_HALF, _FULL = 2**63, 2**64


@dataclass(frozen=True)
class Packed:
    """A series as it is stored."""

    count: int
    encoding: str
    blob: bytes


def pack(values: Sequence[float]) -> Packed:
    """The series in the more compact of the two encodings that keeps it exactly.

    A series that mixes whole numbers and floats is a series of floats, and so is one with a whole number beyond
    64 bits. Raises OverflowError for a whole number that no float can hold.
    """
    if all(type(value) is int and -_HALF <= value < _HALF for value in values):
        return _packed(DELTA, f"<{len(values)}q", _differences(values))  # type: ignore[arg-type]  # all are int here
    return _packed(FLOAT, f"<{len(values)}d", (float(value) for value in values))


def unpack(packed: Packed) -> tuple[float, ...]:
    """The numbers that were packed.

    Raises ValueError when the bytes are not such a series.
    """
    data = _inflate(packed)
    if packed.encoding == DELTA:
        return tuple(_sums(struct.unpack(f"<{packed.count}q", data)))
    if packed.encoding == FLOAT:
        return struct.unpack(f"<{packed.count}d", data)
    msg = f"unknown encoding {packed.encoding!r}"
    raise ValueError(msg)


def _packed(encoding: str, layout: str, numbers: Iterable[float]) -> Packed:
    data = struct.pack(layout, *numbers)
    return Packed(len(data) // _WIDTH, encoding, zlib.compress(data, 9))


def _inflate(packed: Packed) -> bytes:
    expected = packed.count * _WIDTH
    try:
        data = zlib.decompressobj().decompress(packed.blob, expected + 1)  # never inflate more than was announced
    except zlib.error as error:
        msg = f"the compressed bytes are damaged ({error})"
        raise ValueError(msg) from error
    if len(data) != expected:
        msg = f"expected {expected} bytes, found {'more' if len(data) > expected else len(data)}"
        raise ValueError(msg)
    return data


def _differences(values: Sequence[int]) -> Iterator[int]:
    """The first value, then each step; steps wrap around at 64 bits, as the sums do."""
    yield from values[:1]
    yield from (_wrap(after - before) for before, after in pairwise(values))


def _sums(differences: Iterable[int]) -> Iterator[int]:
    total = 0
    for difference in differences:
        total = _wrap(total + difference)
        yield total


def _wrap(value: int) -> int:
    return (value + _HALF) % _FULL - _HALF
