"""The report in a terminal: closing table, list of runs, one run, what the machine can answer.

Text from outside is cleaned and never read as markup. Everything works at any width, without colour, and when the
output is a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from watchdog.model import Observation, Package, PackageChange, Status, Verdict
from watchdog.publish import sections, wording
from watchdog.publish.sections import Finding, Story
from watchdog.publish.story import RESUMABLE, RunReport, RunSummary

_STYLES = {
    Status.REGRESSED: "bold red",
    Status.INCONCLUSIVE: "yellow",
    Status.IMPROVED: "green",
    Status.PASS: "green",
    Status.SKIPPED: "dim",
}
_LEVELS = {"ok": "green", "note": "yellow", "problem": "bold red"}
_NARROW = 72  # columns; below, a table's sentences would be one word wide


class DoctorFinding(Protocol):
    """What `watchdog doctor` says on one topic."""

    @property
    def level(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def sentence(self) -> str: ...
    @property
    def remedy(self) -> str: ...


class CachedEnvironment(Protocol):
    """One environment in the cache."""

    @property
    def lock_hash(self) -> str: ...
    @property
    def packages(self) -> tuple[Package, ...]: ...
    @property
    def python(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def last_used(self) -> datetime: ...
    @property
    def complete(self) -> bool: ...


def closing_table(report: RunReport, console: Console, *, page: Path | None = None) -> None:
    """Print what a run found: a line for each kernel and pins, those that regressed first; counts; the report's page."""
    story = Story(report)
    rows = [_closing_row(story, kernel, pins) for kernel in report.kernels for pins in report.pins]
    rows.sort(key=lambda row: sections.NEED.index(row[0]) if row[0] else len(sections.NEED))
    cells = [[_text(kernel, 40), _text(pins, 40), _status(status), said] for status, kernel, pins, said in rows]
    console.print(_table(console, ("kernel", "pins", "verdict", "what"), cells))
    console.print()
    console.print(_text(story.headline(), 1000, "bold red" if story.findings else "bold"))
    console.print(_counts(story.report.summary))
    if page is not None:
        console.print(Text(f"Report: {wording.one_line(str(page), 1000)}"), soft_wrap=True)


def run_table(runs: Sequence[RunSummary], console: Console) -> None:
    """Print the runs, latest first, and how to finish the latest that did not come to its end."""
    if not runs:
        console.print("There are no runs yet; `watchdog run` makes the first.", markup=False)
        return
    heads = ("run", "took", "state", "pins", "verdicts")
    console.print(_table(console, heads, [_run_row(run) for run in runs]))
    unfinished = next((run for run in runs if run.state != "finished"), None)
    if unfinished is not None and unfinished.state in RESUMABLE:
        console.print()
        console.print(
            _text(f"`watchdog {unfinished.command} --resume` finishes {unfinished.run_id}", 100), soft_wrap=True
        )


def run_detail(report: RunReport, console: Console) -> None:
    """Print one run whole: facts, environments, all verdicts by kernel and pins, faults with the end of their log."""
    story = Story(report)
    console.print(_facts(report))
    console.print(_text(story.headline(), 1000, "bold red" if story.findings else "bold"))
    for block in _detail(story):
        console.print()
        console.print(block)


def doctor_table(findings: Iterable[DoctorFinding], console: Console) -> None:
    """Print what the machine can and cannot answer, with the remedy where there is one."""
    rows = []
    for finding in findings:
        said = _text(finding.sentence, 1000)
        if finding.remedy:
            said.append("\n→ ").append(wording.one_line(finding.remedy, 1000))
        rows.append(
            [_text(str(finding.level), 20, _LEVELS.get(str(finding.level), "")), _text(finding.topic, 40), said]
        )
    console.print(_table(console, ("level", "topic", "what"), rows))


def environments_table(environments: Sequence[CachedEnvironment], console: Console) -> None:
    """Print the cached environments, in the order given, and how much room they take together."""
    if not environments:
        console.print("The cache is empty; `watchdog run` fills it.", markup=False)
        return
    heads = ("lock", "python", "size", "last used", "packages")
    console.print(_table(console, heads, [_environment_row(one) for one in environments]))
    total = wording.amount(sum(one.bytes for one in environments), "B")
    console.print(Text(f"{wording.count(len(environments), 'environment')}, {total}"))


def _environment_row(environment: CachedEnvironment) -> list[Text]:
    held = ", ".join(f"{package.name} {package.version}" for package in environment.packages)
    return [
        _text(environment.lock_hash.removeprefix("sha256:")[:12], 12),
        _text(environment.python, 20),
        Text(wording.amount(environment.bytes, "B")),
        _text(wording.moment(environment.last_used.isoformat()), 40),
        _text(held, 200) if environment.complete else Text("not complete: `watchdog environments prune` removes it"),
    ]


def _closing_row(story: Story, kernel: str, pins: str) -> tuple[Status | None, str, str, Text]:
    verdicts = story.about(kernel, pins=pins)
    square = sections.square(verdicts)
    if square.first is None or square.status not in (Status.REGRESSED, Status.INCONCLUSIVE):
        return square.status, kernel, pins, Text(sections.totals(verdicts) or "not run")
    told = sections.told_once(verdict for verdict in verdicts if verdict.status is square.status)
    said = _text(f"{square.first.cell.check}: {_said(story, square.first)}", 400)
    if len(told) > 1:
        said.append(f" (and {len(told) - 1} more)", "dim")
    return square.status, kernel, pins, said


