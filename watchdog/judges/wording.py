"""Small phrases that the judges' sentences share. Text from outside becomes one printable line here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from watchdog.model import Environment, PackageChange

_DIRECT = ("jax", "jaxlib", "libtpu")  # what a kernel meets first, in this order
_KIB = 1024
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB")
_LEAST_PERCENT = 0.001
_ONE_DECIMAL = 0.05  # percent; below, one decimal would show a change as none
_WHOLE_FROM = 100  # from here on no decimals are shown


def one_line(text: str, limit: int = 160) -> str:
    """`text` without control characters, on one line, cut at `limit` characters."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def sentence(parts: Iterable[str | None]) -> str:
    """The parts that are there, joined to one sentence."""
    return "; ".join(part for part in parts if part)


def bytes_text(count: float) -> str:
    """A byte count as people read it, for example 16 KiB."""
    size, power = abs(count), 0
    while size >= _KIB and power < len(_BYTE_UNITS) - 1:
        size, power = size / _KIB, power + 1
    digits = f"{size:,.0f}" if size >= _WHOLE_FROM else f"{size:.3g}"
    return f"{'-' if count < 0 else ''}{digits} {_BYTE_UNITS[power]}"


def number_text(value: float) -> str:
    """A count with thousands separated; fractions keep three digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3g}"


def percent_text(new: float, old: float) -> str:
    """The change from `old` to `new` in percent, signed, never rounded to none; 'from nothing' when `old` is 0."""
    if not old:
        return "from nothing"
    change = 100 * (new - old) / old
    if 0 < abs(change) < _LEAST_PERCENT:
        return f"<{_LEAST_PERCENT} % {'more' if change > 0 else 'less'}"
    return f"{change:+.1g} %" if 0 < abs(change) < _ONE_DECIMAL else f"{change:+.1f} %"


def pins_text(pins: str, environment: Environment | None) -> str:
    """The pins' name with the versions of what a kernel meets first: `next (jax 0.9.2, libtpu 0.0.37)`."""
    installed = {package.name: package.version for package in environment.packages} if environment else {}
    known = [f"{name} {installed[name]}" for name in _DIRECT if name in installed]
    return one_line(f"{pins} ({', '.join(known)})" if known else pins)


def changes_text(changes: Sequence[PackageChange], limit: int = 3) -> str:
    """The changed packages, likeliest culprits first: `jax 0.8.3 → 0.9.2, libtpu added 0.0.37, and 4 more`."""
    ordered = sorted(_in_step(changes), key=lambda change: (_likelihood(change.name), change.name))
    named = [_change_text(change) for change in ordered[:limit]]
    if len(ordered) > limit:
        named.append(f"and {len(ordered) - limit} more")
    return one_line(", ".join(named))


def _in_step(changes: Sequence[PackageChange]) -> list[PackageChange]:
    """The changes without jaxlib's where it moved as jax did, which says nothing more."""
    moves = {change.name: (change.old, change.new) for change in changes}
    return [change for change in changes if change.name != "jaxlib" or moves.get("jax") != moves["jaxlib"]]


def normalised(name: str) -> str:
    """A package's name as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _likelihood(name: str) -> int:
    return _DIRECT.index(name) if name in _DIRECT else len(_DIRECT)


def _change_text(change: PackageChange) -> str:
    if change.old is None:
        return f"{change.name} added {change.new}"
    if change.new is None:
        return f"{change.name} {change.old} removed"
    return f"{change.name} {change.old} → {change.new}"
