"""The numbers inside observations, for people: the figures worth comparing, and everything else as a readable tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from watchdog.judges import growth
from watchdog.model import Check, Observation, Outcome
from watchdog.publish import wording
from watchdog.publish.sections import Story

_MOST_ENTRIES = 60  # of a list, before the rest is only counted
_DEEPEST = 4
_LARGE_RATIO = 100  # from here on no decimals are worth their room


@dataclass(frozen=True)
class Reading:
    """One figure that an observation holds."""

    label: str
    value: float
    unit: str

    @property
    def text(self) -> str:
        return wording.amount(self.value, self.unit)


@dataclass(frozen=True)
class Entry:
    """One square of the side-by-side table: a figure, or the word that stands in its place."""

    text: str
    change: str = ""  # against the baseline's square of the same implementation, where it differs
    outcome: str = ""  # set where there is no figure


@dataclass(frozen=True)
class Line:
    """One figure of one case and target, over pins and implementations."""

    check: Check
    target: str
    label: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Comparison:
    """The figures of one case: a column for each of `columns` (pins, implementation)."""

    case: str
    columns: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]


def readings(observation: Observation) -> list[Reading]:
    """The figures of an observation that are worth comparing; absent and unknown ones are left out."""
    found = _READERS[observation.cell.check](observation) if observation.outcome is Outcome.OBSERVED else []
    return [Reading(label, float(value), unit) for label, value, unit in found if _is_number(value)]


_Found = Iterable[tuple[str, Any, str]]


def _plain(*keys: tuple[str, str, str]) -> Callable[[Observation], _Found]:
    def read(observation: Observation) -> _Found:
        return [(label, observation.data.get(key), unit) for key, label, unit in keys]

    return read


def _errors(observation: Observation) -> _Found:
    outputs = [one for one in observation.data.get("outputs") or [] if isinstance(one, Mapping)]
    for key, label in (("max_abs", "largest error"), ("rms", "r.m.s. error"), ("nan", "NaN"), ("inf", "Inf")):
        values = [one[key] for one in outputs if _is_number(one.get(key))]
        if values and not (key in ("nan", "inf") and not any(values)):
            yield label, max(values), ""


def _growth(observation: Observation) -> _Found:
    """What each call adds to each signal that moved, as the judge measures it; nothing of one that stood still."""
    for one in growth.measure(observation):
        unit = "B" if one.signal.unit == "B/call" else ""
        yield (
            f"{one.signal.label} per call ({one.signal.name.replace('_', ' ')})",
            0.0 if one.shape is growth.Shape.STILL else one.rate.value,
            unit,
        )


def _times(observation: Observation) -> _Found:
    rounds = observation.series.get("seconds") or ()
    if rounds:
        yield "median time", median(rounds), "s"
    yield "compile time", observation.data.get("compile_seconds"), "s"


def _schedule(observation: Observation) -> _Found:
    """Counts of the compiled program; what is known as a range alone is left out."""
    yield "bundles", observation.data.get("bundles"), ""
    yield "bundles as they run", _exact(observation.data.get("executed_bundles")), ""
    yield "spill stores", observation.data.get("spill_stores"), ""
    yield "spill fills", observation.data.get("spill_fills"), ""
    yield "to and from HBM", _exact(observation.data.get("dma_bytes")), "B"
    yield "least VMEM", observation.data.get("vmem_bytes"), "B"


def _exact(value: Any) -> Any:
    """The one number of a range that has no width."""
    return value.get("low") if isinstance(value, Mapping) and value.get("low") == value.get("high") else None


_READERS: dict[Check, Callable[[Observation], _Found]] = {
    Check.INSTALL: _plain(("seconds", "time", "s")),
    Check.IMPORT: _plain(("seconds", "time", "s")),
    Check.LOWER: _plain(("stablehlo_bytes", "StableHLO", "B"), ("mosaic_bytes", "Mosaic", "B")),
    Check.COMPILE: _plain(
        ("temp_bytes", "temporaries", "B"),
        ("code_bytes", "code", "B"),
        ("flops", "arithmetic", "flop"),
        ("seconds", "time", "s"),
    ),
    Check.SCHEDULE: _schedule,
    Check.NUMERICS: _errors,
    Check.GRADIENTS: _errors,
    Check.RACES: _plain(("races", "races", "")),
    Check.MEMORY: _growth,
    Check.TIMING: _times,
}


def comparisons(story: Story, kernel: str) -> list[Comparison]:
    """Custom, native and others side by side: one table for each case of a kernel; last, what knows no case."""
    mine = [one for one in story.report.observations if one.cell.kernel == kernel]
    cases = list(dict.fromkeys(sorted((one.cell.case for one in mine), key=lambda case: not case)))
    found = [_comparison(story, kernel, case, [one for one in mine if one.cell.case == case]) for case in cases]
    return [comparison for comparison in found if comparison.lines]


def _comparison(story: Story, kernel: str, case: str, observations: Sequence[Observation]) -> Comparison:
    seen = {(one.cell.pins, one.cell.implementation) for one in observations}
    columns = tuple(
        (pins, name) for pins in story.report.pins for name in story.implementations[kernel] if (pins, name) in seen
    )
    by_place: dict[tuple[Check, str, str], dict[tuple[str, str], Observation]] = {}
    for one in observations:
        place = (one.cell.check, one.cell.target, one.cell.scenario)
        by_place.setdefault(place, {})[one.cell.pins, one.cell.implementation] = one
    order = {target: position for position, target in enumerate(story.report.targets)}
    places = sorted(by_place, key=lambda place: (list(Check).index(place[0]), order.get(place[1], -1), place[1:]))
    lines = [line for place in places for line in _lines(place, by_place[place], columns, story.report.baseline)]
    return Comparison(case, columns, tuple(lines))


def _lines(
    place: tuple[Check, str, str],
    observed: Mapping[tuple[str, str], Observation],
    columns: Sequence[tuple[str, str]],
    baseline: str | None,
) -> list[Line]:
    figures = {column: {one.label: one for one in readings(seen)} for column, seen in observed.items()}
    labels = dict.fromkeys(label for some in figures.values() for label in some)
    check, target, scenario = place
    if check is Check.MEMORY:  # most signals do not move, and that is a verdict's business
        labels = dict.fromkeys(
            label for label in labels if any(label in some and some[label].value for some in figures.values())
        )
    return [
        Line(
            check,
            " ".join(filter(None, (target, scenario))),
            label,
            tuple(_entry(column, label, figures, observed, baseline) for column in columns),
        )
        for label in labels
    ]


def _entry(
    column: tuple[str, str],
    label: str,
    figures: Mapping[tuple[str, str], Mapping[str, Reading]],
    observed: Mapping[tuple[str, str], Observation],
    baseline: str | None,
) -> Entry:
    reading = figures.get(column, {}).get(label)
    if reading is None:
        outcome = observed[column].outcome if column in observed else None
        return Entry("", outcome="" if outcome is None or outcome is Outcome.OBSERVED else outcome.value)
    before = figures.get((baseline or "", column[1]), {}).get(label)
    return Entry(reading.text, change=_change(before, reading) if column[0] != baseline else "")


def _change(before: Reading | None, now: Reading) -> str:
    """How many times the baseline's figure; empty where that is one, or says nothing."""
    if before is None or before.value == 0 or now.value / before.value <= 0:
        return ""
    ratio = now.value / before.value
    digits = 2 if abs(ratio - 1) >= 0.01 else 3  # noqa: PLR2004 - one percent shows in the second decimal
    text = f"{ratio:.{digits}f}"
    return "" if float(text) == 1 else f"×{text}" if ratio < _LARGE_RATIO else wording.amount(ratio, "ratio")


