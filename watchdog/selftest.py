"""Does the memory check find what is known to leak? Planted leaks, sent through the real pipeline.

`kernels/planted_leaks` holds kernels that keep one thing of known size at a known line, and the same kernel without a
leak. They are watched in a project of their own, under the user's pins, with a database that is thrown away.
"""

from __future__ import annotations

import ast
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from watchdog import run as running
from watchdog import scaffold
from watchdog.config import Case, Config, Kernel, Options, Pins
from watchdog.config_values import suggest
from watchdog.errors import UsageError
from watchdog.judges import growth
from watchdog.model import (
    HOST,
    Amount,
    Cell,
    Check,
    Environment,
    Figure,
    Observation,
    Outcome,
    Scenario,
    Status,
    Verdict,
)
from watchdog.plan import Selection
from watchdog.rooms import room
from watchdog.run import ShowProgress
from watchdog.store import reader
from watchdog.store.engine import Store, open_store

KERNEL = "planted_leaks"
CASE = "f32_64x64"
CLEAN = ("custom", "native")  # both are the kernel that keeps nothing
MARKER = "# leaks"
NOTHING_MEASURED = 3  # exit code
_CLEAN_FUNCTION = f"{KERNEL}.clean:double"
_SELDOM = 100  # calls from one leak to the next

_BUFFER = 64 * 64 * 4  # bytes
_CHUNK = 16  # bytes that the C allocator may add to what it is asked for


@dataclass(frozen=True)
class Leak:
    """One kind of leak: `keeps` says what is kept each time, at least and at most, for each signal that counts it.

    The first signal is the one that must be there for the leak to be measured at all.
    """

    name: str  # for people
    function: str  # of planted_leaks.leaks, whose marked line leaks
    keeps: Mapping[str, tuple[float, float]]

    @property
    def signal(self) -> str:
        return next(iter(self.keeps))


@dataclass(frozen=True)
class Plant:
    """A leak as it is planted: at every call, or more seldom."""

    implementation: str  # its name in planted_leaks.planted
    leak: Leak
    every: int = 1

    def planted(self, signal: str) -> tuple[float, float] | None:
        """What a call keeps on average, at least and at most, as `signal` counts it; None where it does not."""
        kept = self.leak.keeps.get(signal)
        return None if kept is None else (kept[0] / self.every, kept[1] / self.every)

    def line(self) -> str:
        """The line that leaks, as verdicts name it."""
        return f"{KERNEL}/leaks.py:{_marked_line(room('kernels') / KERNEL / 'leaks.py', self.leak.function)}"


def _one(*signals: str) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(signals, (1.0, 1.0))


def _bytes(size: int, *signals: str, more: int = 0) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(signals, (float(size), float(size + more)))


_DEVICE_BUFFER = Leak(
    "a device buffer of 16 KiB",
    "keep_buffer",
    {**_bytes(_BUFFER, "buffer_bytes", "device_bytes"), **_one("buffers", "live_arrays")},
)
_EXECUTABLE = Leak("a compiled program", "keep_executable", _one("live_executables"))
_OBJECT = Leak("a small Python object", "keep_object", _one("objects"))
_UNTRACKED = Leak("64 bytes as a Python object that the collector does not track", "keep_bytes", _one("blocks"))
_SMALL = Leak("64 B of malloc", "keep_small_malloc", _bytes(64, "heap_bytes", more=_CHUNK))
_LARGE = Leak("16 KiB of malloc", "keep_large_malloc", _bytes(16_384, "heap_bytes", more=_CHUNK))
_DESCRIPTOR = Leak("a file descriptor", "keep_descriptor", _one("fds"))
_THREAD = Leak("a thread", "keep_thread", _one("threads"))

PLANTS = (
    Plant("buffer", _DEVICE_BUFFER),
    Plant("executable", _EXECUTABLE),
    Plant("tracked_object", _OBJECT),
    Plant("untracked_object", _UNTRACKED),
    Plant("small_malloc", _SMALL),
    Plant("large_malloc", _LARGE),
    Plant("descriptor", _DESCRIPTOR),
    Plant("thread", _THREAD),
    Plant("seldom_buffer", _DEVICE_BUFFER, _SELDOM),
    Plant("seldom_executable", _EXECUTABLE, _SELDOM),
    Plant("seldom_tracked_object", _OBJECT, _SELDOM),
    Plant("seldom_untracked_object", _UNTRACKED, _SELDOM),
    Plant("seldom_large_malloc", _LARGE, _SELDOM),
    Plant("seldom_descriptor", _DESCRIPTOR, _SELDOM),
    Plant("seldom_thread", _THREAD, _SELDOM),
)


