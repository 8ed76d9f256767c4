"""`watchdog.toml` as frozen types, and the one place that reads it.

docs/configuration.md describes every key. A mistake is a `ConfigError` with file, line, key and remedy; when there are
several, all are told at once.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from watchdog.config_consistency import inconsistencies
from watchdog.config_values import (
    CUSTOM,
    NATIVE,
    ArgumentText,
    Bytes,
    CheckName,
    DatabaseUrl,
    File,
    FilledText,
    Folder,
    FunctionName,
    Index,
    Kwargs,
    Layout,
    Minutes,
    Name,
    Operations,
    ParameterName,
    Price,
    Processes,
    PythonVersion,
    Rate,
    RequirementText,
    ScenarioName,
    Seconds,
    Share,
    ShortText,
    Size,
    Target,
    Tolerance,
    absolute_requirement,
)
from watchdog.errors import ConfigError, UsageError
from watchdog.mistakes import config_error, explain
from watchdog.model import HOST, Check, Scenario, Service
from watchdog.toml_lines import key_lines

FILE_NAME = "watchdog.toml"

_RELATIVE_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)(?!/|:memory:|file:)(.+)")


class _Table(BaseModel):
    """A table of the file: frozen, and no other keys than these."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Options(_Table):
    """`[watchdog]`: what a run asks, where it keeps what it saw, and its limits."""

    database: DatabaseUrl = "sqlite:///.watchdog/watchdog.db"
    report: FilledText = ".watchdog/report"
    baseline: str | None = None  # None: the first pins of the file; see Config.baseline
    targets: tuple[Target, ...] = (HOST,)
    checks: tuple[CheckName, ...] = tuple(Check)
    cell_timeout: Seconds = 300.0
    cell_memory: Bytes = 8 * 2**30
    environments: FilledText | None = None
    interpret_limit: Operations = 2e9  # floating point operations of the native implementation
    scenarios: tuple[ScenarioName, ...] = tuple(Scenario)
    memory_budget: Seconds = 15.0  # of calls in one memory scenario of a slow kernel; a fast one takes less


class Pins(_Table):
    """`[pins.NAME]`: a list of requirements, a file of them, or a lock that another tool made."""

    requirements: tuple[RequirementText, ...] = ()
    requirements_file: File | None = None
    lock: File | None = None
    python: PythonVersion | None = None


class Case(_Table):
    """`[[kernel.case]]`: one input configuration."""

    name: Name
    args: tuple[ArgumentText, ...] = ()
    kwargs: Kwargs = {}
    seed: Index = 0
    length: Size | None = None  # the size of the dimensions that the scenario `shapes` varies; None: the largest


class Kernel(_Table):
    """`[[kernel]]`: one operation under watch, with its implementations and cases."""

    name: Name
    custom: FunctionName
    native: FunctionName
    also: dict[Name, FunctionName] = {}
    path: Folder | None = None
    requirements: tuple[RequirementText, ...] = ()
    case: tuple[Case, ...] = ()
    inputs: FunctionName | None = None
    reference: FunctionName | None = None
    tolerance: Tolerance | None = None
    differentiate: tuple[Index, ...] | None = None
    layout: Layout | None = None
    static: tuple[ParameterName, ...] | None = None  # None: all keyword arguments
    scenarios: tuple[ScenarioName, ...] | None = None  # None: those of [watchdog]

    @property
    def implementations(self) -> dict[str, str]:
        """Each implementation's "module:function" by name: custom, native, then the others."""
        return {CUSTOM: self.custom, NATIVE: self.native, **self.also}

    @property
    def layouts(self) -> dict[str, str]:
        """The "module:function" that adapts each implementation; a layout given as one string leaves native alone."""
        if isinstance(self.layout, str):
            return dict.fromkeys((CUSTOM, *self.also), self.layout)
        return self.layout or {}


class ServiceTable(_Table):
    """`[service]`: where the kernel serves, for what a leak costs there."""

    calls_per_second: Rate
    device_memory: Bytes | None = None  # None: what the observed machine has
    price_per_hour: Price | None = None
    currency: ShortText = "USD"
    restart_minutes: Minutes = 5.0


class GateTable(_Table):
    """`[gate]`: how long `watchdog gate` may take, and what it calls a slowdown (docs/judging-timing.md)."""

    budget: Seconds = 900.0  # of timing and of the search for the package, not of the other questions
    error_rate: Share = 0.001  # chance that a gate calls anything slower when nothing changed
    relevant: Share | None = None  # smallest slowdown that matters; None: the smallest that the noise lets one see
    processes: Processes = 20  # of each side, at the most


