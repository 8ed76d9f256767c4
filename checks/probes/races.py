"""Do its copies and cores race? The TPU interpreter with race detection and two simulated cores."""

from __future__ import annotations

import re
import sys
from typing import Any

from .. import execution, pallas, tpu_interpreter
from ..emit import Observed
from ..faults import NotHereError
from ..interpretation import COPY_NOT_AWAITED, Call, Interpreted, interpret
from ..subject import Subject

RACE, DEPENDS_ON_CORES = "race", "depends on cores"
_MESSAGES = 20
_FIRST_COPY = 100  # the interpreter numbers copies from here on, and cores below
_ACCESS = re.compile(
    r"^ *(?P<access>read|write) of \('(?P<memory>\w+)', (?P<buffer>[\d, ]+)\)\[(?P<range>.*)\] from"
    r" \(?(?P<by>\d+)(?:, (?P<core>\d+))?\)?,? (?P<where>.+)$",
    re.MULTILINE,
)
_REPORT = re.compile(r"RACE DETECTED\n(?:(?! *(?:RACE DETECTED)).*\n?){2,5}")


def probe(subject: Subject) -> Observed:
    """Raises NotHereError where there is nothing to race, or no detector."""
    if not pallas.calls(execution.traced(subject).jaxpr):
        message = "holds no Pallas call, so nothing of its own that could race"
        raise NotHereError(message)
    try:
        seen_there = interpret(subject, Call(subject.function(), *subject.inputs()), detect_races=True)
    except tpu_interpreter.EndlessWaitError as wait:
        return wait.observed()
    if seen_there.detected_by is None:
        message = f"races are detected by the TPU interpreter alone: {seen_there.note}"
        raise NotHereError(message)
    return seen(subject, seen_there)


def seen(subject: Subject, interpreted: Interpreted) -> Observed:
    """What the detector saw in the run that has just ended in this process, and what the numbers told besides."""
    assert interpreted.detected_by is not None
    text = _said(subject)
    races = found_in(text, _line_of_the_call(subject))
    found = races + _told_by_numbers(interpreted, races)
    return Observed(
        "observed",
        data={
            "mode": pallas.TPU,
            "note": interpreted.detected_by.note,
            "cores": interpreted.detected_by.cores,
            # A release whose words are not understood still says whether there was one, of its last kernel.
            "races": _count(races, interpreted.raced),
            "found": found,
            "messages": [report.group().strip() for report in _REPORT.finditer(text)][:_MESSAGES],
        },
    )


def _count(races: list[dict[str, Any]], raced: bool | None) -> int | None:
    """How many; None where neither the detector's words nor its own count are understood."""
    return len(races) or (None if raced is None else int(raced))


def found_in(text: str, call: str | None) -> list[dict[str, Any]]:
    """The races that the detector's words tell, each once; `call` is the place of what happens between kernel steps."""
    races: list[dict[str, Any]] = []
    for report in _REPORT.finditer(text):
        accesses = [_access(match, call) for match in _ACCESS.finditer(report.group())]
        if len(accesses) < 2:  # noqa: PLR2004  # a race is between two
            continue
        first, second = sorted(accesses[:2], key=lambda one: one["core"] is not None)
        memory = _ACCESS.search(report.group())["memory"]  # type: ignore[index]  # found above
        race: dict[str, Any] = {"kind": _kind(memory, first, second), "memory": tpu_interpreter.memory_name(memory)}
        race |= {"first": first, "second": second}
        if race not in races:
            races.append(race)
    return races


def _access(match: re.Match[str], call: str | None) -> dict[str, Any]:
    """`core` is None for a copy's own access; `where` is where the copy was started."""
    number = int(match["by"])
    place = tpu_interpreter.place_in(match["where"].strip()) or (call if "pallas_call" in match["where"] else None)
    core = None if number >= _FIRST_COPY else int(match["core"] or 0)
    return {"access": match["access"], "where": tpu_interpreter.short(place), "core": core}


def _kind(memory: str, first: dict[str, Any], second: dict[str, Any]) -> str:
    """In a core's own memory a copy can only race with the core that started it, which did not wait for it."""
    own = memory in ("vmem", "smem")
    return COPY_NOT_AWAITED if own and first["core"] is None and second["core"] is not None else RACE


def _told_by_numbers(interpreted: Interpreted, races: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Faults that no detector reports: the numbers depend on how copies, memory or cores behave."""
    found = []
    diagnosis = interpreted.diagnosis
    if diagnosis and diagnosis.kind not in (race["kind"] for race in races):
        found.append(_lone(diagnosis.kind, tpu_interpreter.short(diagnosis.where)))
    if interpreted.depends_on_cores and not races and not diagnosis:
        found.append(_lone(DEPENDS_ON_CORES, None))
    return found


def _lone(kind: str, where: str | None) -> dict[str, Any]:
    reads = {"access": "read", "where": where, "core": None}
    return {"kind": kind, "memory": None, "first": reads if where else None, "second": None}


def _line_of_the_call(subject: Subject) -> str | None:
    """The kernel call's own line, where the program holds one call."""
    from jax._src import source_info_util

    lines = {
        tpu_interpreter.place_in(source_info_util.summarize(call.source_info))
        for call in pallas.calls(execution.traced(subject).jaxpr)
    }
    return lines.pop() if len(lines) == 1 else None


def _said(subject: Subject) -> str:
    """What this process has written so far, from the cell's own log."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = subject.plan.scratch / f"{subject.cell.number}.log"
    return log.read_text(encoding="utf-8", errors="replace")