class Result(StrEnum):
    """What became of a planted leak, or of the clean kernel."""

    FOUND = "found"
    MISSED = "missed"
    TOO_SMALL = "too small"  # smaller than what the check says that it would have seen
    NOT_MEASURED = "not measured"
    FAILED = "failed"  # the check itself broke, or the kernel's process died
    CLEAN = "no alarm"
    ALARM = "false alarm"

    @property
    def is_failure(self) -> bool:
        return self in (Result.MISSED, Result.FAILED, Result.ALARM)


@dataclass(frozen=True)
class Finding:
    """One row: a plant (None: the clean kernel) under some pins, and what the check said of it."""

    plant: Plant | None
    pins: str
    result: Result
    said: str
    seconds: float
    figure: Figure | None = None
    planted: tuple[float, float] | None = None  # per call, in the figure's unit
    detectable: Amount | None = None  # of the signal that counts what was planted
    where: str | None = None

    @property
    def line_is_right(self) -> bool | None:
        """None where there is no line to compare, because nothing was found."""
        return None if self.result is not Result.FOUND or self.plant is None else self.where == self.plant.line()

    @property
    def error(self) -> float | None:
        """How far the figure lies outside what was planted, relative to that; None where the two cannot be compared."""
        if self.figure is None or self.planted is None:
            return None
        low, high = self.planted
        value = self.figure.value
        return (value - low) / low if value < low else max(0.0, value - high) / high


