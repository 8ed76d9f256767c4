"""Tables that campaigns write into the pages of docs/, between the markers of their place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def markers(name: str) -> tuple[str, str]:
    """The lines between which the table called `name` stands."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a page. Raises ValueError when they are not there."""
    begin, end = markers(name)
    before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        message = f"{page} has no place for the table; it needs the lines {begin} and {end}"
        raise ValueError(message)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