def _said(story: Story, verdict: Verdict) -> str:
    """What a verdict says; where it is another kernel's too, and that one's row says it, only that."""
    told = next((one.verdict for one in (*story.findings, *story.undecided) if verdict in one.also), verdict)
    row = sections.square(story.about(told.cell.kernel, pins=told.cell.pins)).first
    if told.cell.kernel == verdict.cell.kernel or row != told:
        return verdict.summary
    return f"the same as {sections.cell_owner(told.cell)}"


def _run_row(run: RunSummary) -> list[Text]:
    state = run.state if run.exit_code is None else f"{run.state}, exit {run.exit_code}"
    return [
        _text(run.run_id, 60),
        _text(wording.between(run.started, run.finished), 40),
        _text(state, 40),
        _text(", ".join(run.pins), 120),
        _counts(run),
    ]


def _facts(report: RunReport) -> Table:
    facts = {
        "run": report.run_id,
        "started": f"{wording.moment(report.started)}, took {wording.between(report.started, report.finished)}",
        "state": report.state if report.exit_code is None else f"{report.state}, exit code {report.exit_code}",
        "baseline": report.baseline or "none",
        "program": f"kernel-watchdog {report.program_version}",
        **report.machine,
    }
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        grid.add_row(_text(name, 40, "dim"), _text(str(fact), 300))
    return grid


def _detail(story: Story) -> Iterable[RenderableType]:
    for environment in story.report.environments:
        changes = story.changes(environment)
        if changes:
            title = _text(f"{environment.pins}: changed against {story.report.baseline}", 200, "bold")
            yield Group(title, *(Padding(_changed(change), (0, 0, 0, 2), expand=False) for change in changes))
    for kernel in ("", *story.report.kernels):
        mine = [verdict for verdict in story.verdicts if verdict.cell.kernel == kernel]
        for pins in dict.fromkeys(verdict.cell.pins for verdict in mine):
            some = [verdict for verdict in mine if verdict.cell.pins == pins]
            yield _verdicts(story, f"{kernel or 'all kernels'} under {pins}", some)


def _changed(change: PackageChange) -> Text:
    return _text(f"{change.name} {change.old or 'not there'} → {change.new or 'gone'}", 200)


def _verdicts(story: Story, title: str, verdicts: Sequence[Verdict]) -> Group:
    lines: list[RenderableType] = [_text(title, 200, "bold")]
    for finding in sections.word_for_word(verdicts):
        asked = story.asked_of(finding.verdict.cell)
        shared = asked != finding.verdict.cell
        line = _verdict(finding)
        if shared:
            line.append(f" (asked once, of {wording.one_line(sections.cell_owner(asked), 80)})", "dim")
        lines.append(Padding(line, (0, 0, 0, 2), expand=False))
        observation = story.by_cell.get(finding.verdict.cell)
        if observation is not None and observation.fault is not None and not shared:
            lines.append(Padding(_evidence(observation), (0, 0, 0, 6), expand=False))
    return Group(*lines)


def _verdict(finding: Finding) -> Text:
    verdict = finding.verdict
    line = _status(verdict.status)
    detail = ", ".join(filter(None, (verdict.cell.implementation, sections.cell_detail(verdict.cell))))
    place = " ".join(filter(None, (verdict.cell.check.value, f"({detail})" if detail else "")))
    line.append(f"  {wording.one_line(place, 160)}: ").append(wording.one_line(verdict.summary, 400))
    if verdict.figure is not None:
        line.append(f" [{wording.figure(verdict.figure)}]")
    if verdict.suspect is not None:
        line.append(f" suspect: {verdict.suspect}")
    if finding.also:
        line.append(f" (the same in {wording.count(len(finding.also), 'other cell')})", "dim")
    return line


def _evidence(observation: Observation) -> Text:
    fault = observation.fault
    assert fault is not None  # noqa: S101 - asked by the caller; said for the type checker
    log = wording.tail(observation.log_tail or fault.traceback, lines=12, characters=2000).strip()
    return Text("\n".join(filter(None, (wording.one_line(sections.fault_text(fault), 600), log))), "dim")


def _counts(run: RunSummary) -> Text:
    parts = [Text(f"{run.counts[one]:,} {one}", _STYLES[one]) for one in sections.NEED if run.counts.get(one)]
    return Text(", ").join(parts) if parts else Text("nothing judged")


def _status(status: Status | None) -> Text:
    return Text(status.value, _STYLES[status]) if status else Text("not run", "dim")


def _text(text: str, limit: int, style: str = "") -> Text:
    return Text(wording.one_line(text, limit), style)


def _table(console: Console, heads: Sequence[str], rows: Iterable[Sequence[Text]]) -> RenderableType:
    """A table; in a narrow terminal a paragraph for each row instead."""
    if console.width < _NARROW:
        return Group(*(Text(" · ").join([text for text in row if text.plain]) for row in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    # The first column is what one copies; the others are folded rather than cut, as a log cannot be scrolled sideways.
    table.add_column(heads[0], overflow="ellipsis", no_wrap=True, max_width=44)
    for head in heads[1:-1]:
        table.add_column(head, overflow="fold", max_width=36)
    table.add_column(heads[-1], overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*row)
    return table
