"""What a run asks: from the configuration to cells, from cells to jobs, from a job to the JSON that goes in.

Pure values: nothing here starts, reads or writes anything.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from watchdog.config import Config, Kernel
from watchdog.config_values import NATIVE
from watchdog.errors import UsageError
from watchdog.model import HOST, Cell, Check, Observation, Outcome, Scenario

SCHEMA = 1


@dataclass(frozen=True)
class Selection:
    """The part of the configuration that a run is limited to; an empty tuple means all."""

    pins: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    implementations: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str]]:
        return {name: list(values) for name, values in vars(self).items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Sequence[str]]) -> Selection:
        return cls(**{name: tuple(values) for name, values in document.items()})


@dataclass(frozen=True)
class EnvironmentRequest:
    """One environment to build: pins, with what the kernels that share it need beside them."""

    pins: str
    kernels: tuple[str, ...]
    requirements: tuple[str, ...]  # the kernels' own, beside the pins
    shared_by_all: bool

    @property
    def install_cells(self) -> tuple[Cell, ...]:
        """One for all kernels, or one for each of those that have an environment of their own."""
        names = ("",) if self.shared_by_all else self.kernels
        return tuple(Cell(name, "", "", self.pins, "", Check.INSTALL) for name in names)


class Lane(StrEnum):
    """Cells of one kernel and implementation that may share a process. Lanes of a kernel run in this order."""

    SIDE_BY_SIDE = "side by side"  # on the CPU, beside others
    DEVICE = "device"  # needs this machine's accelerator, which one process can hold at a time
    TIMING = "timing"  # alone on the machine


@dataclass(frozen=True)
class Job:
    """The work of one process (or of several, when one dies on the way)."""

    pins: str
    kernel: str
    implementation: str
    lane: Lane
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        """What people see while it runs."""
        return f"{self.kernel}/{self.implementation} under {self.pins}: {self.lane}"


# A cell is not asked when this earlier question about the same subject has no good answer.
_PREREQUISITES: Mapping[Check, tuple[Check, ...]] = {
    Check.LOWER: (Check.IMPORT,),
    Check.COMPILE: (Check.IMPORT, Check.LOWER),
    Check.SCHEDULE: (Check.IMPORT, Check.LOWER, Check.COMPILE),
    Check.NUMERICS: (Check.IMPORT,),
    Check.GRADIENTS: (Check.IMPORT,),
    Check.RACES: (Check.IMPORT,),
    Check.MEMORY: (Check.IMPORT,),
    Check.TIMING: (Check.IMPORT, Check.LOWER, Check.COMPILE),
}
_ANSWERS = {
    Check.IMPORT: "does not import",
    Check.LOWER: "does not lower",
    Check.COMPILE: "does not compile",
}
_ON_HOST_ONLY = (Check.NUMERICS, Check.GRADIENTS, Check.RACES, Check.MEMORY, Check.TIMING)
_BESIDE_NATIVE = (Check.NUMERICS, Check.GRADIENTS, Check.RACES, Check.MEMORY)  # native's size decides what is run
_ON_DEVICE = (Check.LOWER, Check.COMPILE, Check.NUMERICS, Check.GRADIENTS, Check.MEMORY)


def environment_requests(config: Config, selection: Selection) -> tuple[EnvironmentRequest, ...]:
    """The environments that the selected pins and kernels need, each once."""
    kernels = selected_kernels(config, selection)
    groups: dict[tuple[str, ...], list[str]] = {}
    for kernel in kernels:
        groups.setdefault(tuple(sorted(config.absolute_requirements(kernel))), []).append(kernel.name)
    return tuple(
        EnvironmentRequest(pins, tuple(names), requirements, shared_by_all=len(groups) == 1)
        for pins in selected_pins(config, selection)
        for requirements, names in groups.items()
    )


def cells(config: Config, selection: Selection) -> tuple[Cell, ...]:
    """Every cell of a run, in the order in which it is asked.

    Raises UsageError when a selected name is unknown, or when nothing is left to ask.
    """
    checks = _chosen("check", selection.checks, [check.value for check in config.watchdog.checks], list(Check))
    found = [
        *(cell for request in environment_requests(config, selection) for cell in request.install_cells),
        *(
            cell
            for pins in selected_pins(config, selection)
            for kernel in selected_kernels(config, selection)
            for implementation in _implementations(kernel, selection)
            for cell in _cells_of(config, kernel, implementation, pins, selection)
        ),
    ]
    found = [cell for cell in found if cell.check.value in checks]
    if not found:
        msg = "nothing is left to ask: no cell matches all of the options; leave one out"
        raise UsageError(msg)
    return tuple(dict.fromkeys(found))


def _cells_of(config: Config, kernel: Kernel, implementation: str, pins: str, selection: Selection) -> Iterator[Cell]:
    """Import, then what one worker answers for all cases, then what each needs a process of its own."""
    targets, cases = _chosen("target", selection.targets, list(config.watchdog.targets)), _cases(kernel, selection)
    scenarios = _chosen("scenario", selection.scenarios, _scenarios(config, kernel), list(Scenario))
    yield Cell(kernel.name, implementation, "", pins, "", Check.IMPORT)
    for case in cases:
        for target in targets:
            for check in (Check.LOWER, Check.COMPILE):
                yield Cell(kernel.name, implementation, case, pins, target, check)
    for case in cases:
        for target in targets:
            if target != HOST:
                yield Cell(kernel.name, implementation, case, pins, target, Check.SCHEDULE)
        if HOST in targets:
            for check in _ON_HOST_ONLY:
                for scenario in scenarios if check is Check.MEMORY else ("",):
                    yield Cell(kernel.name, implementation, case, pins, HOST, check, scenario)


def _scenarios(config: Config, kernel: Kernel) -> list[str]:
    """The memory scenarios of a kernel: its own, or else the general ones."""
    chosen = config.watchdog.scenarios if kernel.scenarios is None else kernel.scenarios
    return [scenario.value for scenario in chosen]


def selected_pins(config: Config, selection: Selection) -> list[str]:
    """Names of the pins in the order of the file, the baseline first."""
    chosen = _chosen("pins", selection.pins, list(config.pins))
    return sorted(chosen, key=lambda name: name != config.baseline)


def selected_kernels(config: Config, selection: Selection) -> list[Kernel]:
    """The selected kernels in the order of the file, without those that have nothing else of what is selected."""
    names = _chosen("kernel", selection.kernels, [kernel.name for kernel in config.kernel])
    kernels = [kernel for kernel in config.kernel if kernel.name in names]
    _chosen("case", selection.cases, [case.name for kernel in kernels for case in kernel.case])
    _chosen(
        "implementation", selection.implementations, [name for kernel in kernels for name in kernel.implementations]
    )
    return [kernel for kernel in kernels if _implementations(kernel, selection) and _has_cases(kernel, selection)]


def _has_cases(kernel: Kernel, selection: Selection) -> bool:
    return bool(_cases(kernel, selection)) or not selection.cases  # one that has none can be imported all the same


def _cases(kernel: Kernel, selection: Selection) -> list[str]:
    return [case.name for case in kernel.case if not selection.cases or case.name in selection.cases]


def _implementations(kernel: Kernel, selection: Selection) -> list[str]:
    wanted = selection.implementations
    return [name for name in kernel.implementations if not wanted or name in wanted]


def _chosen(
    option: str, wanted: Sequence[str], configured: Sequence[str], possible: Iterable[str] | None = None
) -> list[str]:
    """The wanted names, all when none is given. Raises UsageError for one that is not configured."""
    known = list(dict.fromkeys(possible if possible is not None else configured))
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"the configuration has {', '.join(known)}"
            msg = f"--{option} {name}: there is no such {option}; {hint}"
            raise UsageError(msg)
    return [name for name in known if name in wanted] if wanted else list(dict.fromkeys(configured))


def jobs(asked: Sequence[Cell], host: Callable[[str], str]) -> tuple[Job, ...]:
    """The processes that ask these cells; `host` gives the platform of this machine's device under some pins."""
    groups: dict[tuple[str, str, str, Lane], list[Cell]] = {}
    for cell in asked:
        if cell.check is not Check.INSTALL:
            key = (cell.pins, cell.kernel, cell.implementation, lane(cell, host(cell.pins)))
            groups.setdefault(key, []).append(cell)
    return tuple(Job(*key, tuple(members)) for key, members in groups.items())


