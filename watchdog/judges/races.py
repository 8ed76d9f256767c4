"""races: what the TPU interpreter saw of races, of copies not waited for and of memory used before it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View, observed, quantity, records
from watchdog.judges.wording import number_text, one_line, pins_text, sentence
from watchdog.model import Figure, Observation, Status, Verdict

RACE = "race"
_TELLING = (
    "copy not awaited",
    "uninitialised memory",
    RACE,
    "depends on order",
    "depends on cores",
)  # the first of these is told
_ONE_CORE = 1


def judge(view: View) -> list[Verdict]:
    """Regressed on anything found: an absolute fault, whatever the baseline shows."""
    count = _count(view.candidate)
    if count is None:
        mode = one_line(str(view.data.get("mode", "this mode")), 40)
        return [view.verdict(Status.INCONCLUSIVE, f"races are not counted by {mode}", kind="not counted")]
    figure = Figure.exact(count, "races")
    if count > 0:
        return [_found(view, count, figure)]
    if _faulty(view.before):
        return [view.verdict(Status.IMPROVED, f"no race; {view.against} had one", kind="repaired", figure=figure)]
    return [view.verdict(Status.PASS, _nothing(view), figure=figure)]


def _nothing(view: View) -> str:
    """The sentence of a pass, with what it could not have seen."""
    if quantity(view.data, "cores") == _ONE_CORE:
        return (
            "no race in the interpreter with one simulated core, all that this release has; "
            "races between cores, and what only real hardware does, cannot be seen this way"
        )
    unseen = "what only real hardware does, and more than two cores, cannot be seen this way"
    return f"no race in the interpreter with two simulated cores; {unseen}"


def _found(view: View, count: float, figure: Figure) -> Verdict:
    before, native = _faulty(view.before), _faulty(view.control)
    who = suspect(view, before=was_there(view, found=before), native=native)
    faults = sorted(records(view.data, "found"), key=_rank)
    messages = [str(message) for message in view.data.get("messages") or ()]
    told = _sentence(faults[0]) if faults else (one_line(messages[0]) if messages else None)
    pins = pins_text(view.cell.pins, view.environment)
    parts = [
        f"{told}, under {pins}" if faults else f"{number_text(count)} race{'' if count == 1 else 's'} under {pins}",
        _more(len(faults) - 1) if faults else told,
        f"already under the baseline {view.against}" if before else None,
        "the native implementation shows one as well" if native else None,
        blamed(view, who, before=before),
    ]
    kind = str(faults[0].get("kind")) if faults else RACE
    where = _where(faults[0]) if faults else _place(messages)
    return view.verdict(Status.REGRESSED, sentence(parts), kind=kind, suspect=who, figure=figure, where=where)


def _count(observation: Observation | None) -> float | None:
    """How many faults of any kind; None when they were not counted."""
    seen = observed(observation)
    races = quantity(seen.data, "races") if seen else None
    found = records(seen.data, "found") if seen else []
    return max(races or 0.0, float(len(found))) if found or races is not None else None


def _faulty(observation: Observation | None) -> bool | None:
    count = _count(observation)
    return None if count is None else count > 0


def _rank(fault: Mapping[str, Any]) -> int:
    kind = str(fault.get("kind"))
    return _TELLING.index(kind) if kind in _TELLING else len(_TELLING)


def _more(count: int) -> str | None:
    return f"{count} more fault{'' if count == 1 else 's'}" if count > 0 else None


def _sentence(fault: Mapping[str, Any]) -> str:
    """One fault, for a kernel's author."""
    kind, first, second = str(fault.get("kind")), _access(fault, "first"), _access(fault, "second")
    memory = one_line(str(fault.get("memory") or "memory"), 20)
    if kind == "copy not awaited":
        return _copy(memory, first, second)
    if kind == "uninitialised memory":
        return f"uses memory that nothing has written{_at(first)}"
    if kind == "depends on cores":
        return (
            "gives other numbers on two cores than on one: grid points along a parallel dimension depend on each other"
        )
    if kind == "depends on order":
        return "depends on the order in which the grid points of a parallel dimension are computed"
    other = "another copy" if _actor(first) == _actor(second) == "a copy" else _actor(second)
    both = f"{_actor(first)} {_verb(first)} {memory}{_at(first)} and {other} {_verb(second)} it{_at(second)}"
    return f"{both}, and nothing says which comes first"


def _copy(memory: str, copy: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """A core's access to a buffer that is still being copied; of a diagnosis by numbers only the read is known."""
    if not copy.get("where") and not own:
        return "uses a buffer before a copy into or out of it was waited for"
    if not own:
        return f"reads a buffer before the copy into it was waited for{_at(copy)}"
    started = f" (started{_at(copy)})" if copy.get("where") else ""
    if copy.get("access") == "write":
        before = "reads a buffer" if own.get("access") == "read" else "writes a buffer"
        return f"{before} in {memory} before the copy into it was waited for{_at(own)}{started}"
    return f"writes a buffer in {memory} before the copy out of it was waited for{_at(own)}{started}"


def _access(fault: Mapping[str, Any], which: str) -> Mapping[str, Any]:
    access = fault.get(which)
    return access if isinstance(access, Mapping) else {}


def _actor(access: Mapping[str, Any]) -> str:
    core = quantity(access, "core")
    return "a copy" if core is None else f"core {number_text(core)}"


def _verb(access: Mapping[str, Any]) -> str:
    return "reads" if access.get("access") == "read" else "writes"


def _at(access: Mapping[str, Any]) -> str:
    return f" at {one_line(str(access['where']), 80)}" if access.get("where") else ""


def _where(fault: Mapping[str, Any]) -> str | None:
    """The line to look at: the core's own, for a copy's is only where it was started."""
    first, second = _access(fault, "first"), _access(fault, "second")
    ordered = (first, second) if quantity(first, "core") is not None else (second, first)
    return next((one_line(str(access["where"]), 80) for access in ordered if access.get("where")), None)


def _place(messages: list[str]) -> str | None:
    """The first source line that a message names."""
    found = re.search(r"([\w./-]+\.py):(\d+)", " ".join(messages))
    return f"{found[1].rsplit('/', 1)[-1]}:{found[2]}" if found else None
