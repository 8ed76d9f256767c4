"""A fault that a check met: the verdict on it, and the sentence that says what happened.

Its class comes from `fault_classes`; the sentences of classes that have much to tell have files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from watchdog.judges import exhausted
from watchdog.judges.crashes import died
from watchdog.judges.fault_classes import PINS_MISMATCH, fault_of, kind_of
from watchdog.judges.fault_texts import quote
from watchdog.judges.fit import pins_sentence
from watchdog.judges.moved import argument_sentence, name_sentence
from watchdog.judges.refusals import layout, unsupported
from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View
from watchdog.judges.wording import normalised, one_line, pins_text, sentence
from watchdog.model import Check, Environment, Fault, Observation, Outcome, Status, Suspect, Verdict

__all__ = [
    "Reading",
    "fine_text",
    "importer",
    "judge",
    "kind_of",
    "missing_name",
    "pins_sentence",
    "read",
    "works",
]

_CANNOT = {
    Check.INSTALL: "cannot be installed",
    Check.IMPORT: "cannot be imported",
    Check.LOWER: "does not lower",
    Check.COMPILE: "does not compile",
    Check.SCHEDULE: "its schedule cannot be read",
    Check.NUMERICS: "does not run",
    Check.GRADIENTS: "its gradient does not run",
    Check.RACES: "fails under the race detector",
    Check.MEMORY: "fails when called again and again",
    Check.TIMING: "fails while being timed",
}
_FINE = {
    Check.INSTALL: "installs",
    Check.IMPORT: "imports fine",
    Check.LOWER: "lowers fine",
    Check.COMPILE: "compiles fine",
}
_AHEAD_OF_TIME = (Check.LOWER, Check.COMPILE, Check.SCHEDULE)  # the checks whose sentence names the target
_PROVIDED_BY = {"absl": "absl-py", "google": "protobuf", "yaml": "pyyaml", "PIL": "pillow", "sklearn": "scikit-learn"}
_NOT_OF_THE_CELL = {  # kinds whose suspect their text alone decides
    PINS_MISMATCH: Suspect.PINS,
    "device busy": Suspect.MACHINE,
    "no network": Suspect.MACHINE,
}


@dataclass(frozen=True)
class Reading:
    """A fault, understood: its class, the sentence that says what happened, and what was not there."""

    kind: str
    what: str
    missing: str | None = None


def judge(view: View) -> Verdict:
    """The verdict on a cell whose observation is a fault."""
    reading = read(view.candidate, view.environment)
    if view.cell.check is Check.SCHEDULE and view.compiles:
        return _unreadable_schedule(view, reading)
    who = _suspect(view, reading.kind)
    return view.verdict(
        Status.REGRESSED,
        _summary(view, reading, who),
        kind=reading.kind,
        suspect=who,
        where=fault_of(view.candidate).where,
    )


def read(observation: Observation, environment: Environment | None) -> Reading:
    """What the fault of `observation` is, in the light of the packages that were installed."""
    fault, kind = fault_of(observation), kind_of(observation)
    missing = missing_name(fault)
    if kind == PINS_MISMATCH:
        return Reading(kind, pins_sentence(observation, environment), missing)
    if kind == "missing dependency" and missing:
        return _missing_module(fault, missing, environment)
    if kind == "missing name" and missing:
        what = name_sentence(fault, environment) or f"{one_line(missing)} is not there: {quote(fault)}"
        return Reading(kind, what, missing)
    return Reading(kind, _happened(kind, fault, observation, environment), missing)


def _happened(kind: str, fault: Fault, observation: Observation, environment: Environment | None) -> str:
    """One sentence for a kernel's author."""
    if kind == "crash":
        return died(fault, observation.log_tail)
    if kind == "wrong argument":
        return argument_sentence(fault, environment) or quote(fault)
    if kind == "unsupported":
        return unsupported(fault, _generation(observation))
    if kind == "out of VMEM":
        return exhausted.vmem(fault, _generation(observation))
    return _HAPPENED.get(kind, quote)(fault)


def _generation(observation: Observation) -> str:
    """The TPU's generation; empty where the target does not say it."""
    _, named, generation = observation.cell.target.partition("tpu:")
    return generation if named else ""


def missing_name(fault: Fault) -> str | None:
    """The module, name or argument that was not there: as observed, else as the message spells it."""
    if fault.missing:
        return fault.missing
    for pattern in (
        r"No module named '?([\w.]+)",
        r"cannot import name '(\w+)'",
        r"has no attribute '(\w+)'",
        r"name '(\w+)' is not defined",
        r"unexpected keyword argument '(\w+)'",
    ):
        if found := re.search(pattern, fault.message):
            return found[1]
    return None


