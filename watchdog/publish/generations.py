"""TPU generations compared: what the compiler of each makes of one kernel, beside the native implementation.

Shown where a run asked several generations; every figure is exact or an interval, and what was not measured says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from watchdog.judges.view import quantity
from watchdog.model import Cell, Check, Outcome, Verdict
from watchdog.publish import wording
from watchdog.publish.sections import Story

_PREFIX = "tpu:"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Count:
    """A figure of the compiler: exact where low and high are one; without an upper end where it is not known."""

    low: float
    high: float | None
    unit: str

    @property
    def text(self) -> str:
        low = wording.amount(self.low, self.unit)
        if self.high is None:
            return f"at least {low}"
        return low if self.low == self.high else f"{low} to {wording.amount(self.high, self.unit)}"

    @property
    def exact(self) -> float | None:
        return self.low if self.low == self.high else None


@dataclass(frozen=True)
class Entry:
    """A figure, with how many times the baseline's and native's it is, where they differ and all are exact."""

    text: str = ""  # empty where it was not measured
    of_baseline: str = ""
    of_native: str = ""
    missing: str = NOT_MEASURED  # what stands in the place of a figure
    verdict: Verdict | None = None  # on what stopped it, where something did


@dataclass(frozen=True)
class Row:
    """One implementation for one generation; without any figure, `missing` says in one sentence why."""

    generation: str
    implementation: str
    entries: tuple[Entry, ...]
    compiles: bool = False
    missing: str = ""
    verdict: Verdict | None = None


@dataclass(frozen=True)
class PinsTable:
    """All generations under some pins: the rows of each generation together."""

    pins: str
    groups: tuple[tuple[Row, ...], ...]


@dataclass(frozen=True)
class Generations:
    """One case of a kernel for all generations: a table over pins, then the figures under each of them."""

    case: str
    over_pins: tuple[tuple[Row, ...], ...]  # the rows of each generation, with an entry for each of the pins
    tables: tuple[PinsTable, ...]  # newest pins first


_Reader = Callable[[Mapping[str, Any]], Count | None]


@dataclass(frozen=True)
class Column:
    """One figure: its heading, the check that observes it, and where it stands in the data."""

    heading: str
    check: Check
    read: _Reader


def compared(story: Story, kernel: str) -> list[Generations]:
    """The cases of a kernel; none where fewer than two generations were asked."""
    targets = tuple(target for target in story.report.targets if target.startswith(_PREFIX))
    if len(targets) < 2:  # noqa: PLR2004 - it takes two to compare
        return []
    cases = dict.fromkeys(
        cell.case
        for cell in story.by_cell
        if cell.kernel == kernel and cell.check in _CHECKS and cell.target in targets
    )
    return [_Comparison(story, kernel, case, targets).whole() for case in cases]


class _Comparison:
    """One case of a kernel, with the look-ups that its rows need."""

    def __init__(self, story: Story, kernel: str, case: str, targets: tuple[str, ...]) -> None:
        self.story, self.kernel, self.case, self.targets = story, kernel, case, targets
        self.verdicts = {one.cell: one for one in reversed(story.verdicts)}  # the worst of a cell's

    def whole(self) -> Generations:
        pins = self.story.report.pins
        tables = tuple(PinsTable(one, self._groups(functools.partial(self._row, pins=one))) for one in reversed(pins))
        return Generations(self.case, self._groups(self._over_pins), tables)

    def _groups(self, make: Callable[[str, str], Row]) -> tuple[tuple[Row, ...], ...]:
        names = self.story.implementations[self.kernel]
        return tuple(tuple(make(target, name) for name in names) for target in self.targets)

    def _row(self, target: str, implementation: str, pins: str) -> Row:
        entries = tuple(self._entry(column, target, implementation, pins) for column in COLUMNS)
        name = target.removeprefix(_PREFIX)
        if any(entry.text for entry in entries):
            compiled = self.story.by_cell.get(self._cell(Check.COMPILE, target, implementation, pins))
            compiles = compiled is not None and compiled.outcome is Outcome.OBSERVED
            return Row(name, implementation, entries, compiles=compiles)
        stopped = self._stopped(target, implementation, pins)
        return Row(name, implementation, entries, missing=stopped.sentence, verdict=stopped.verdict)

    def _over_pins(self, target: str, implementation: str) -> Row:
        entries = tuple(self._bundles(target, implementation, pins) for pins in self.story.report.pins)
        return Row(target.removeprefix(_PREFIX), implementation, entries)

    def _bundles(self, target: str, implementation: str, pins: str) -> Entry:
        """As they run where that is known, else as they are listed, else what stopped it."""
        found = (self._entry(column, target, implementation, pins) for column in (_EXECUTED, _LISTED))
        stopped = self._stopped(target, implementation, pins)
        missing = Entry(missing=stopped.words, verdict=stopped.verdict)
        return next((entry for entry in found if entry.text), missing)

    def _entry(self, column: Column, target: str, implementation: str, pins: str) -> Entry:
        here = self._count(column, target, implementation, pins)
        if here is None:
            return Entry()
        baseline, native = self.story.report.baseline, "native"
        before = self._count(column, target, implementation, baseline) if baseline not in (None, pins) else None
        beside = self._count(column, target, native, pins) if implementation != native else None
        return Entry(here.text, _times(here, before), _times(here, beside))

    def _count(self, column: Column, target: str, implementation: str, pins: str | None) -> Count | None:
        seen = self.story.by_cell.get(self._cell(column.check, target, implementation, pins or ""))
        return column.read(seen.data) if seen is not None and seen.outcome is Outcome.OBSERVED else None

    def _cell(self, check: Check, target: str, implementation: str, pins: str) -> Cell:
        return Cell(self.kernel, implementation, self.case, pins, target, check)

    def _stopped(self, target: str, implementation: str, pins: str) -> _Stopped:
        """Why there are no figures: the first check that has no good answer."""
        imported = Cell(self.kernel, implementation, "", pins, "", Check.IMPORT)
        for cell in (imported, *(self._cell(check, target, implementation, pins) for check in _CHECKS)):
            seen = self.story.by_cell.get(cell)
            if seen is not None and seen.outcome is Outcome.SKIPPED:
                return _Stopped(NOT_MEASURED, f"{NOT_MEASURED}: {seen.reason or 'no reason was given'}")
            if seen is not None and seen.outcome.is_fault:
                verdict, words = self.verdicts.get(cell), _FAILS[cell.check]
                return _Stopped(words, f"{words}: {(verdict and verdict.kind) or seen.outcome}", verdict)
        return _Stopped(NOT_MEASURED, f"{NOT_MEASURED}: not asked in this run")


@dataclass(frozen=True)
class _Stopped:
    words: str
    sentence: str
    verdict: Verdict | None = None


def _times(here: Count, other: Count | None) -> str:
    """How many times the other it is: "1.08"; empty where they are the same, or one is not exact or nothing."""
    if other is None or not here.exact or not other.exact or here.exact == other.exact:
        return ""
    ratio = here.exact / other.exact
    text = wording.number(ratio, 3)
    return "" if text == "1" else f"×{text}"


def _single(key: str, unit: str = "") -> _Reader:
    def read(data: Mapping[str, Any]) -> Count | None:
        value = quantity(data, key)
        return None if value is None else Count(value, value, unit)

    return read


def _range(key: str, unit: str = "") -> _Reader:
    """From `low` to `high`; at least nothing is no measurement."""

    def read(data: Mapping[str, Any]) -> Count | None:
        value = data.get(key)
        if not isinstance(value, Mapping):
            return None
        low, high = quantity(value, "low"), quantity(value, "high")
        return None if low is None or (high is None and not low) else Count(low, high, unit)

    return read


def _spills(data: Mapping[str, Any]) -> Count | None:
    """Stores and fills, as they are listed."""
    found = [quantity(data, key) for key in ("spill_stores", "spill_fills")]
    known = [value for value in found if value is not None]
    return Count(sum(known), sum(known), "") if known else None


_CHECKS = (Check.LOWER, Check.COMPILE, Check.SCHEDULE)
_FAILS = {
    Check.IMPORT: "does not import",
    Check.LOWER: "does not lower",
    Check.COMPILE: "does not compile",
    Check.SCHEDULE: "cannot be read",
}
_LISTED = Column("bundles, listed", Check.SCHEDULE, _single("bundles"))
_EXECUTED = Column("bundles, as they run", Check.SCHEDULE, _range("executed_bundles"))
COLUMNS = (
    _LISTED,
    _EXECUTED,
    Column("spills, listed", Check.SCHEDULE, _spills),
    Column("to and from HBM", Check.SCHEDULE, _range("dma_bytes", "B")),
    Column("least VMEM", Check.SCHEDULE, _single("vmem_bytes", "B")),
    Column("temporaries in HBM", Check.COMPILE, _single("temp_bytes", "B")),
    Column("code", Check.COMPILE, _single("code_bytes", "B")),
)
