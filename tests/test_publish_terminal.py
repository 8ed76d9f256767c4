"""What the terminal shows: tables, one run, progress."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from watchdog.environments import CachedEnvironment
from watchdog.model import Cell, Check, Outcome, Package, Status, Verdict
from watchdog.publish.progress import progress
from watchdog.publish.terminal import closing_table, doctor_table, environments_table, run_detail, run_table

from .synthetic_reports import empty, hostile, realistic, shared

_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _console(width: int = 120, *, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, no_color=not terminal, _environ={})


def _shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_regressed_comes_first_in_the_closing_table() -> None:
    """One line for each kernel and pins, the broken one on top with its sentence; counts and the page below."""
    console = _console(160)
    closing_table(realistic(), console, page=Path("report/index.html"))
    lines = _shown(console).splitlines()
    assert re.match(r"jax_flash_attention +jax-0\.9\.2 +regressed +import: .*No module named 'absl'", lines[1])
    assert sum(bool(re.match(r"(jax_)?flash_attention +jax-", line)) for line in lines) == 6
    assert "1 finding in 1 of 2 kernels: import of jax_flash_attention/custom under jax-0.9.2." in lines
    assert "1 regressed, 16 inconclusive, 8 improved, 446 pass, 72 skipped" in lines
    assert lines[-1] == "Report: report/index.html"


def test_what_several_kernels_share_is_told_once_in_the_terminal() -> None:
    """The second kernel's row refers to the first's; the headline counts one; the detail says whom was asked."""
    console = _console(160)
    closing_table(shared(), console)
    lines = _shown(console).splitlines()
    assert re.match(r"flash_attention +jax-0\.10\.2 +regressed +memory: keeps 16 KiB per call", lines[1])
    assert re.match(
        r"jax_flash_attention +jax-0\.10\.2 +regressed +memory: the same as flash_attention/native *$", lines[2]
    )
    assert any(line.startswith("1 finding in 2 of 2 kernels") for line in lines)
    run_detail(shared(), console)
    assert _shown(console).count("Check failed") == 1
    assert "(asked once, of flash_attention/native)" in _shown(console)


def test_a_row_says_what_no_other_row_says() -> None:
    """Where the kernel that was asked has something worse to tell, the other kernel's row tells what they share."""
    report = shared()
    worse = Cell("flash_attention", "custom", "", "jax-0.10.2", "", Check.IMPORT)
    console = _console(160)
    closing_table(replace(report, verdicts=(*report.verdicts, Verdict(worse, Status.REGRESSED, "is gone"))), console)
    assert re.search(r"^flash_attention .*import: is gone \(and 1 more\)", _shown(console), re.MULTILINE)
    assert re.search(r"^jax_flash_attention .*memory: keeps 16 KiB per call", _shown(console), re.MULTILINE)


@pytest.mark.parametrize("width", [20, 50, 80, 200])
def test_every_width_shows_the_whole_sentence_and_none_is_exceeded(width: int) -> None:
    """Narrow terminals get paragraphs; no line is longer than the terminal, no word is lost."""
    console = _console(width)
    closing_table(realistic(), console)
    shown = _shown(console)
    assert max(map(len, shown.splitlines())) <= width
    assert "absl" in shown


@pytest.mark.parametrize("width", [40, 120])
def test_hostile_text_moves_no_cursor_and_is_no_markup(width: int) -> None:
    """No control or bidi character of a name, message or log reaches the terminal, whichever table shows it."""
    console = _console(width)
    report = hostile()
    closing_table(report, console)
    run_table([report.summary], console)
    run_detail(report, console)
    assert not _UNSAFE.search(_shown(console))
    assert len(_shown(console)) < 60_000


def test_square_brackets_of_a_message_are_shown() -> None:
    """Text that looks like the terminal library's markup stays as it is."""
    console = _console()
    doctor_table([_Finding("note", "libtpu", "found [red]nothing[/red] in [/]", "install jax[tpu]")], console)
    assert "found [red]nothing[/red] in [/]" in _shown(console)
    assert "→ install jax[tpu]" in _shown(console)


def test_no_color_leaves_plain_text() -> None:
    """With NO_COLOR in a terminal no colour is sent."""
    console = Console(file=io.StringIO(), width=100, force_terminal=True, _environ={"NO_COLOR": "1"})
    closing_table(realistic(), console)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", _shown(console))


