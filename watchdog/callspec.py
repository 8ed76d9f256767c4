"""Argument specifications: the strings in `watchdog.toml` that say which array a kernel is called with.

This is the program's side: it checks a specification before any environment is built. The arrays are made inside
the environment, by `checks/arguments.py`, which follows the same grammar (docs/configuration.md).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

_FLOAT_LIMITS = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f8e4m3fn": 448.0,
    "f8e5m2": 57344.0,
}
_SIGNED_BITS = (4, 8, 16, 32, 64)

# The finite numbers that each dtype can hold: (lowest, highest).
LIMITS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        **{name: (-highest, highest) for name, highest in _FLOAT_LIMITS.items()},
        **{f"i{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in _SIGNED_BITS},
        **{f"u{bits}": (0, 2**bits - 1) for bits in _SIGNED_BITS},
        "bool": (0, 1),
    }
)

# Each fill and the names of its parameters.
FILLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "zeros": (),
        "ones": (),
        "constant": ("x",),
        "arange": (),
        "normal": ("mean", "sd"),
        "uniform": ("low", "high"),
        "randint": ("low", "high"),
    }
)
_FLOATS_ONLY = ("normal", "uniform")
_NOT_BOOL = ("constant", "arange")

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_WHOLE = 40  # digits: more than any integer dtype needs, and far below what int() refuses
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class ArgumentSpec:
    """One array argument: its dtype, its shape and how it is filled; `str()` gives the normal form."""

    dtype: str
    shape: tuple[int, ...]
    fill: str
    fill_args: tuple[int | float, ...] = ()

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOAT_LIMITS

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        shape = ",".join(str(length) for length in self.shape)
        parameters = ", ".join(repr(number) for number in self.fill_args)
        return f"{self.dtype}[{shape}] {self.fill}" + (f"({parameters})" if self.fill_args else "")


def parse_argument(text: str) -> ArgumentSpec:
    """Read one argument specification; a fill that is left out is spelled out in the result.

    Raises ValueError with one sentence that names the column (counted from 1) and the remedy.
    """
    reader = _Reader(text)
    dtype = _dtype(reader)
    shape = _shape(reader)
    fill, fill_args, column = _fill(reader, dtype)
    spec = ArgumentSpec(dtype, shape, fill, fill_args)
    _check_fill(spec, reader, column)
    return spec


class _Reader:
    """A text and a position in it."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    @property
    def column(self) -> int:
        return self.position + 1

    def skip_spaces(self) -> None:
        while self.text[self.position : self.position + 1] in (" ", "\t"):
            self.position += 1

    def take(self, character: str) -> bool:
        """Step over `character` if it stands here."""
        if not self.text.startswith(character, self.position):
            return False
        self.position += len(character)
        return True

    def word(self) -> str:
        """Step over letters and digits."""
        start = self.position
        while re.match(r"[A-Za-z0-9_]", self.text[self.position : self.position + 1]):
            self.position += 1
        return self.text[start : self.position]

    def up_to(self, stops: str) -> str:
        """Step over everything before the next of `stops`, and return it without surrounding spaces."""
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in stops:
            self.position += 1
        return self.text[start : self.position].strip(" \t")

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self.text)

    def refuse(self, message: str, column: int | None = None) -> NoReturn:
        """Raise ValueError for a mistake at `column`, or where the reader stands."""
        sentence = f"{self.text!r}, column {column or self.column}: {message}"
        raise ValueError(sentence)


def _dtype(reader: _Reader) -> str:
    reader.skip_spaces()
    column = reader.column
    name = reader.word()
    if not name:
        reader.refuse("expected a dtype here, as in 'f32[8,128]'", column)
    if name not in LIMITS:
        reader.refuse(f"{name!r} is not a dtype; {_nearest(name, LIMITS)}", column)
    return name


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"


def _shape(reader: _Reader) -> tuple[int, ...]:
    if not reader.take("["):
        reader.refuse("expected '[' directly after the dtype, as in 'f32[8,128]' ('f32[]' is a scalar)")
    reader.skip_spaces()
    if reader.take("]"):
        return ()
    return tuple(_length(column, part, reader) for column, part in _listed(reader, "]", "shape"))


def _length(column: int, part: str, reader: _Reader) -> int:
    if not re.fullmatch(r"[0-9]+", part):
        reader.refuse(f"{part!r} is not a length; write a whole number, 0 or greater", column)
    return int(part)


