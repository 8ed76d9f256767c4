"""What this machine's noise lets a gate see, in the terminal and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from watchdog.calibration import Calibrated
from watchdog.model import Cell
from watchdog.publish import wording
from watchdog.runner import label

_ENOUGH = 0.95  # share of gates that must find a change before it is told as one that is seen


def calibration_table(results: Mapping[Cell, Calibrated | str], console: Console) -> None:
    """Print, for each cell, its noise, false alarms and power, or why there is none; a paragraph each, at any width."""
    for cell, result in results.items():
        console.print(Text(wording.one_line(label(cell)), "bold"))
        if isinstance(result, str):
            console.print(_indented(f"not measured: {wording.one_line(result)}"))
        else:
            for part in (*map(_indented, _noise(result)), _power(result), _indented(_seen(result))):
                console.print(part)
        console.print()


def calibration_document(results: Mapping[Cell, Calibrated | str]) -> dict[str, Any]:
    """As JSON values: shares and relative figures are fractions, times seconds."""
    return {"schema": 1, "cells": [{"cell": asdict(cell), **_values(result)} for cell, result in results.items()]}


def _values(result: Calibrated | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"why_not": result}
    return {**asdict(result), "power": [asdict(found) for found in result.power]}


def _indented(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def _noise(result: Calibrated) -> list[str]:
    middle, limit = wording.amount(result.seconds, "s"), _percent(result.false_alarm_limit)
    return [
        f"{middle} per call, from {result.processes} processes of about {result.rounds} rounds each",
        f"noise: {_percent(result.between)} between processes, {_percent(result.within)} between rounds of a process",
        f"false alarms: {result.false_alarms} of {result.trials:,} gates without any change (at most {limit})",
    ]


def _power(result: Calibrated) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("slower by", "found", "undecided", "processes a side"):
        table.add_column(head, justify="right")
    for found in result.power:
        if found.slowdown:
            taken = f"{found.processes:.0f} of {result.rule.processes}"
            table.add_row(_percent(found.slowdown), f"{found.slower:.0%}", f"{found.undecided:.0%}", taken)
    return Padding(table, (0, 0, 0, 2), expand=False)


def _seen(result: Calibrated) -> str:
    seen = [found.slowdown for found in result.power if found.slowdown and found.slower >= _ENOUGH]
    if seen:
        return f"so a gate here finds slowdowns from about {_percent(min(seen))} on"
    biggest = max(found.slowdown for found in result.power)
    more = "take more processes, or quieten the machine"
    return f"so no slowdown up to {_percent(biggest)} is found reliably here: {more}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