def lane(cell: Cell, host: str) -> Lane:
    """Where a cell is asked, on a machine whose device is of platform `host`."""
    if cell.check is Check.TIMING:
        return Lane.TIMING
    if host != "cpu" and cell.target == HOST and cell.check in _ON_DEVICE:
        return Lane.DEVICE
    return Lane.SIDE_BY_SIDE


def same_questions(config: Config, asked: Sequence[Cell]) -> dict[Cell, tuple[Cell, ...]]:
    """Each cell that must be asked, with the others that ask the very same thing, whose answer is the same.

    Several kernels often share a native implementation and its cases; it is built and run once for all of them.
    """
    kernels = {kernel.name: kernel for kernel in config.kernel}
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in asked:
        key = (cell,) if cell.check is Check.INSTALL else _question(config, kernels[cell.kernel], cell)
        groups.setdefault(key, []).append(cell)
    return {first: tuple(rest) for first, *rest in groups.values()}


def _question(config: Config, kernel: Kernel, cell: Cell) -> tuple[object, ...]:
    """Everything that the answer depends on, but not the names of kernel, implementation and case."""
    case = next((case for case in kernel.case if case.name == cell.case), None)
    return (
        cell.pins,
        cell.target,
        cell.check,
        cell.scenario,
        kernel.path,
        config.absolute_requirements(kernel),
        kernel.implementations[cell.implementation],
        kernel.layouts.get(cell.implementation),
        kernel.inputs,
        kernel.static,
        case and (case.args, case.length, json.dumps(case.kwargs, sort_keys=True, default=str), case.seed),
        cell.implementation == NATIVE,
        (kernel.native, kernel.layouts.get(NATIVE)) if cell.check in _BESIDE_NATIVE else None,
        (kernel.reference, kernel.differentiate) if cell.check in (Check.NUMERICS, Check.GRADIENTS) else None,
    )


