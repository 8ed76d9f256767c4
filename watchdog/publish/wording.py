"""Words and figures for people: units they use, uncertainty always beside the value, hostile text made harmless."""

# ruff: noqa: PLR2004 - signs for people are meant; clocks and code points are clearest as numbers

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from watchdog.model import Amount, Figure

_ANSI = re.compile(
    r"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]"  # colours, cursor movement
    # Titles and links. Only where they end, so that a lone start cannot hide the text behind it.
    r"|\x1b\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)"
    r"|\x9b[0-?]{0,40}[ -/]{0,4}[@-~]"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters other than tab and newline
    "\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # bidi, zero width, line separators
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"  # annotations, lone surrogates, tags
)
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_MULTIPLES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_RATIOS = ("ratio", "x", "×")


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"⟨U+{code:04X}⟩"


def clean(text: str) -> str:
    """The text with terminal sequences removed, and control and bidi characters made visible; lines are kept."""
    lines = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub(_visible, lines)


def one_line(text: str, limit: int = 300) -> str:
    """The text cleaned, on one line of at most `limit` characters."""
    line = " ".join(clean(text[: limit * 8]).split())
    return line if len(line) <= limit and len(text) <= limit * 8 else line[: limit - 1].rstrip() + "…"


def tail(text: str, *, lines: int = 120, characters: int = 12_000) -> str:
    """The end of a long text, cleaned, with a first line that says how much was left out."""
    kept = "\n".join(clean(text[-characters:]).splitlines()[-lines:])
    left_out = len(text) - len(kept)
    return (
        kept if left_out <= 0 or len(kept) >= len(text.rstrip()) else f"[{left_out:,} characters before this]\n{kept}"
    )


def number(value: float, digits: int = 4) -> str:
    """A bare number: whole ones in full with thousands separators, others to `digits` significant digits."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("infinite" if value > 0 else "−infinite")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    if not 1e-3 <= abs(value) < 1e15:
        mantissa, exponent = f"{value:.{digits - 2}e}".split("e")
        return f"{_trimmed(mantissa)}e{int(exponent)}".replace("-", "−")
    return _trimmed(_fixed(value, max(0, digits - 1 - math.floor(math.log10(abs(value))))))


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−" if float(text.replace(",", "")) else "")


def _scale(value: float, base: str) -> tuple[float, str]:
    """The divisor and the name of the unit that suits a value in `base` (B, s or flop; others stay)."""
    size = abs(value)
    if base == "B" and math.isfinite(size):
        power = min(int(math.log(size, 1024) + 1e-12) if size >= 1 else 0, len(_BYTES) - 1)
        return 1024.0**power, _BYTES[power]
    if base == "flop":
        return next(((unit, f"{letter}flop") for unit, letter in _MULTIPLES if size >= unit), (1.0, "flop"))
    if base == "s" and size > 0:
        return next(((unit, name) for unit, name in _SECONDS if size >= unit), _SECONDS[-1])
    return 1.0, base


def _with_unit(text: str, name: str, per: str) -> str:
    rate = f"/{per}" if per else ""
    if name in _RATIOS:
        return f"×{text}{rate}"
    return f"{text}%{rate}" if name == "%" else f"{text} {name}{rate}".rstrip()


def amount(value: float, unit: str) -> str:
    """A value with the unit people use: "256.2 MiB", "412 µs", "×1.08", "16 KiB/call"."""
    base, _, per = one_line(unit, 24).partition("/")
    divisor, name = _scale(value, base)
    digits = 3 if name in (*_RATIOS, "ms", "µs", "ns", "s") else 4
    return _with_unit(number(value / divisor, digits), name, per)


def detectable(amount_: Amount) -> str:
    """The smallest effect that would have been seen."""
    return amount(amount_.value, amount_.unit)


def figure(estimate: Figure) -> str:
    """An estimate with its interval: "×1.08 ± 0.01", "412 µs (403 to 451)"; exact ones stand alone."""
    if estimate.low == estimate.high or not all(map(math.isfinite, (estimate.value, estimate.low, estimate.high))):
        return amount(estimate.value, estimate.unit) + _open_ended(estimate)
    base, _, per = one_line(estimate.unit, 24).partition("/")
    divisor, name = _scale(max(estimate.value, estimate.low, estimate.high, key=abs), base)
    value, low, high = estimate.value / divisor, estimate.low / divisor, estimate.high / divisor
    half = (high - low) / 2
    decimals = _decimals(half)
    if abs((high - value) - (value - low)) > half / 5:
        spread = f"({_fixed(low, decimals)} to {_fixed(high, decimals)})"
        return f"{_with_unit(_fixed(value, decimals), name, per)} {spread}"
    if name in _RATIOS or name == "%":
        return f"{_with_unit(_fixed(value, decimals), name, '')} ± {_fixed(half, decimals)}{'/' + per if per else ''}"
    return _with_unit(f"{_fixed(value, decimals)} ± {_fixed(half, decimals)}", name, per)


def _open_ended(estimate: Figure) -> str:
    if estimate.low == estimate.high or not math.isfinite(estimate.value):
        return ""
    return f" ({number(estimate.low)} to {number(estimate.high)})"


def _decimals(half: float) -> int:
    """Decimals that show an uncertainty to one digit, or two where the first is a 1."""
    exponent = math.floor(math.log10(half))
    leading = half / 10.0**exponent
    return min(max(0, -exponent + (1 if leading < 2 else 0)), 9)


def duration(seconds: float) -> str:
    """A length of time on a clock: "0.4 s", "2 min 05 s", "3 h 20 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def moment(iso: str | None) -> str:
    """A point in time with its zone: "2026-01-31 02:00 UTC"."""
    if not iso:
        return "–"
    when = _parse(iso)
    return when.strftime("%Y-%m-%d %H:%M UTC") if when else one_line(iso, 40)


def between(start: str, end: str | None) -> str:
    """How long it took from one ISO time to another."""
    first, last = _parse(start), _parse(end or "")
    return duration((last - first).total_seconds()) if first and last else "–"


def _parse(iso: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def count(how_many: int, noun: str) -> str:
    """A number with its noun: "1 finding", "2 findings"."""
    return f"{how_many:,} {noun}" if how_many == 1 else f"{how_many:,} {noun}s"


def listed(items: list[str], most: int = 3) -> str:
    """Items as in a sentence: "a, b and 4 more"."""
    shown = items if len(items) <= most else [*items[: most - 1], f"{len(items) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""
