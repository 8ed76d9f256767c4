"""An interpreted answer: by the strict TPU interpreter, beside the generic one, and why the two differ.

The generic interpreter hides copies that nobody waited for, memory that nothing has written, and reads out of bounds.
Where the strict one's numbers look wrong, it is run again with one setting changed: the setting that changes the numbers
names the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import execution, pallas, tpu_interpreter, truth
from .faults import NotHereError
from .subject import Subject
from .tpu_interpreter import LimitError

CORES = 2  # races between cores show only with more than one

COPY_NOT_AWAITED = "copy not awaited"
UNINITIALISED = "uninitialised memory"
DEPENDS_ON_ORDER = "depends on order"
_OTHERWISE: tuple[tuple[str, dict[str, Any]], ...] = (
    # The fault that a setting shows, in the order they are tried: a copy not awaited leaves memory unwritten.
    (COPY_NOT_AWAITED, {"dma_execution_mode": "eager"}),
    (UNINITIALISED, {"uninitialized_memory": "zero"}),
    (DEPENDS_ON_ORDER, {"random_seed": 1}),  # of the grid points along parallel dimensions
    (DEPENDS_ON_ORDER, {"random_seed": 2}),
)
_ALIKE = 1e-3  # of the values' own size: interpreters that differ by less are not asked again


@dataclass(frozen=True)
class Call:
    """What is interpreted: a function of arrays, and its arguments."""

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    keywords: dict[str, Any]

    def run(self, how: execution.Execution) -> Any:
        return how.run(self.function, self.positional, self.keywords)


@dataclass(frozen=True)
class Other:
    """The generic interpreter's answer; `outputs` is None where it cannot run the program."""

    note: str | None
    outputs: Any


@dataclass(frozen=True)
class Diagnosis:
    """What the numbers depend on that they must not depend on, and the line that reads it first."""

    kind: str
    where: str | None


@dataclass(frozen=True)
class Interpreted:
    """The answer, how it was made, and what else was seen on the way."""

    mode: str
    note: str | None
    outputs: Any
    other: Other | None = None
    diagnosis: Diagnosis | None = None
    detected_by: execution.Execution | None = None  # the run that looked for races; None where none did
    raced: bool | None = None  # what the detector says; None where it is not asked, or keeps its answer elsewhere
    depends_on_cores: bool = False


def interpret(subject: Subject, call: Call, *, detect_races: bool) -> Interpreted:
    """Raises NotHereError where neither interpreter can run it. What the kernel itself does wrong is raised as it is."""
    execution.refuse_large(subject)
    other = _generically(call)  # first: it leaves nothing behind, while a failed run of the other one may
    reason = ""
    for detecting in (True, False) if detect_races else (False,):
        try:
            return _strictly(call, other, detect_races=detecting)
        except (LimitError, NotHereError) as limit:
            reason = str(limit)
    return _generic_alone(other, reason)


def _generically(call: Call) -> Other:
    try:
        return Other(None, call.run(execution.generically()))
    except LimitError as limit:
        return Other(str(limit), None)


def _generic_alone(other: Other, reason: str) -> Interpreted:
    if other.outputs is None:
        message = f"{reason}; {other.note}"
        raise NotHereError(message)
    return Interpreted(pallas.GENERIC, reason, other.outputs)


def _strictly(call: Call, other: Other, *, detect_races: bool) -> Interpreted:
    if not detect_races:
        how = execution.strictly()
        return _diagnosed(call, Interpreted(pallas.TPU, how.note, call.run(how), other))
    how = execution.strictly(cores=CORES, detect_races=True)
    outputs = call.run(how)
    seen = Interpreted(pallas.TPU, how.note, outputs, other, detected_by=how, raced=tpu_interpreter.races_found())
    if not seen.raced and not _looks_wrong(seen):
        return seen
    # Wrong on two cores may be right on one: the numbers are those of one core, the difference is a finding of its own.
    alone = call.run(execution.strictly())
    split = how.cores > 1 and not _same(seen.outputs, alone)
    return _diagnosed(call, replace(seen, outputs=alone, depends_on_cores=split))


def _diagnosed(call: Call, seen: Interpreted) -> Interpreted:
    return replace(seen, diagnosis=_diagnose(call, seen.outputs)) if _looks_wrong(seen) else seen


def _looks_wrong(seen: Interpreted) -> bool:
    """Whether the numbers deserve a second run: some are NaN, or the generic interpreter has others."""
    if any(np.isnan(truth.wide(leaf)).any() for leaf in truth.leaves(seen.outputs).values()):
        return True
    there = seen.other.outputs if seen.other else None
    return there is not None and not _alike(seen.outputs, there)


def _alike(here: Any, there: Any) -> bool:
    pairs = zip(truth.leaves(here).values(), truth.leaves(there).values(), strict=True)
    return all(
        np.allclose(truth.wide(one), truth.wide(two), rtol=_ALIKE, atol=_ALIKE * _size(two), equal_nan=True)
        for one, two in pairs
    )


def _size(array: np.ndarray[Any, Any]) -> float:
    wide = truth.wide(array)
    finite = wide[np.isfinite(wide)]
    return float(np.sqrt(np.mean(np.abs(finite) ** 2))) if finite.size else 0.0


def _same(one: Any, two: Any) -> bool:
    """Whether two runs of one interpreter gave the same bits; nothing in it is random."""
    pairs = zip(truth.leaves(one).values(), truth.leaves(two).values(), strict=True)
    return all(np.array_equal(truth.wide(here), truth.wide(there), equal_nan=True) for here, there in pairs)


def _diagnose(call: Call, outputs: Any) -> Diagnosis | None:
    """The first setting that the numbers depend on; None where they depend on none, or it cannot be told."""
    for kind, setting in _OTHERWISE:
        try:
            otherwise = call.run(execution.strictly(**setting))
        except Exception:  # noqa: S112  # that run is no part of the question: then it tells nothing
            continue
        if not _same(outputs, otherwise):
            return Diagnosis(kind, None if kind == DEPENDS_ON_ORDER else _first_nan(call))
    return None


def _first_nan(call: Call) -> str | None:
    """The line that first reads a NaN. Whole numbers have none, and then there is no line."""
    how = execution.strictly()
    how.watch.look_for_nan = True
    call.run(how)
    return how.watch.first_nan
