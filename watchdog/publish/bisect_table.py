"""A bisection's answer in the terminal. Its path was told probe by probe, as it went."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from watchdog.gate.report import Bisected
from watchdog.publish import gate_wording


def bisect_table(bisected: Bisected, console: Console) -> None:
    """Print the edge, what else moved across it, what could not be judged, and what must be known of the search."""
    if bisected.moved:
        moved = ", ".join(gate_wording.package_change(change) for change in bisected.moved)
        console.print(Text(f"with it moved: {moved}"))
    if bisected.between:
        console.print(Text(f"could not be judged: {', '.join(map(gate_wording.said, bisected.between))}", "yellow"))
    for note in bisected.notes:
        console.print(Text(f"note: {gate_wording.said(note)}", "dim"))
    style = "bold" if bisected.certain else "bold yellow"
    console.print(Text(gate_wording.said(bisected.said), style))