def test_one_run_shows_its_faults_with_their_log() -> None:
    """The detail has machine, changed packages, every group of verdicts and the traceback's end."""
    console = _console()
    run_detail(realistic(), console)
    shown = _shown(console)
    for words in (
        "absl-py 2.3.1 → gone",
        "Processor",
        "from absl import logging",
        "suspect: library",
        "[×0.91 ± 0.02]",
    ):
        assert words in shown


def test_a_list_without_runs_says_what_to_do() -> None:
    """The empty state names the next command; a run that was cut off is shown as that."""
    console = _console()
    run_table([], console)
    run_table([empty().summary], console)
    assert "`watchdog run` makes the first" in _shown(console)
    assert "interrupted" in _shown(console)


@pytest.mark.parametrize(
    ("states", "finished"),
    [
        (("killed",), "run-0"),
        (("finished", "failed", "killed"), "run-1"),
        (("finished", "running", "killed"), None),
        (("finished",), None),
    ],
)
def test_the_list_says_which_run_can_be_finished(states: tuple[str, ...], finished: str | None) -> None:
    """The latest that did not come to its end, for that is what `--resume` takes; none while that one is at work."""
    console = _console()
    run_table([replace(empty().summary, run_id=f"run-{at}", state=state) for at, state in enumerate(states)], console)
    hints = [line for line in _shown(console).splitlines() if "--resume" in line]
    assert hints == ([f"`watchdog run --resume` finishes {finished}"] if finished else [])


def test_the_cache_is_listed_with_its_size_and_ruins() -> None:
    """Each environment has the start of its lock's hash, its size and what it holds; a ruin says how to be rid of it."""
    console, used = _console(), datetime(2026, 1, 31, 2, tzinfo=UTC)
    whole = CachedEnvironment(
        "sha256:" + "ab" * 32, Path(), (Package("jax", "0.8.3"),), "3.11.7", 2**30, used, complete=True
    )
    ruin = CachedEnvironment("cd" * 6, Path(), (), "", 2**20, used, complete=False)
    environments_table([whole, ruin], console)
    environments_table([], console)
    shown = _shown(console)
    assert re.search(r"^abababababab +3\.11\.7 +1 GiB +2026-01-31 02:00 UTC +jax 0\.8\.3", shown, re.MULTILINE)
    assert re.search(r"^cdcdcdcdcdcd .*not complete: `watchdog environments prune`", shown, re.MULTILINE)
    assert "2 environments, 1.001 GiB" in shown
    assert "The cache is empty" in shown


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    """A thousand cells in a minute are a handful of lines with done, total, elapsed and the time left; faults are told."""
    console, clock = _console(), _Clock()
    with progress(1000, console, clock=clock) as shown:
        for number in range(1000):
            shown.started(f"cell {number}")
            clock.now += 0.06
            shown.finished(f"cell {number}", Outcome.CRASHED if number == 500 else Outcome.OBSERVED, 0.06)
    lines = _shown(console).splitlines()
    assert len(lines) <= 8
    assert lines[0] == "0/1000, 0.0 s, running cell 0"
    assert any(re.fullmatch(r"250/1000, 15 s, about 45 s left, .*", line) for line in lines)
    assert "crashed  cell 500  0.1 s" in lines
    assert lines[-1] == "1000/1000, 1 min 00 s, 1 failed, ended"


def test_in_a_terminal_progress_shows_what_runs_and_tells_faults() -> None:
    """The live picture names the running cells, cleaned; a fault stays on the screen after the picture is gone."""
    console = _console(terminal=True)
    with progress(2, console) as shown:
        shown.started("flash_attention/custom")
        shown.started("evil\x1b]0;taken\x07 name")
        console.print("a message between")
        shown.finished("flash_attention/custom", Outcome.HUNG, 300)
    text = _shown(console)
    assert "0/2" in text
    assert "hung" in text
    assert "5 min 00 s" in text
    assert "\x1b]0;" not in text


def test_quiet_progress_is_silent() -> None:
    """Quiet writes nothing, not even faults: the closing table has them."""
    console = _console()
    with progress(1, console, quiet=True) as shown:
        shown.started("a")
        shown.finished("a", Outcome.FAILED, 1)
    assert _shown(console) == ""


def test_progress_ends_cleanly_when_the_run_does_not() -> None:
    """An interruption passes through, and the last line says how far it came."""
    console = _console()

    def interrupted() -> None:
        with progress(5, console, clock=_Clock()) as shown:
            shown.started("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert _shown(console).splitlines() == ["0/5, 0.0 s, running a", "0/5, 0.0 s, stopped"]


@dataclass(frozen=True)
class _Finding:
    level: str
    topic: str
    sentence: str
    remedy: str