@dataclass(frozen=True)
class Outcomes:
    """The whole selftest."""

    environments: tuple[Environment, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0: all that can be seen was found, and nothing else; 3 when nothing was measured."""
        if any(finding.result.is_failure for finding in self.findings):
            return 1
        measured = any(finding.result is not Result.NOT_MEASURED for finding in self.findings)
        return 0 if measured else NOTHING_MEASURED


def selftest(config: Config | None, pins: Sequence[str], show: ShowProgress, plants: Sequence[Plant]) -> Outcomes:
    """Plant leaks under the named pins of `config` (the baseline when none is named), and look for them.

    Without a configuration the pins are those that `watchdog init` writes. Raises UsageError for unknown pins.
    """
    with tempfile.TemporaryDirectory(prefix="watchdog-selftest-") as folder:
        project_ = project(Path(folder), config, pins, plants)
        with open_store(project_.database_url, root=project_.root) as store:
            started = running.begin(store, project_, Selection())
            running.run(store, started, show, refresh=False)
            return _outcomes(store, started.id, plants)


def project(folder: Path, config: Config | None, names: Sequence[str], plants: Sequence[Plant]) -> Config:
    """The configuration that watches the planted leaks; limits and the environments' place are the user's."""
    options = {} if config is None else config.watchdog.model_dump(include={"cell_timeout", "cell_memory"})
    environments = None if config is None else config.environments_directory
    return Config(
        watchdog=Options(
            targets=(HOST,),
            checks=(Check.INSTALL, Check.IMPORT, Check.MEMORY),
            scenarios=(Scenario.EAGER,),
            environments=None if environments is None else str(environments),
            **options,
        ),
        pins=_starter_pins(names) if config is None else _absolute_pins(config, names or [config.baseline]),
        kernel=(
            Kernel(
                name=KERNEL,
                custom=_CLEAN_FUNCTION,
                native=_CLEAN_FUNCTION,
                also={plant.implementation: f"{KERNEL}.planted:{plant.implementation}" for plant in plants},
                path=str(room("kernels")),
                case=(Case(name=CASE, args=("f32[64,64]",)),),
            ),
        ),
        path=folder / "watchdog.toml",
        root=folder,
    )


def _starter_pins(names: Sequence[str]) -> dict[str, Pins]:
    """The baseline of what `watchdog init` writes."""
    if names:
        msg = f"--pins {names[0]}: no configuration says what these are; name one with --config"
        raise UsageError(msg)
    document = tomllib.loads(scaffold.starter_config())
    name = document["watchdog"]["baseline"]
    return {name: Pins.model_validate(document["pins"][name])}


def _absolute_pins(config: Config, names: Sequence[str]) -> dict[str, Pins]:
    """The named pins, readable from another folder. Raises UsageError for a name that is not there."""
    for name in names:
        if name not in config.pins:
            msg = f"--pins {name}: there are no such pins; {suggest(name, config.pins)}"
            raise UsageError(msg)
    return {name: config.absolute_pins(pins) for name, pins in config.pins.items() if name in names}


def _marked_line(file: Path, function: str) -> int:
    """The line of a function that bears the marker."""
    source = file.read_text(encoding="utf-8")
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function)
    lines = source.splitlines()
    (number,) = (number for number in range(found.lineno, (found.end_lineno or 0) + 1) if MARKER in lines[number - 1])
    return number


def _outcomes(store: Store, run: str, plants: Sequence[Plant]) -> Outcomes:
    observations = {one.cell: one for one in reader.observations(store, run) if one.cell.check is Check.MEMORY}
    verdicts = {one.cell: one for one in reader.verdicts(store, run) if one.cell.check is Check.MEMORY}
    by_name = {plant.implementation: plant for plant in plants}
    order = [*by_name, *CLEAN]
    cells = sorted(observations, key=lambda cell: (cell.pins, order.index(cell.implementation)))
    return Outcomes(
        tuple(reader.environments(store, run)),
        tuple(_finding(by_name.get(cell.implementation), cell, observations[cell], verdicts[cell]) for cell in cells),
    )


def _finding(plant: Plant | None, cell: Cell, observation: Observation, verdict: Verdict) -> Finding:
    if observation.outcome.is_fault:
        return Finding(plant, cell.pins, Result.FAILED, verdict.summary, observation.seconds)
    why_not = _not_measured(plant, observation)
    if why_not is not None:
        return Finding(plant, cell.pins, Result.NOT_MEASURED, why_not, observation.seconds)
    if plant is None:
        result = Result.ALARM if verdict.status is Status.REGRESSED else Result.CLEAN
        return Finding(None, cell.pins, result, verdict.summary, observation.seconds, detectable=verdict.detectable)
    detectable = _detectable(plant, observation)
    result = _result(plant, verdict, detectable)
    found = result is Result.FOUND
    return Finding(
        plant,
        cell.pins,
        result,
        verdict.summary,
        observation.seconds,
        figure=verdict.figure if found else None,
        planted=plant.planted(verdict.signal or "") if found else None,
        detectable=detectable,
        where=verdict.where if found else None,
    )


def _not_measured(plant: Plant | None, observation: Observation) -> str | None:
    """Why the leak could not have been seen here; None when it could."""
    if observation.outcome is Outcome.SKIPPED:
        return observation.reason or "no reason given"
    if plant is not None and plant.leak.signal not in observation.series:
        return f"{plant.leak.signal} cannot be read here"
    if plant is not None and plant.leak.signal not in {one.signal.name for one in growth.measure(observation)}:
        return f"calls are too slow here: over so few {plant.leak.signal} tells nothing"
    return None


def _result(plant: Plant, verdict: Verdict, detectable: Amount | None) -> Result:
    """A leak is found when it is called one; it may be missed without fault below what the check claims to see."""
    if verdict.status is Status.REGRESSED and verdict.kind == "leak":
        return Result.FOUND
    planted = plant.planted(plant.leak.signal)
    small = detectable is not None and planted is not None and planted[0] < detectable.value
    return Result.TOO_SMALL if small and verdict.status is not Status.REGRESSED else Result.MISSED


def _detectable(plant: Plant, observation: Observation) -> Amount | None:
    """The smallest leak of the planted kind that this observation would have shown."""
    measured = {one.signal.name: one for one in growth.measure(observation)} if observation.series else {}
    seen = measured.get(plant.leak.signal)
    return None if seen is None or seen.detectable is None else Amount(seen.detectable, seen.signal.unit)


def document(outcomes: Outcomes) -> dict[str, Any]:
    """The selftest as `--json` writes it (docs/judging-memory.md)."""
    return {
        "schema": 1,
        "exit_code": outcomes.exit_code,
        "environments": [
            {"pins": one.pins, "packages": {package.name: package.version for package in one.packages}}
            for one in outcomes.environments
        ],
        "findings": [_finding_to_json(finding) for finding in outcomes.findings],
    }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    plant, figure, detectable = finding.plant, finding.figure, finding.detectable
    return {
        "pins": finding.pins,
        "planted": None if plant is None else plant.leak.name,
        "every": None if plant is None else plant.every,
        "line": None if plant is None else plant.line(),
        "result": finding.result.value,
        "said": finding.said,
        "figure": None if figure is None else vars(figure),
        "planted_figure": None if finding.planted is None else list(finding.planted),
        "error": finding.error,
        "detectable": None if detectable is None else vars(detectable),
        "where": finding.where,
        "line_is_right": finding.line_is_right,
        "seconds": finding.seconds,
    }
