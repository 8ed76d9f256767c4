"""Generations compared: which figures stand where, what they are held against, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from watchdog.model import Cell, Check, Fault, Observation, Outcome, Status, Verdict
from watchdog.publish import generations
from watchdog.publish.generations import COLUMNS, Entry, Row
from watchdog.publish.html import write_site
from watchdog.publish.sections import Story
from watchdog.publish.story import RunReport

from .browser import browser, chromium
from .synthetic_reports import hostile, realistic

_KERNEL, _CASE = "norm", "small"
_OLD, _NEW = "old", "new"
_LISTED, _RUNS, _SPILLS, _TRAFFIC, _VMEM, _TEMPORARIES, _CODE = range(len(COLUMNS))


def _cell(check: Check, target: str, implementation: str = "custom", pins: str = _NEW) -> Cell:
    return Cell(_KERNEL, implementation, _CASE, pins, target, check)


def _schedule(bundles: int, **more: Any) -> Mapping[str, Any]:
    runs = {"low": bundles * 10, "high": bundles * 10}
    return {"bundles": bundles, "spill_stores": 1, "spill_fills": 2, "executed_bundles": runs, **more}


def _seen(cell: Cell, **data: Any) -> Observation:
    return Observation(cell, Outcome.OBSERVED, data=data)


def _report(*observations: Observation, targets: tuple[str, ...] = ("host", "tpu:v4", "tpu:v5e")) -> RunReport:
    """A run of one kernel under two pins; `observations` replace those of their cells."""
    usual = {one.cell: one for one in _usual(targets)} | {one.cell: one for one in observations}
    empty = replace(realistic(), observations=(), verdicts=(), environments=(), baseline=_OLD, targets=targets)
    verdicts = tuple(
        Verdict(cell, Status.REGRESSED, "does not fit", kind="out of VMEM")
        for cell, one in usual.items()
        if one.outcome.is_fault
    )
    return replace(empty, kernels=(_KERNEL,), pins=(_OLD, _NEW), observations=tuple(usual.values()), verdicts=verdicts)


def _usual(targets: tuple[str, ...]) -> Iterator[Observation]:
    """Custom's bundles double from old to new and are half of native's under the old pins."""
    for target in targets:
        for name, pins, bundles in (
            ("custom", _OLD, 50),
            ("custom", _NEW, 100),
            ("native", _OLD, 100),
            ("native", _NEW, 100),
        ):
            yield _seen(_cell(Check.COMPILE, target, name, pins), temp_bytes=0, code_bytes=2048)
            if target != "host":
                yield _seen(_cell(Check.SCHEDULE, target, name, pins), **_schedule(bundles))


def _rows(report: RunReport, pins: str = _NEW) -> dict[tuple[str, str], Row]:
    (only,) = generations.compared(Story(report), _KERNEL)
    (table,) = (one for one in only.tables if one.pins == pins)
    return {(row.generation, row.implementation): row for group in table.groups for row in group}


def _entry(report: RunReport, column: int, generation: str = "v5e") -> Entry:
    return _rows(report)[generation, "custom"].entries[column]


@pytest.mark.parametrize("targets", [("host",), ("host", "tpu:v5e")])
def test_one_generation_is_compared_with_nothing(targets: tuple[str, ...], tmp_path: Path) -> None:
    """Where fewer than two generations were asked there is no such section."""
    report = _report(targets=targets)
    assert not generations.compared(Story(report), _KERNEL)
    write_site(tmp_path / "site", [report.summary], report)
    assert "Generations compared" not in (tmp_path / "site" / "kernels" / "norm.html").read_text(encoding="utf-8")


def test_every_generation_has_a_row_for_every_implementation() -> None:
    """In the order of the configuration, without the host's own device."""
    assert list(_rows(_report())) == [("v4", "custom"), ("v4", "native"), ("v5e", "custom"), ("v5e", "native")]


def test_a_figure_is_held_against_the_baseline_and_against_native() -> None:
    """Twice the baseline's; as many as native's, which is not said."""
    report = _report(_seen(_cell(Check.SCHEDULE, "tpu:v4", "native"), **_schedule(400)))
    assert _entry(report, _LISTED) == Entry("100", "×2", "")
    assert _entry(report, _LISTED, "v4") == Entry("100", "×2", "×0.25")
    assert _entry(report, _RUNS, "v4") == Entry("1,000", "×2", "×0.25")


def test_the_baseline_is_not_held_against_itself() -> None:
    """Its rows stand beside native's alone."""
    assert _rows(_report(), _OLD)["v5e", "custom"].entries[_LISTED] == Entry("50", "", "×0.5")


def test_bytes_and_spills_have_their_units() -> None:
    """Spills are stores and fills together; bytes are in the unit that people use."""
    report = _report(_seen(_cell(Check.SCHEDULE, "tpu:v5e"), **_schedule(100, vmem_bytes=196_608)))
    assert [_entry(report, column).text for column in (_SPILLS, _VMEM, _TEMPORARIES, _CODE)] == [
        "3",
        "192 KiB",
        "0 B",
        "2 KiB",
    ]


def test_an_inexact_figure_is_an_interval_and_is_compared_with_nothing() -> None:
    """Between two numbers, or at least so many; never a ratio of such."""
    runs, traffic = {"low": 10, "high": 30}, {"low": 1024, "high": None}
    report = _report(
        _seen(_cell(Check.SCHEDULE, "tpu:v5e"), **_schedule(100, executed_bundles=runs, dma_bytes=traffic))
    )
    assert _entry(report, _RUNS) == Entry("10 to 30")
    assert _entry(report, _TRAFFIC) == Entry("at least 1 KiB")


