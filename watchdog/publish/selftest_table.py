"""The selftest in a terminal: what was planted, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from watchdog.publish import wording
from watchdog.selftest import Finding, Outcomes, Result

_STYLES = {
    Result.FOUND: "green",
    Result.CLEAN: "green",
    Result.TOO_SMALL: "yellow",
    Result.NOT_MEASURED: "yellow",
    Result.MISSED: "bold red",
    Result.FAILED: "bold red",
    Result.ALARM: "bold red",
}
_HEADS = ("planted", "at", "result", "measured", "planted size", "would see from", "line", "took")
_LEAST_COLUMNS = 100  # below, a row becomes a paragraph
_EXPLAINED = (Result.MISSED, Result.FAILED, Result.NOT_MEASURED, Result.ALARM)


def selftest_table(outcomes: Outcomes, console: Console) -> None:
    """Print a line for each planted leak and for the clean kernel, the reasons below, and the sum."""
    for environment in outcomes.environments:
        findings = [finding for finding in outcomes.findings if finding.pins == environment.pins]
        held = {package.name: package.version for package in environment.packages}
        versions = ", ".join(f"{name} {held[name]}" for name in ("jax", "jaxlib", "libtpu") if name in held)
        console.print(Text(f"{wording.one_line(environment.pins, 40)}: {versions or 'not installed'}", "bold"))
        console.print(_table(findings, console))
        for finding in findings:
            if finding.result in _EXPLAINED:
                console.print(Text(f"{_name(finding)}: {wording.one_line(finding.said, 400)}"))
        console.print()
    console.print(_sum(outcomes))


def _table(findings: Sequence[Finding], console: Console) -> RenderableType:
    rows = [_row(finding) for finding in findings]
    if console.width < _LEAST_COLUMNS:
        return Text("\n").join(Text(" · ").join(text for text in row if text.plain) for row in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in _HEADS:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _row(finding: Finding) -> list[Text]:
    plant, figure, detectable = finding.plant, finding.figure, finding.detectable
    unit = figure.unit if figure is not None else ""
    return [
        Text(_name(finding)),
        Text("" if plant is None else _rate(plant.every)),
        Text(finding.result.value, _STYLES[finding.result]),
        Text("" if figure is None else wording.figure(figure)),
        Text("" if finding.planted is None else _span(finding.planted, unit)),
        Text("" if detectable is None else wording.detectable(detectable)),
        _line(finding),
        Text(wording.duration(finding.seconds)),
    ]


def _name(finding: Finding) -> str:
    return "nothing" if finding.plant is None else finding.plant.leak.name


def _rate(every: int) -> str:
    return "every call" if every == 1 else f"every {every}th call"


def _span(planted: tuple[float, float], unit: str) -> str:
    low, high = (wording.amount(size, unit) for size in planted)
    return low if low == high else f"{low} to {high}"


def _line(finding: Finding) -> Text:
    if finding.line_is_right is None:
        return Text("")
    if finding.line_is_right:
        return Text("right", "green")
    return Text(wording.one_line(finding.where or "none", 60), "yellow")


def _sum(outcomes: Outcomes) -> Text:
    results = [finding.result for finding in outcomes.findings]
    parts = [f"{results.count(result)} {result}" for result in Result if result in results]
    return Text(", ".join(parts), "bold red" if outcomes.exit_code == 1 else "bold")
