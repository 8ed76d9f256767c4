"""What this machine's noise lets a gate see, in the terminal and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
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
        lines = [f"not measured: {wording.one_line(result)}"] if isinstance(result, str) else _lines(result)
        for line in lines:
            console.print(Text(f"  {line}"))
        console.print()


def calibration_document(results: Mapping[Cell, Calibrated | str]) -> dict[str, Any]:
    """As JSON values: shares and relative figures are fractions, times seconds."""
    return {"schema": 1, "cells": [{"cell": asdict(cell), **_values(result)} for cell, result in results.items()]}


def _values(result: Calibrated | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"why_not": result}
    return {**asdict(result), "power": [asdict(found) for found in result.power]}


def _lines(result: Calibrated) -> list[str]:
    middle = wording.amount(result.seconds, "s")
    most = result.rule.processes
    return [
        f"{middle} per call; {wording.count(result.processes, 'process')} of about {result.rounds} rounds each",
        f"noise: {_percent(result.between)} between processes, {_percent(result.within)} between rounds of a process",
        _alarms(result),
        *(
            f"a change of {_percent(found.slowdown)}: found in {found.slower:.0%} of the gates, undecided in "
            f"{found.undecided:.0%}; {found.processes:.0f} processes a side on average, at most {most}"
            for found in result.power
            if found.slowdown
        ),
        _seen(result),
    ]


def _alarms(result: Calibrated) -> str:
    limit = _percent(result.false_alarm_limit)
    return (
        f"false alarms: {result.false_alarms} in {result.trials:,} gates without any change "
        f"(so at most {limit} of them, as far as these processes tell)"
    )


def _seen(result: Calibrated) -> str:
    seen = [found.slowdown for found in result.power if found.slowdown and found.slower >= _ENOUGH]
    if seen:
        return f"so a gate here finds slowdowns from about {_percent(min(seen))} on"
    biggest = max(found.slowdown for found in result.power)
    more = "take more processes, or quieten the machine"
    return f"so no slowdown up to {_percent(biggest)} is found reliably here: {more}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