def test_at_least_nothing_is_no_measurement() -> None:
    """An interval from zero without an end says nothing."""
    report = _report(_seen(_cell(Check.SCHEDULE, "tpu:v5e"), **_schedule(100, dma_bytes={"low": 0, "high": None})))
    assert not _entry(report, _TRAFFIC).text


def test_what_was_not_measured_says_so() -> None:
    """A figure that one compiler does not tell; an older program's observation has fewer keys."""
    report = _report(_seen(_cell(Check.SCHEDULE, "tpu:v5e"), bundles=7))
    assert _entry(report, _LISTED).text == "7"
    for column in (_RUNS, _SPILLS, _TRAFFIC, _VMEM):
        assert (_entry(report, column).text, _entry(report, column).missing) == ("", "not measured")


def test_a_kernel_that_one_generation_refuses_is_told_with_its_verdict() -> None:
    """The whole row is one sentence, and leads to the verdict."""
    refused = _cell(Check.COMPILE, "tpu:v4")
    blocked = Observation(_cell(Check.SCHEDULE, "tpu:v4"), Outcome.SKIPPED, reason="does not compile: E")
    row = _rows(_report(Observation(refused, Outcome.FAILED, fault=Fault("E", "full")), blocked))["v4", "custom"]
    assert (row.missing, row.compiles) == ("does not compile: out of VMEM", False)
    assert row.verdict is not None
    assert row.verdict.cell == refused


def test_a_generation_that_a_compiler_does_not_know_has_its_reason() -> None:
    """Skipped is told as not measured, and is no fault."""
    why = "libtpu 0.0.20 cannot describe a v4"
    skipped = [
        Observation(_cell(check, "tpu:v4"), Outcome.SKIPPED, reason=why) for check in (Check.COMPILE, Check.SCHEDULE)
    ]
    row = _rows(_report(*skipped))["v4", "custom"]
    assert (row.missing, row.verdict) == (f"not measured: {why}", None)


def test_over_all_pins_the_bundles_as_they_run_stand_beside_each_other() -> None:
    """One column for each of the pins; where they are not known, as they are listed; else what stopped it."""
    report = _report(
        _seen(_cell(Check.SCHEDULE, "tpu:v5e"), bundles=7),
        Observation(_cell(Check.COMPILE, "tpu:v4"), Outcome.CRASHED, fault=Fault("signal 6", "")),
        Observation(_cell(Check.SCHEDULE, "tpu:v4"), Outcome.SKIPPED, reason="does not compile"),
    )
    (only,) = generations.compared(Story(report), _KERNEL)
    rows = {row.generation: row.entries for group in only.over_pins for row in group if row.implementation == "custom"}
    assert [entry.text or entry.missing for entry in rows["v5e"]] == ["500", "7"]
    assert [entry.text or entry.missing for entry in rows["v4"]] == ["500", "does not compile"]


class _Tables(HTMLParser):
    """Of each table of generations: whether it has a caption, the scopes of its headings, the rows' widths."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.captions, self.scopes, self.widths = 0, list[str | None](), list[int]()
        self._inside = False
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "table":
            self._inside = values.get("class") == "generations"
        if not self._inside:
            return
        self.captions += tag == "caption"
        if tag == "tr":
            self.widths.append(0)
        if tag == "th":
            self.scopes.append(values.get("scope"))
        if tag == "td":
            self.widths[-1] += int(values.get("colspan") or 1)

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "table"


def test_a_screen_reader_is_told_what_each_square_is(tmp_path: Path) -> None:
    """Each table has a caption, each heading a scope, each row as many squares as there are columns."""
    refused = Observation(_cell(Check.COMPILE, "tpu:v4"), Outcome.FAILED, fault=Fault("E", "full"))
    blocked = Observation(_cell(Check.SCHEDULE, "tpu:v4"), Outcome.SKIPPED, reason="does not compile: E")
    report = _report(refused, blocked)
    write_site(tmp_path / "site", [report.summary], report)
    tables = _Tables(tmp_path / "site" / "kernels" / "norm.html")
    assert tables.captions == 3
    assert {"col", "row", "rowgroup"} == set(tables.scopes)
    assert {width for width in tables.widths if width} == {2, len(COLUMNS) + 1}


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """Names of generations, pins and cases come from outside."""
    attacked = hostile()
    names = ("tpu:<script>a</script>", "tpu:<img src=x onerror=b>")
    kernel, name = attacked.kernels[0], attacked.pins[0]
    seen = tuple(
        _seen(Cell(kernel, kernel, kernel, name, target, Check.SCHEDULE), bundles=1, executed_bundles=kernel)
        for target in names
    )
    report = replace(attacked, targets=names, observations=seen)
    write_site(tmp_path / "site", [report.summary], report)
    text = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site" / "kernels").iterdir())
    assert "Generations compared" in text
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.skipif(chromium() is None, reason="no Chromium here")
def test_the_page_is_never_wider_than_a_telephone(tmp_path: Path) -> None:
    """The tables scroll inside their frames, which the keyboard reaches; the generation stays in sight."""
    report = _report()
    write_site(tmp_path / "site", [report.summary], report)
    with browser() as tab:
        tab.look(390)
        tab.visit((tmp_path / "site" / "kernels" / "norm.html").as_uri())
        assert tab.value("document.documentElement.scrollWidth") <= 390
        frame = "[...document.querySelectorAll('[aria-labelledby=generations] .scroll')].at(-1)"
        tab.value("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert tab.value(f"{frame}.tabIndex") == 0
        assert tab.value(f"({frame}.scrollLeft = 9999, {frame}.scrollLeft)") > 0
        assert tab.value(f"{frame}.querySelector('tbody .generation').getBoundingClientRect().left") >= 0
