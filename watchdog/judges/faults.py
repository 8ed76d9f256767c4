"""A fault that a check met: what class of fault it is, in whose words, and the verdict on it.

Errors are matched by their text, not by their class alone: the same refusal is an XlaRuntimeError in one release and a
JaxRuntimeError or a MosaicError in the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from watchdog.judges.callbacks import unwrapped
from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View
from watchdog.judges.wording import normalised, one_line, pins_text, sentence
from watchdog.model import Check, Environment, Fault, Observation, Outcome, Status, Suspect, Verdict

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

_VERSIONS_DO_NOT_FIT = (
    r"at most a month old",
    r"Unsupported version: expected <= \d+ but got",
    r"StableHLO[^\n]{0,80}version",
    r"(?:unregistered|unknown|unsupported|parse)[^\n]{0,80}\bsdy\b",
    r"\bsdy\b[^\n]{0,80}(?:unregistered|unknown|unsupported|parse)",
    r"pars(?:e|ing)[^\n]{0,80}(?:backend.config|JSON)",
    r"incompatible (?:jaxlib|libtpu|PJRT)",
    r"jaxlib version [^\n]{0,80}(?:newer|older|incompatible)",
)
_PINS_MISMATCH = "|".join(_VERSIONS_DO_NOT_FIT)
_WRONG_ARGUMENT = r"unexpected keyword argument|missing \d+ required|positional argument|multiple values for"
# The first pattern that is found in the error's class and message names the kind; the order matters.
_KINDS = (
    ("pins mismatch", _PINS_MISMATCH),
    ("device busy", r"TPU is already in use|libtpu_lockfile"),
    ("out of VMEM", r"ScopedVmemOom|memory space vmem|scoped vmem"),
    ("out of HBM", r"CompileTimeHbmOom|memory (?:space|on) hbm|exceeds available HBM"),
    ("out of device memory", r"RESOURCE_EXHAUSTED|Ran out of memory"),
    ("missing dependency", r"ModuleNotFoundError|No module named|cannot open shared object file"),
    ("missing name", r"AttributeError|cannot import name|NameError"),
    ("wrong argument", _WRONG_ARGUMENT),
    ("unsupported", r"NotImplementedError|UNIMPLEMENTED|not implemented|unsupported|not supported"),
    ("out of bounds", r"IndexError|out[- ]of[- ]bounds|out of range"),
    ("wrong type or shape", r"TypeError|ValueError|INVALID_ARGUMENT"),
    ("compiler error", r"INTERNAL:|MosaicError|Mosaic failed|XlaRuntimeError|JaxRuntimeError"),
)
_INSTALL_KINDS = (
    ("no network", r"error sending request|dns error|failed to (?:connect|lookup)|connection (?:refused|reset)"),
    ("unresolvable", r"No solution found|unsatisfiable|no version of"),
    (
        "build failure",
        r"Failed to build|build backend|no matching wheel|doesn't have a (?:source distribution or )?wheel",
    ),
    ("differs from lock", r"\block\b"),
)
_BY_OUTCOME = {
    Outcome.CRASHED: "crash",
    Outcome.HUNG: "time limit",
    Outcome.OUT_OF_MEMORY: "memory limit",
}
_NOT_OF_THE_CELL = {  # kinds whose suspect their text alone decides
    "pins mismatch": Suspect.PINS,
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
        where=_fault(view.candidate).where,
    )


def read(observation: Observation, environment: Environment | None) -> Reading:
    """What the fault of `observation` is, in the light of the packages that were installed."""
    fault = _fault(observation)
    kind = kind_of(observation)
    missing = missing_name(fault)
    if kind == "missing dependency" and missing:
        return _missing_module(fault, missing, environment)
    if kind == "missing name" and missing:
        return Reading(kind, f"{one_line(missing)} is not there: {_quote(fault)}", missing)
    return Reading(kind, _HAPPENED.get(kind, _quote)(fault), missing)


def kind_of(observation: Observation) -> str:
    """The class of a fault, in the few words that verdicts use."""
    fault = _fault(observation)
    said = f"{fault.kind}: {fault.message}"
    if observation.outcome is Outcome.CRASHED:
        # An aborting compiler leaves its reason in the log alone.
        return "pins mismatch" if _matches(_PINS_MISMATCH, said + observation.log_tail) else "crash"
    if observation.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[observation.outcome]
    kinds, otherwise = (
        (_INSTALL_KINDS, "not installed") if observation.cell.check is Check.INSTALL else (_KINDS, "error")
    )
    return next((kind for kind, pattern in kinds if _matches(pattern, said)), otherwise)


def _fault(observation: Observation) -> Fault:
    """What went wrong; where a callback raised it, what the callback raised."""
    return unwrapped(observation.fault or Fault(kind=observation.outcome.value, message=""))


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


def _quote(fault: Fault) -> str:
    """The error in its own words: class and the message's beginning."""
    return one_line(f"{fault.kind}: {fault.message}" if fault.message.strip() else fault.kind, 220)


def _vmem(fault: Fault) -> str:
    """The size and the limit, where the compiler names them."""
    found = re.search(r"size (\S+) and limit (\S+) exceeded scoped vmem", fault.message)
    return f"it needs {found[1]} of scoped VMEM, the limit is {found[2]}" if found else _quote(fault)


def _hbm(fault: Fault) -> str:
    found = re.search(r"\(([\d.]+\w+)\) exceeds available HBM \(([\d.]+\w+)\)", fault.message)
    return f"it needs {found[1]} of HBM, the device has {found[2]}" if found else _quote(fault)


_HAPPENED: dict[str, Callable[[Fault], str]] = {
    "crash": lambda fault: f"its process died: {_quote(fault)}",
    "time limit": lambda fault: f"it was stopped at the time limit: {_quote(fault)}",
    "memory limit": lambda fault: f"it was stopped at the memory limit: {_quote(fault)}",
    "out of VMEM": _vmem,
    "out of HBM": _hbm,
    "pins mismatch": lambda fault: f"its versions do not fit together: {_quote(fault)}",
}


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None
