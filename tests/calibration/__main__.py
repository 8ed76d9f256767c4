"""`make calibrate`: the rule of timing over made-up series, beside the rules of other tools; writes the table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.calibration import campaign, series
from tests.calibration.campaign import OURS, SLOWDOWNS, Row
from tests.written import markdown_table, put
from watchdog.calibration import upper_limit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "judging-timing.md"
NAME = "calibration"  # of the place in the page


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__)
    parser.add_argument("--at-rest", type=int, default=10_000, help="gates without any change, of each family")
    parser.add_argument("--gates", type=int, default=1_000, help="gates of each family and slowdown")
    parser.add_argument("--peers", type=int, default=500, help="the same for the other tools; 0 leaves them out")
    parser.add_argument("--write", type=Path, default=None, help="the page that holds the table")
    options = parser.parse_args(arguments)
    console = Console(stderr=True, highlight=False)

    def tell(row: Row) -> None:
        console.print(f"{row.rule}, {row.family}, {row.slowdown:.0%}: failed {row.failed} of {row.gates}")

    rows = campaign.asked_ours(lambda slowdown: options.gates if slowdown else options.at_rest, tell)
    if options.peers:
        rows += campaign.asked_peers(options.peers, tell)
    text = written(rows)
    if options.write is None:
        sys.stdout.write(f"{text}\n")
    else:
        put(options.write, NAME, text)
    return 0


def written(rows: Sequence[Row]) -> str:
    """The tables as Markdown: all rules side by side, then ours alone."""
    rules = list(dict.fromkeys(row.rule for row in rows))
    families = list(series.FAMILIES)
    heads = ["rule", "family", *(f"+{slowdown:.0%}" if slowdown else "no change" for slowdown in SLOWDOWNS)]
    cells = {(row.rule, row.family, row.slowdown): row for row in rows}
    lines = [
        [rule, family, *(_share(cells[rule, family, slowdown]) for slowdown in SLOWDOWNS)]
        for rule in rules
        for family in families
    ]
    own = [
        [
            row.family,
            _slowdown(row.slowdown),
            f"{row.gates:,}",
            f"{row.failed:,}",
            f"{row.undecided:,}",
            f"{row.processes:.1f}",
        ]
        for row in rows
        if row.rule == OURS
    ]
    at_rest = [row for row in rows if row.rule == OURS and not row.slowdown]
    return "\n\n".join(
        [
            markdown_table(heads, lines),
            _alarms(sum(row.failed for row in at_rest), sum(row.gates for row in at_rest)),
            markdown_table(["family", "change", "gates", "failed", "undecided", "processes a side, mean"], own),
        ]
    )


def _alarms(alarms: int, gates: int) -> str:
    limit = 100 * upper_limit(alarms, gates)
    said = f"False alarms of our rule over all families: {alarms:,} of {gates:,} gates"
    return f"{said}, at most {limit:.3f} % with 95 % confidence."


def _share(row: Row) -> str:
    share = 100 * row.failed / row.gates
    return f"{share:.2f} %" if share < 1 else f"{share:.1f} %"


def _slowdown(slowdown: float) -> str:
    return f"{slowdown:.0%}" if slowdown else "none"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