@dataclass(frozen=True)
class Node:
    """Part of a readable tree: exactly one of text, rows and children is filled."""

    label: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    children: tuple[Node, ...] = ()


def tree(data: Mapping[str, Any], depth: int = 0) -> tuple[Node, ...]:
    """JSON values as labelled texts and tables; the unit follows from the key (`…_bytes`, `…seconds`)."""
    return tuple(_node(str(key), value, depth) for key, value in list(data.items())[:_MOST_ENTRIES])


def _node(key: str, value: Any, depth: int) -> Node:
    label = wording.one_line(key.replace("_", " "), 60)
    if isinstance(value, Mapping) and value and depth < _DEEPEST:
        return Node(label, children=tree(value, depth + 1))
    if _is_table(value):
        columns = tuple(dict.fromkeys(str(name) for row in value[:_MOST_ENTRIES] for name in row))
        rows = tuple(
            tuple(_text(name, row.get(name)) if name in row else "" for name in columns)
            for row in value[:_MOST_ENTRIES]
        )
        return Node(label, columns=columns, rows=rows)
    return Node(label, text=_text(key, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _text(key: str, value: Any, depth: int = 0) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_number(value) or isinstance(value, float):
        return _quantity(key, value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        parts = [f"{name} {_text(str(name), one, depth + 1)}" for name, one in list(value.items())[:_MOST_ENTRIES]]
        return wording.one_line(", ".join(parts), 2000) or "none"
    if isinstance(value, list):
        parts = [_text(key, one, depth + 1) for one in value[:_MOST_ENTRIES]]
        return wording.one_line("; ".join(parts), 2000) or "none"
    return wording.one_line(str(value), 2000)


def _quantity(key: str, value: float) -> str:
    if "bytes" in key and _is_number(value):
        exact = f" ({value:,.0f} B)" if value >= 1024 else ""  # noqa: PLR2004 - from 1 KiB on digits are lost
        return wording.amount(value, "B") + exact
    return wording.amount(value, "s") if key.endswith("seconds") else wording.number(value)


def series_rows(observation: Observation) -> list[tuple[str, ...]]:
    """A summary of each series: name, readings, first, median, last, smallest, largest."""
    return [_summary(name, series) for name, series in observation.series.items() if len(series)]


def _summary(name: str, series: Sequence[float]) -> tuple[str, ...]:
    unit = "B" if "bytes" in name else "s" if name.endswith("seconds") else ""
    shown = (series[0], median(series), series[-1], min(series), max(series))
    return (name.replace("_", " "), f"{len(series):,}", *(wording.amount(float(value), unit) for value in shown))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
