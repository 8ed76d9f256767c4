"""A gate in GitHub Actions: annotations, the job's summary, the step's outputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import synthetic_gates
from tests.test_gate_document import GATES
from watchdog.gate.report import GateReport
from watchdog.publish.annotations import annotation_lines, github_outputs, write_github
from watchdog.publish.markdown import MARKER

COMMAND = re.compile(r"::(?P<level>error|warning) (?P<properties>[^:]*)::(?P<message>.*)")


def levels(lines: list[str]) -> list[str]:
    return [line[2:].split(" ", 1)[0] for line in lines]


@pytest.fixture
def github(tmp_path: Path) -> dict[str, str]:
    """The environment of a step."""
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }


def test_what_fails_is_an_error_and_what_was_so_a_warning() -> None:
    """Worst first, told once each, with figure, suspect and blame; accepted ones are quiet."""
    lines = annotation_lines(synthetic_gates.failed())
    assert levels(lines) == ["error"] * 5 + ["warning"] * 3
    assert lines[0] == (
        "::error title=missing dependency%3A import of jax_flash_attention/custom::does not import: module absl is "
        "missing, which jax 0.9.2 no longer requires (suspect: library; blame: jax 0.8.3 → 0.9.2; "
        "at flash_attention.py:24)"
    )
    assert "still broken" in lines[-1]
    assert not any("Ada" in line and "a cache of 1 MiB" in line for line in lines)


def test_a_gate_without_an_answer_is_an_error() -> None:
    """It fails the job, so it says why."""
    (error,) = (line for line in annotation_lines(synthetic_gates.nothing_measured()) if line.startswith("::error"))
    assert error.endswith("::nothing could be measured under uv.lock, so nothing is known of the change")


def test_they_stand_at_lines_of_the_repository(tmp_path: Path) -> None:
    """The kernel's own line, or the lock's where the blamed package is."""
    (tmp_path / "my_kernel.py").write_text("", encoding="utf-8")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "jax"\n', encoding="utf-8")
    lines = annotation_lines(synthetic_gates.failed(), tmp_path)
    assert lines[0].startswith("::error file=uv.lock,line=2,title=missing")
    assert any(line.startswith("::error file=my_kernel.py,line=12,title=leak") for line in lines)


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_no_text_begins_a_command(report: GateReport) -> None:
    """Each is one line of the one form, whatever the texts hold; no colon or comma is left in a property."""
    for line in annotation_lines(report, Path()):
        match = COMMAND.fullmatch(line)
        assert match is not None
        assert all(re.fullmatch(r"(file|line|title)=[^,]*", one) for one in match["properties"].split(","))
        assert not re.search(r"%(?!25|0D|0A)", match["message"])
        assert "hunter2" not in line


def test_there_are_at_most_ten_of_a_level() -> None:
    """The last says how many more there are."""
    lines = annotation_lines(synthetic_gates.crowded(40))
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[-1].endswith("::and 31 more, which the job's summary names")


def test_all_well_says_nothing() -> None:
    """But for versions that are out of step."""
    assert levels(annotation_lines(synthetic_gates.passed())) == ["warning"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("failed", {"answer": "failed", "exit-code": "1", "failed": "5"}),
        ("passed", {"answer": "passed", "exit-code": "0", "failed": "0"}),
        ("undecided", {"answer": "undecided", "exit-code": "3", "failed": "0"}),
        ("hostile", {"answer": "failed", "exit-code": "1", "failed": "5"}),
    ],
)
def test_outputs_are_words_and_numbers(name: str, expected: dict[str, str]) -> None:
    """One line each, none of which holds text from outside."""
    assert dict(line.split("=", 1) for line in github_outputs(GATES[name]).splitlines()) == expected


def test_summary_and_outputs_are_appended(github: dict[str, str], tmp_path: Path) -> None:
    """What other steps wrote stays; the annotations come back, to be printed."""
    (tmp_path / "summary.md").write_text("before\n", encoding="utf-8")
    lines = write_github(synthetic_gates.failed(), github)
    assert levels(lines).count("error") == 5
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith(f"before\n{MARKER}\n")
    assert "answer=failed\n" in (tmp_path / "output").read_text(encoding="utf-8")


def test_elsewhere_nothing_is_written(github: dict[str, str], tmp_path: Path) -> None:
    """Where it is not GitHub Actions that runs us, though the variables are there."""
    assert write_github(synthetic_gates.failed(), {**github, "GITHUB_ACTIONS": ""}) == []
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_cannot_be_written_costs_no_answer(github: dict[str, str], tmp_path: Path) -> None:
    """It is one more warning, and the outputs are written all the same."""
    lines = write_github(synthetic_gates.passed(), {**github, "GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "file")})
    assert "GITHUB_STEP_SUMMARY names cannot be written: No such file" in lines[-1]
    assert (tmp_path / "output").exists()
