"""A gate's answer in the terminal: what differs, what was found, the answer. At any width, and without colour."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from watchdog.gate.report import Answer, Blame, Change, GateReport, Standing
from watchdog.publish import gate_wording, wording
from watchdog.publish.gate_wording import Told

_STYLES = {
    Standing.BUMP: "bold red",
    Standing.OPEN: "yellow",
    Standing.STILL: "yellow",
    Standing.BASE: "yellow",
    Standing.ACCEPTED: "cyan",
    Standing.FINE: "green",
}
_ANSWERS = {Answer.PASSED: "bold green", Answer.FAILED: "bold red", Answer.UNDECIDED: "bold yellow"}
_SHOWN = (Standing.BUMP, Standing.OPEN, Standing.STILL, Standing.BASE, Standing.ACCEPTED)
_MOST_CHANGES = 20
_MOST_TOLD = 12  # of each standing
_MOST_REASONS = 6
_NARROW = 60


def gate_table(report: GateReport, console: Console, *, page: Path | None = None) -> None:
    """Print what differs, warnings, findings by standing, what was not measured, counts, the answer, and the page."""
    for part in (_difference(report, console.width), *_standings(report), *_not_measured(report)):
        console.print(part)
    console.print(Text(f"{gate_wording.counts(report)}; {gate_wording.took(report)}", "dim"))
    console.print(_answer(report))
    if page is not None:
        console.print(Text(f"Report: {wording.one_line(str(page), 1000)}"), soft_wrap=True)


def _difference(report: GateReport, width: int) -> RenderableType:
    base, head = gate_wording.sides(report.difference)
    changes = report.difference.changes
    grid = Table.grid(padding=(0, 2))
    title = Text.assemble((f"{base} → {head}", "bold"), f": {wording.count(len(changes), 'package')} changed")
    table = Table.grid()
    table.add_row(title)
    for one in changes[:_MOST_CHANGES]:
        if width < _NARROW:
            table.add_row(Text(f"  {gate_wording.change(one)}"))
        else:
            grid.add_row(*_cells(one))
    if width >= _NARROW and changes:
        table.add_row(Padding(grid, (0, 0, 0, 2)))
    if len(changes) > _MOST_CHANGES:
        table.add_row(Text(f"  and {len(changes) - _MOST_CHANGES:,} more", "dim"))
    for warning in report.difference.warnings:
        table.add_row(Text(f"warning: {gate_wording.said(warning)}", "yellow"))
    return table


def _cells(one: Change) -> list[Text]:
    name, old, new = one.package.name, one.package.old or "not there", one.package.new or "gone"
    shown = (name, old, "→", new, one.depth)
    return [Text(gate_wording.said(text, 60), "dim" if text in ("→", "transitive") else "") for text in shown]


def _standings(report: GateReport) -> Iterable[RenderableType]:
    for standing in _SHOWN:
        told = gate_wording.told_once(report, report.of(standing))
        if not told:
            continue
        yield Text(f"\n{gate_wording.title(standing)}", _STYLES[standing])
        for one in told[:_MOST_TOLD]:
            yield Padding(_finding(report, one), (0, 0, 0, 2), expand=False)
        if len(told) > _MOST_TOLD:
            yield Text(f"  and {len(told) - _MOST_TOLD:,} more", "dim")
        if standing is Standing.BUMP:
            yield from (_blame(one) for one in report.blames)


def _finding(report: GateReport, told: Told) -> Text:
    line = Text(gate_wording.topic(told.verdict), "bold")
    line.append(f" {told.elsewhere}" if told.elsewhere else "", "dim")
    line.append(f": {gate_wording.said(told.verdict.summary)}", "not bold")
    facts = gate_wording.facts(report, told.judged)
    smallest = gate_wording.smallest(told.verdict)
    facts += [f"smallest visible: {smallest}"] if smallest else []
    if facts:
        line.append(f" [{'; '.join(facts)}]", "not bold cyan")
    if told.judged.acceptance is not None:
        line.append(f" {gate_wording.acceptance(told.judged.acceptance)}", "not bold italic")
    return line


def _blame(blame: Blame) -> RenderableType:
    packages = gate_wording.blame_packages(blame)
    line = Text.assemble(("blame: ", "bold"), (f"{packages}: " if packages else ""), gate_wording.said(blame.said))
    return Padding(line, (0, 0, 0, 2), expand=False)


def _not_measured(report: GateReport) -> Iterable[RenderableType]:
    reasons = [f"{what}: {why}" for what, why in gate_wording.not_measured(report)]
    reasons += [gate_wording.said(note) for note in report.notes]
    if reasons:
        yield Text("\nNot measured", "dim")
    for reason in reasons[:_MOST_REASONS]:
        yield Padding(Text(reason, "dim"), (0, 0, 0, 2), expand=False)
    if len(reasons) > _MOST_REASONS:
        yield Text(f"  and {len(reasons) - _MOST_REASONS:,} more", "dim")
    yield Text("")


def _answer(report: GateReport) -> Text:
    line = Text.assemble((f"{report.answer}: ", _ANSWERS[report.answer]), gate_wording.reason(report))
    culprits = gate_wording.culprits(report)
    if culprits and report.answer is Answer.FAILED:
        line.append(f"; blame: {culprits}", "bold")
    return line