def importer(fault: Fault) -> str | None:
    """The installed package whose line failed: the last one that the traceback passes through."""
    frames = re.findall(r"(?:site|dist)-packages/([A-Za-z0-9_]+)[/.]", fault.traceback)
    return frames[-1] if frames else None


def works(observation: Observation | None) -> bool | None:
    """Whether a cell was answered without a fault; None when it was not asked or could not be."""
    if observation is None or observation.outcome is Outcome.SKIPPED:
        return None
    return not observation.outcome.is_fault


def fine_text(check: Check) -> str:
    """The predicate of a cell that works, for example `imports fine`."""
    return _FINE.get(check, "works")


def _suspect(view: View, kind: str) -> Suspect | None:
    if kind in _NOT_OF_THE_CELL:
        return _NOT_OF_THE_CELL[kind]
    if view.cell.check is Check.INSTALL:
        return Suspect.MACHINE if kind in ("time limit", "memory limit") else Suspect.PINS
    return suspect(view, before=was_there(view, found=_fails(view.baseline)), native=_same_fault(view.control, kind))


def _fails(observation: Observation | None) -> bool | None:
    """Whether a cell has a fault. A TPU kernel that a CPU only interprets was traced, and that is what failed here."""
    if observation is not None and (observation.reason or "").startswith("holds a Pallas TPU kernel"):
        return False
    answer = works(observation)
    return None if answer is None else not answer


def _same_fault(observation: Observation | None, kind: str) -> bool | None:
    """Whether another cell shows a fault of the same class."""
    if observation is None or observation.outcome is Outcome.SKIPPED:
        return None
    return observation.outcome.is_fault and kind_of(observation) == kind


def _summary(view: View, reading: Reading, who: Suspect | None) -> str:
    check = view.cell.check
    target = f" for {view.cell.target}" if check in _AHEAD_OF_TIME and view.cell.target else ""
    packages = blamed(view, who, before=_fails(view.baseline))
    pins = one_line(view.cell.pins) if packages else pins_text(view.cell.pins, view.environment)
    failed = f"{_CANNOT[check]}{target} under {pins}: {reading.what}"
    return sentence([failed, _baseline_part(view, reading.kind), _native_part(view, reading.kind), packages])


def _baseline_part(view: View, kind: str) -> str | None:
    if view.baseline is None or (answer := works(view.baseline)) is None:
        return None
    if answer:
        return f"{view.baseline_pins} {fine_text(view.cell.check)}"
    before = kind_of(view.baseline)
    return f"already under the baseline {view.baseline_pins}" + ("" if before == kind else f", there as: {before}")


def _native_part(view: View, kind: str) -> str | None:
    return "the native implementation shows it as well" if _same_fault(view.control, kind) else None


def _unreadable_schedule(view: View, reading: Reading) -> Verdict:
    """The compiler accepts the kernel and only its dump fails: nothing is known against the kernel."""
    pins = pins_text(view.cell.pins, view.environment)
    summary = f"the schedule could not be read under {pins}, though it compiles there: {reading.what}"
    return view.verdict(Status.INCONCLUSIVE, summary, kind="unreadable")


def _missing_module(fault: Fault, module: str, environment: Environment | None) -> Reading:
    """A module that is not there: of a package that is not installed, or removed from one that is."""
    top = module.split(".", maxsplit=1)[0]
    installed = {package.name: package.version for package in environment.packages} if environment else {}
    provider = _PROVIDED_BY.get(top, normalised(top))
    if provider in installed:
        if told := name_sentence(fault, environment):
            return Reading("missing name", told, module)
        what = f"module {one_line(module)} is missing from {provider} {installed[provider]}"
        return Reading("missing name", what, module)
    parts = [f"module {one_line(module)} is missing", _imported_by(fault, top, installed)]
    if installed:
        parts.append(f"nothing in the lock provides it{f' ({provider} would)' if provider != normalised(top) else ''}")
    return Reading("missing dependency", sentence(parts), module)


def _imported_by(fault: Fault, top: str, installed: dict[str, str]) -> str | None:
    name = importer(fault)
    if name is None or name == top:
        return None
    version = installed.get(normalised(name))
    return f"{name} {version} imports it" if version else f"{name} imports it"


_HAPPENED: dict[str, Callable[[Fault], str]] = {
    "time limit": lambda fault: f"it was stopped at the time limit: {quote(fault)}",
    "memory limit": lambda fault: f"it was stopped at the memory limit: {quote(fault)}",
    "out of SMEM": exhausted.smem,
    "out of HBM": exhausted.hbm,
    "layout or alignment": layout,
}
