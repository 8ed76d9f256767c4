"""The campaign's part of pytest-memray and psleak: processes of pytest, and what their reports say."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.leak_table.campaign import (
    CHECKS,
    INSIDE,
    Answer,
    Campaign,
    Said,
    clean_environment,
    planted_bytes,
    release_of,
    share_off,
    subject_of,
)
from watchdog.model import Cell
from watchdog.plan import Job
from watchdog.selftest import Plant

MEMRAY, PSLEAK = "memray", "psleak"
LIMITS = {"pytest-memray, 1 MB": 10**6, "pytest-memray, 256 KB": 0}  # bytes; 0: whatever it reported
CELL_SECONDS = 600.0  # per cell

_UNITS = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_RECORD = re.compile(r"- ([\d.]+)(B|KiB|MiB|GiB) allocated here:")
_RUN = re.compile(r"\+(\d+).*\(calls= *(\d+),")


@dataclass(frozen=True)
class Record:
    """What one call stack leaked."""

    size: float  # bytes
    stack: str


def ask(campaign: Campaign, tool: str, job: Job) -> None:
    """Have a tool answer every cell of a job that it has not answered; what kills a process costs its cell alone."""
    results = results_file(campaign, tool, job)
    if len(_lines(results)) == len(job.cells):
        return
    forget_unfinished(results)
    python = campaign.python(release_of(job.cells[0]))
    plan = campaign.plan_file(job)
    command = [str(python), "-I", str(INSIDE / "batch.py"), tool, str(plan), str(results), str(CHECKS)]
    variables = clean_environment(PYTHONMALLOC="malloc") if tool == PSLEAK else clean_environment()
    log = results.with_suffix(".log")
    while (begun := len(_lines(results))) < len(job.cells):
        with log.open("ab") as file:
            run_watched(command, variables, file, results, seconds=CELL_SECONDS)
        if len(_lines(results)) == begun:
            message = f"{tool} began no cell of {job.label}; {log} says why"
            raise RuntimeError(message)


def forget_unfinished(results: Path) -> None:
    """Drop the cells that had only begun when the campaign was stopped, so that they are asked again."""
    ended = [line for line in _lines(results).values() if "outcome" in line]
    results.write_text("".join(f"{json.dumps(line)}\n" for line in ended), encoding="utf-8")


def run_watched(
    command: Sequence[str], variables: Mapping[str, str], log: Any, results: Path, *, seconds: float
) -> None:
    """Run a process to its end; it is ended when it writes no result for so many seconds."""
    with subprocess.Popen(command, env=variables, stdout=log, stderr=log, cwd=INSIDE) as process:
        last, size = time.monotonic(), -1
        try:
            while process.poll() is None and time.monotonic() - last < seconds:
                time.sleep(0.1)
                now = results.stat().st_size if results.exists() else -1
                last, size = (time.monotonic(), now) if now != size else (last, size)
        finally:
            process.kill()


def results_file(campaign: Campaign, tool: str, job: Job) -> Path:
    return campaign.place("results", tool) / f"{job.pins}.{job.kernel}.{job.implementation}.jsonl"


def _lines(results: Path) -> dict[int, dict[str, Any]]:
    """The last line about each cell: how it ended, or that it began."""
    if not results.exists():
        return {}
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {line["number"]: line for line in lines}


def answers(campaign: Campaign, tool: str, job: Job) -> Iterator[Answer]:
    """What a tool said of a job's cells; pytest-memray twice, for each of the limits."""
    lines = _lines(results_file(campaign, tool, job))
    for number, cell in enumerate(job.cells):
        plant = campaign.plants.get(cell.implementation)
        if tool == PSLEAK:
            yield _psleak(cell, lines[number], plant)
        else:
            yield from (_memray(name, limit, cell, lines[number], plant) for name, limit in LIMITS.items())


def _memray(name: str, limit: float, cell: Cell, line: Mapping[str, Any], plant: Plant | None) -> Answer:
    records = [record for record in leaked(line.get("sections", ())) if record.size >= limit]
    said = _outcome(line)
    if said is Said.ALARM:
        reported = any("memray" in title for title, _ in line["sections"])
        said = (Said.ALARM if records else Said.QUIET) if reported else Said.BROKEN
    told: dict[str, Any] = {}
    if plant is not None and said is Said.ALARM:
        most = max(records, key=lambda record: record.size)
        told["error"] = share_off(most.size / line["calls"], planted_bytes(plant))
        told["line_is_right"] = plant.line() in most.stack
    return _answer(name, cell, said, line, **told)


def leaked(sections: Any) -> list[Record]:
    """The call stacks in a report of pytest-memray, with what each leaked."""
    text = "\n".join(body for title, body in sections if "memray" in title)
    parts = _RECORD.split(text)[1:]  # number, unit, stack, and again
    return [
        Record(float(number) * _UNITS[unit], stack)
        for number, unit, stack in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def _psleak(cell: Cell, line: Mapping[str, Any], plant: Plant | None) -> Answer:
    said = _outcome(line)
    kind = str(line.get("kind") or "")
    if said is Said.ALARM and not (kind == "MemoryLeakError" or kind.startswith("Un")):
        said = Said.BROKEN
    told: dict[str, Any] = {}
    if plant is not None and kind == "MemoryLeakError":
        told["error"] = share_off(grown(line["text"]), planted_bytes(plant))
    return _answer("psleak", cell, said, line, kind=kind, **told)


def grown(text: str) -> float:
    """Bytes per call of the last run in psleak's message: the first counter that it shows."""
    runs = _RUN.findall(text)
    size, calls = runs[-1]
    return float(size) / float(calls)


def _outcome(line: Mapping[str, Any]) -> Said:
    outcomes = {"passed": Said.QUIET, "skipped": Said.NOT_ASKED, "failed": Said.ALARM}
    return outcomes[line["outcome"]] if "outcome" in line else Said.BROKEN


def _answer(tool: str, cell: Cell, said: Said, line: Mapping[str, Any], **more: Any) -> Answer:
    return Answer(
        tool, release_of(cell), subject_of(cell), cell.scenario, said, seconds=line.get("seconds", 0.0), **more
    )