class _Document(_Table):
    """The whole file."""

    watchdog: Options = Options()
    gate: GateTable = GateTable()
    pins: dict[Name, Pins] = {}
    kernel: tuple[Kernel, ...] = ()
    service: ServiceTable | None = None


class Config(_Document):
    """The whole file and where it lies; relative paths in it start from `root`."""

    path: Path
    root: Path

    @property
    def baseline(self) -> str:
        """The pins that the others are judged against: those named so, or else the first."""
        return self.watchdog.baseline or next(iter(self.pins))

    @property
    def database_url(self) -> str:
        """The database's URL; the file of a SQLite database is absolute."""
        match = _RELATIVE_SQLITE.fullmatch(self.watchdog.database)
        return f"{match[1]}{self.root / match[2]}" if match else self.watchdog.database

    @property
    def report_directory(self) -> Path:
        return self.absolute(self.watchdog.report)

    @property
    def environments_directory(self) -> Path | None:
        """The folder of the environment cache; None where the file leaves it to the program."""
        return self.absolute(self.watchdog.environments) if self.watchdog.environments else None

    @property
    def served(self) -> Service | None:
        """Where the kernels serve, if the file says so."""
        return None if self.service is None else Service(**self.service.model_dump())

    def absolute(self, path: str) -> Path:
        """A path of the file, made absolute."""
        return self.root / Path(path).expanduser()

    def absolute_pins(self, pins: Pins) -> Pins:
        """The same pins, readable from any folder."""
        lock, file = (
            None if place is None else str(self.absolute(place)) for place in (pins.lock, pins.requirements_file)
        )
        wanted = self.absolute_requirements(pins)
        return pins.model_copy(update={"requirements": wanted, "requirements_file": file, "lock": lock})

    def absolute_requirements(self, table: Pins | Kernel) -> tuple[str, ...]:
        """The requirements of pins or of a kernel, with the paths of local projects made absolute."""
        return tuple(absolute_requirement(requirement, self.root) for requirement in table.requirements)


_KEYS = {
    "": tuple(_Document.model_fields),
    "[watchdog]": tuple(Options.model_fields),
    "[pins.NAME]": tuple(Pins.model_fields),
    "[[kernel]]": tuple(Kernel.model_fields),
    "[[kernel.case]]": tuple(Case.model_fields),
    "[service]": tuple(ServiceTable.model_fields),
    "[gate]": tuple(GateTable.model_fields),
}


def find_config(start: Path) -> Path:
    """The `watchdog.toml` in `start` or in the nearest folder above it, up to the root of a repository.

    Raises UsageError when there is none.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
        if (folder / ".git").exists():
            break
    msg = f"there is no {FILE_NAME} in {start} or above it; `watchdog init` writes one, --config names another"
    raise UsageError(msg)


def load(path: Path) -> Config:
    """Read and check a configuration file.

    Raises UsageError when the file cannot be read, ConfigError for everything wrong in it: its message has one line
    for each mistake, in the order of the file.
    """
    text = _read(path)
    document = _parse(text, path)
    root = path.absolute().parent
    mistakes = list(inconsistencies(document))
    try:
        parsed = _Document.model_validate(document, context={"root": root})
    except ValidationError as error:
        mistakes += [explain(detail, _KEYS) for detail in error.errors(include_url=False)]
    if mistakes:
        raise config_error(mistakes, path, key_lines(text), document)
    return Config(**dict(parsed), path=path.absolute(), root=root)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        msg = f"there is no file {path}; `watchdog init` writes a {FILE_NAME}"
        raise UsageError(msg) from None
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise UsageError(msg) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = "this is not UTF-8 text; save the file as UTF-8"
        raise ConfigError(message, path=path, line=line) from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _refuse_syntax(error, text, path)
    except RecursionError as error:
        message = "arrays or tables are nested too deeply"
        raise ConfigError(message, path=path) from error


def _refuse_syntax(error: tomllib.TOMLDecodeError, text: str, path: Path) -> NoReturn:
    """The place of a syntax error stands only in the message that tomllib gives."""
    place = re.search(r" \(at (?:line (\d+), (column \d+)|end of document)\)$", str(error))
    reason = str(error)[: place.start()] if place else str(error)
    line = int(place[1]) if place and place[1] else text.count("\n") + 1
    column = f", at {place[2]}" if place and place[2] else ", at the end of the file"
    message = f"this is not valid TOML: {reason[:1].lower()}{reason[1:]}{column}"
    raise ConfigError(message, path=path, line=line) from error
