"""The campaign's part of asv: a peak-memory benchmark under two commits, compared as `asv compare` does.

asv knows no leaks: it compares the peak of a program before and after a change. So a planted leak is the change, and
on clean cells nothing changes. A leak is found when the comparison marks the benchmark as worse.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.leak_table.campaign import (
    CHECKS,
    INSIDE,
    Answer,
    Campaign,
    Said,
    clean_environment,
    release_of,
    subject_of,
)
from watchdog.plan import Job

NAME = "asv"
FACTOR = "1.1"  # its default, said aloud
_MACHINE = "campaign"
_COLUMNS = 7  # of a line of its table, split at the bars: mark, before, after, ratio, benchmark, and both ends
_CONFIG = {
    "version": 1,
    "project": "leak-table",
    "repo": ".",
    "branches": ["main"],
    "environment_type": "existing",
    "benchmark_dir": "benchmarks",
    "results_dir": "results",
}


def ask(campaign: Campaign, before: Sequence[tuple[Job, int]], after: Sequence[tuple[Job, int]], name: str) -> None:
    """Benchmark cells before and after; both are pairs of a job and a cell's number in it, in the same order."""
    folder = campaign.place("results", NAME) / name
    if (folder / "compared.txt").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    python = campaign.python(release_of(after[0][0].cells[0]))
    commits = _project(folder)
    _asv(python, folder, "machine", "--yes")
    for commit, side in zip(commits, (before, after), strict=True):
        plans = {
            _label(*named): (str(campaign.plan_file(job)), number)
            for named, (job, number) in zip(after, side, strict=True)
        }
        (folder / "plans.json").write_text(json.dumps(plans), encoding="utf-8")
        _asv(python, folder, "run", "--environment", f"existing:{python}", "--set-commit-hash", commit)
    compared = _asv(python, folder, "compare", "--factor", FACTOR, *commits)
    (folder / "compared.txt").write_text(compared, encoding="utf-8")


def _project(folder: Path) -> tuple[str, str]:
    """A project of asv with two commits."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").touch()
    shutil.copy(INSIDE / "peakmem_cells.py", folder / "benchmarks")
    (folder / "asv.conf.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    return _commit(folder, "before"), _commit(folder, "after")


def _commit(folder: Path, message: str) -> str:
    identity = ("-c", "user.name=campaign", "-c", "user.email=campaign@localhost", "-c", "commit.gpgsign=false")
    _git(folder, *identity, "commit", "--quiet", "--allow-empty", "--message", message)
    return _git(folder, "rev-parse", "HEAD").strip()


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def _asv(python: Path, folder: Path, command: str, *arguments: str) -> str:
    """What asv writes; its log is kept. Its settings go into the folder, not into the user's home.

    Raises RuntimeError when it does not come to its end.
    """
    variables = clean_environment(
        HOME=str(folder),
        LEAK_TABLE_ROOT=str(INSIDE.parents[2]),
        LEAK_TABLE_CHECKS=str(CHECKS),
        LEAK_TABLE_PLANS=str(folder / "plans.json"),
    )
    line = [str(python), "-m", "asv", command, "--machine", _MACHINE, *arguments]
    done = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    with (folder / "asv.log").open("a", encoding="utf-8") as log:
        log.write(f"$ asv {command} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    if done.returncode not in (0, 2):  # 2: a benchmark failed, which is an answer
        message = f"asv {command} ended with {done.returncode}; {folder / 'asv.log'} says why"
        raise RuntimeError(message)
    return done.stdout


def _label(job: Job, number: int) -> str:
    cell = job.cells[number]
    return f"{subject_of(cell)}.{cell.scenario}"


def answers(campaign: Campaign, cells: Sequence[tuple[Job, int]], name: str) -> Iterator[Answer]:
    """What asv said of these cells."""
    folder = campaign.place("results", NAME) / name
    compared = rows((folder / "compared.txt").read_text(encoding="utf-8"))
    seconds = _seconds(folder) / len(cells)
    for job, number in cells:
        cell = job.cells[number]
        said = compared.get(_label(job, number), Said.BROKEN)
        yield Answer(NAME, release_of(cell), subject_of(cell), cell.scenario, said, seconds=seconds)


def rows(table: str) -> dict[str, Said]:
    """What the table of `asv compare` says of each parameter."""
    found = {}
    for line in table.splitlines():
        columns = [column.strip() for column in line.split("|")]
        named = re.fullmatch(r".+\('(.+)'\)", columns[-2]) if len(columns) == _COLUMNS else None
        if named:
            found[named[1]] = _said(*columns[1:4])
    return found


def _said(mark: str, before: str, after: str) -> Said:
    if "failed" in (before, after):
        return Said.BROKEN
    if "n/a" in (before, after):
        return Said.NOT_ASKED
    return Said.ALARM if mark == "+" else Said.QUIET


def _seconds(folder: Path) -> float:
    """What asv's processes took on both sides, as its results tell."""
    total = 0.0
    for file in (folder / "results" / _MACHINE).glob("*-*.json"):
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        place = document["result_columns"].index("duration")
        total += sum(result[place] for result in document["results"].values())
    return total