def _listed(reader: _Reader, close: str, what: str) -> list[tuple[int, str]]:
    """The parts between commas up to `close`, each with its column."""
    parts = []
    while True:
        reader.skip_spaces()
        column = reader.column
        parts.append((column, reader.up_to("," + close)))
        if reader.take(close):
            return parts
        if not reader.take(","):
            reader.refuse(f"the {what} is not closed; add {close!r}")


def _fill(reader: _Reader, dtype: str) -> tuple[str, tuple[int | float, ...], int]:
    """The fill's name, its numbers and its column."""
    end_of_shape = reader.position
    reader.skip_spaces()
    column = reader.column
    if reader.is_at_end:
        return ("normal", (0, 1), column) if dtype in _FLOAT_LIMITS else ("randint", (0, 2), column)
    if reader.position == end_of_shape:
        reader.refuse("expected a space between the shape and the fill, as in 'f32[8] ones'")
    name = _fill_name(reader)
    numbers = _fill_numbers(reader, name, dtype)
    reader.skip_spaces()
    if not reader.is_at_end:
        reader.refuse(f"{reader.text[reader.position :]!r} is left over; a specification ends after its fill")
    return name, numbers, column


def _fill_name(reader: _Reader) -> str:
    column = reader.column
    name = reader.word() or reader.up_to("")
    if name not in FILLS:
        reader.refuse(f"{name!r} is not a fill; {_nearest(name, FILLS)}", column)
    return name


def _fill_numbers(reader: _Reader, name: str, dtype: str) -> tuple[int | float, ...]:
    wanted = FILLS[name]
    form = f"{name}({', '.join(wanted)})" if wanted else name
    reader.skip_spaces()
    column = reader.column
    if not wanted:
        if reader.take("("):
            reader.refuse(f"{name!r} takes no parameters; write {form!r}", column)
        return ()
    if not reader.take("("):
        reader.refuse(f"{name!r} needs its parameters; write {form!r}", column)
    parts = _listed(reader, ")", "list of parameters")
    if len(parts) != len(wanted):
        reader.refuse(f"{name!r} takes {len(wanted)}, not {len(parts)}; write {form!r}", column)
    whole_only = name == "randint" or (name == "constant" and dtype not in _FLOAT_LIMITS)
    return tuple(_number(reader, column, part, whole_only=whole_only) for column, part in parts)


def _number(reader: _Reader, column: int, part: str, *, whole_only: bool) -> int | float:
    if _WHOLE.fullmatch(part) and len(part) <= _LONGEST_WHOLE:
        return int(part)
    if whole_only:
        reader.refuse(f"{part!r} is not a whole number such as 3 or -2", column)
    if not _NUMBER.fullmatch(part) or math.isinf(float(part)):
        reader.refuse(f"{part!r} is not a decimal number such as 3, -0.5 or 1e-3 (no inf, no nan)", column)
    return float(part)


def _check_fill(spec: ArgumentSpec, reader: _Reader, column: int) -> None:
    """Check that the fill suits the dtype and that its values fit into it."""
    if spec.fill in _FLOATS_ONLY and not spec.is_float:
        reader.refuse(f"{spec.fill!r} is for float dtypes, not {spec.dtype}; use 'randint(low, high)'", column)
    if spec.fill in _NOT_BOOL and spec.dtype == "bool":
        reader.refuse(f"{spec.fill!r} is not for bool; use 'zeros', 'ones' or 'randint(0, 2)'", column)
    if spec.fill == "normal" and spec.fill_args[1] < 0:
        reader.refuse("the standard deviation must not be negative; write 'normal(mean, sd)' with sd ≥ 0", column)
    if spec.fill in ("uniform", "randint") and not spec.fill_args[0] < spec.fill_args[1]:
        reader.refuse(f"low must be less than high in '{spec.fill}(low, high)'", column)
    _check_range(spec, reader, column)


def _check_range(spec: ArgumentSpec, reader: _Reader, column: int) -> None:
    lowest, highest = LIMITS[spec.dtype]
    for value in _extremes(spec):
        if not lowest <= value <= highest:
            message = f"{value} does not fit {spec.dtype}, which holds {lowest} to {highest}"
            reader.refuse(message, column)
        if spec.fill == "randint" and value not in _INT64:
            reader.refuse(f"{value} does not fit i64, in which random whole numbers are drawn", column)


def _extremes(spec: ArgumentSpec) -> tuple[int | float, ...]:
    """The numbers that must fit the dtype; normal(mean, sd) has no bounds, so its parameters stand for it."""
    if spec.fill == "arange":
        return (max(spec.size - 1, 0),)
    if spec.fill == "randint":
        low, high = spec.fill_args
        return (low, high - 1)
    return spec.fill_args
