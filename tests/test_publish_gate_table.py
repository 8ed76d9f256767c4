"""A gate in the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests import synthetic_gates
from tests.test_gate_document import GATES
from watchdog.gate.report import GateReport
from watchdog.publish.gate_table import gate_table

_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(report: GateReport, width: int = 120, page: Path | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, no_color=True, _environ={})
    gate_table(report, console, page=page)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_it_reads_from_the_difference_to_the_answer() -> None:
    """Difference, warnings, findings by standing, what was not measured, counts, answer, page: in this order."""
    lines = shown(synthetic_gates.failed(), 200, Path("report/index.html"))
    parts = [
        "origin/main:uv.lock → uv.lock: 15 packages changed",
        "  jax         0.8.3   →  0.9.2   direct",
        "warning: libtpu 0.0.24 is older than what jaxlib 0.9.2 was released with: they may not fit together",
        "Caused by the change",
        "  blame: jax 0.8.3 → 0.9.2: jax 0.9.2 alone brings it: the rest of the change is innocent",
        "Undecided",
        "Still broken, with and without the change",
        "Broken under the base alone",
        "Accepted",
        "Not measured",
        "10 regressed, 1 inconclusive, 1 improved, 4 pass, 2 skipped; 3 min 07 s",
    ]
    places = [lines.index(part) for part in parts]
    assert places == sorted(places)
    assert lines[-2].startswith("failed: the change causes 7 regressions")
    assert lines[-2].endswith("blame: jax 0.8.3 → 0.9.2 and my-kernels 1.3 → 1.4")
    assert lines[-1] == "Report: report/index.html"


def test_a_finding_has_its_figure_and_what_could_be_seen() -> None:
    """With suspect, blame and line; the same in several scenarios is told once."""
    whole = "\n".join(shown(synthetic_gates.failed(), 400))
    assert "[×1.12 ± 0.03; suspect: kernel; smallest visible: ×1.03]" in whole
    assert whole.count("leaks one 16 KiB array per call") == 1
    assert "and in 2 other cells" in whole


def test_all_well_is_short() -> None:
    """No heading of a standing without anything under it."""
    lines = shown(synthetic_gates.passed())
    assert lines[-1] == "passed: the change breaks nothing: 42 questions answered"
    assert not {"Caused by the change", "Undecided", "Accepted"} & set(lines)


@pytest.mark.parametrize("width", [30, 59, 60, 100])
def test_it_holds_at_every_width(width: int) -> None:
    """No line is wider than the terminal, and no package or sentence is lost."""
    lines = shown(synthetic_gates.failed(), width)
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    for wanted in ("absl-py", "gone", "module absl is missing", "smallest visible"):
        assert wanted in words


def test_many_findings_are_counted() -> None:
    """A dozen are told, and how many more there are."""
    lines = shown(synthetic_gates.crowded(40), 300)
    assert sum("module absl is missing" in line for line in lines) == 12
    assert "  and 28 more" in lines


@pytest.mark.parametrize("width", [40, 120])
def test_hostile_text_moves_no_cursor_and_is_no_markup(width: int) -> None:
    """No control or bidi character, no password, and square brackets are shown as they are."""
    whole = "\n".join(shown(GATES["hostile"], width))
    assert not _UNSAFE.search(whole)
    assert "hunter2" not in whole
    assert "[x](" in "".join(whole.split())