def prerequisites(check: Check) -> tuple[Check, ...]:
    """The questions about the same subject that must have a good answer first."""
    return _PREREQUISITES.get(check, ())


def blocked(cell: Cell, seen: Mapping[Cell, Observation]) -> str | None:
    """Why a cell need not be asked, given what was seen before: a question that comes first has no good answer."""
    for check in _PREREQUISITES.get(cell.check, ()):
        before = seen.get(_about_the_same(cell, check))
        if before is not None and before.outcome.is_fault:
            return f"{_ANSWERS[check]}: {_why(before)}"
        if before is not None and before.outcome is Outcome.SKIPPED:
            return before.reason
    return None


def _about_the_same(cell: Cell, check: Check) -> Cell:
    if check is Check.IMPORT:
        return Cell(cell.kernel, cell.implementation, "", cell.pins, "", check)
    return Cell(cell.kernel, cell.implementation, cell.case, cell.pins, cell.target, check)


def _why(observation: Observation) -> str:
    if observation.fault is None:
        return observation.outcome.value
    lines = observation.fault.message.strip().splitlines()
    return f"{observation.fault.kind}: {lines[0][:300]}" if lines else observation.fault.kind


def document(
    job: Job,
    numbered: Mapping[int, Cell],
    config: Config,
    *,
    asked: Sequence[Cell],
    host: str,
    scratch: Path,
    tools: Path,
) -> dict[str, Any]:
    """The plan that goes into the environment; docs/observations.md describes it."""
    kernel = next(each for each in config.kernel if each.name == job.kernel)
    cases = {cell.case for cell in numbered.values()}
    return {
        "schema": SCHEMA,
        "kernel": {
            "name": kernel.name,
            "path": str(config.absolute(kernel.path)) if kernel.path else None,
            "implementations": kernel.implementations,
            "layout": kernel.layouts,
            "inputs": kernel.inputs,
            "reference": kernel.reference,
            "tolerance": kernel.tolerance,
            "differentiate": kernel.differentiate,
            "static": kernel.static,
        },
        "implementation": job.implementation,
        "cases": [case.model_dump(mode="json") for case in kernel.case if case.name in cases],
        "cells": [
            {
                "number": number,
                "check": cell.check.value,
                "case": cell.case,
                "target": cell.target,
                "scenario": cell.scenario,
            }
            for number, cell in numbered.items()
        ],
        "asked": sorted({cell.check.value for cell in asked}),
        "host": host,
        "platform": host if job.lane in (Lane.DEVICE, Lane.TIMING) else "cpu",
        "interpret_limit": config.watchdog.interpret_limit,
        "memory_budget": config.watchdog.memory_budget,
        "scratch": str(scratch),
        "tools": str(tools),
    }
