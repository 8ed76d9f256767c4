"""The words of the program, as frozen types.

Everything that passes between rooms is one of these values. Checks observe (`Observation`), judges decide
(`Verdict`); DESIGN's section "Words" defines each term, and the names here follow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Check(StrEnum):
    """One question asked of a cell; a verdict's `aspect` uses the same words."""

    INSTALL = "install"
    IMPORT = "import"
    LOWER = "lower"
    COMPILE = "compile"
    SCHEDULE = "schedule"
    NUMERICS = "numerics"
    GRADIENTS = "gradients"
    RACES = "races"
    MEMORY = "memory"
    TIMING = "timing"


class Scenario(StrEnum):
    """A way of using the kernel, in which the memory check watches it. A clean kernel can leak in one of them."""

    STEADY = "steady"  # jitted once, called with the same shapes
    EAGER = "eager"  # called as it stands
    SHAPES = "shapes"  # lengths vary, as with documents
    REBUILD = "rebuild"  # a closure, partial or method, jitted anew for each request
    GRAD = "grad"  # its gradient
    DONATE = "donate"  # each request gives its inputs away
    ERRORS = "errors"  # every nth call raises, and the handler keeps going
    THREADS = "threads"  # called from several threads
    ASYNC = "async"  # many calls in flight
    RELOAD = "reload"  # jax's caches cleared and the module imported anew


class Status(StrEnum):
    """What a judge says of a cell. Ordered from what needs a person most to what needs one least."""

    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"
    IMPROVED = "improved"
    PASS = "pass"  # noqa: S105  # a status, no password


class Suspect(StrEnum):
    """Who is to blame for what a verdict reports."""

    KERNEL = "kernel"
    LIBRARY = "library"
    PINS = "pins"
    MACHINE = "machine"


class Outcome(StrEnum):
    """How the observing of one cell ended."""

    OBSERVED = "observed"
    FAILED = "failed"  # the kernel raised an exception
    CRASHED = "crashed"  # its process died: signal or exit code
    HUNG = "hung"  # its process was stopped at the time limit
    OUT_OF_MEMORY = "out of memory"  # its process was stopped at the memory limit
    SKIPPED = "skipped"  # the question could not be asked here; `reason` says why

    @property
    def is_fault(self) -> bool:
        return self not in (Outcome.OBSERVED, Outcome.SKIPPED)


HOST = "host"  # the target that is this machine's own device


@dataclass(frozen=True, order=True)
class Cell:
    """kernel × implementation × case × pins × target × check; parts that a check does not distinguish are empty.

    `install` knows only pins (and the kernels that share the environment: `kernel` is empty when all do),
    `import` knows no case and no target. Only `memory` knows scenarios: each is asked and judged by itself.
    """

    kernel: str
    implementation: str
    case: str
    pins: str
    target: str
    check: Check
    scenario: str = ""

    @property
    def address(self) -> str:
        """A stable, readable name of this cell, unique in a run."""
        parts = (self.kernel, self.implementation, self.case, self.pins, self.target, self.check.value)
        scenario = [self.scenario] if self.scenario else []
        return "/".join([*(part or "-" for part in parts), *scenario])


@dataclass(frozen=True)
class Fault:
    """What went wrong in a cell, as data: text from outside, to be escaped wherever it is shown."""

    kind: str  # exception class, "signal 6 (SIGABRT)", "exit code 3", "time limit", "memory limit"
    message: str
    where: str | None = None  # "file.py:12", the user's own line where it is known
    traceback: str = ""
    missing: str | None = None  # the module, name or argument that was not there


@dataclass(frozen=True)
class Observation:
    """The raw numbers, or the fault, that a check saw in one cell.

    `data` holds the check's own figures as JSON values (documented in docs/observations.md);
    `series` holds long numeric sequences, stored compactly, by signal name.
    """

    cell: Cell
    outcome: Outcome
    reason: str | None = None  # why it was skipped
    fault: Fault | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    log_tail: str = ""
    seconds: float = 0.0
    at: str = ""  # UTC, ISO 8601


@dataclass(frozen=True)
class Sample:
    """The time of one process of a gate: the process, not the round, is the unit of comparison."""

    cell: Cell
    place: int  # among the processes of this cell, in the order in which they ran
    seconds: float | None  # the median of its rounds; None where the process gave none
    spread: float | None = None  # the median distance of its rounds from that, in seconds
    rounds: int = 0
    at: str = ""  # UTC, ISO 8601


@dataclass(frozen=True)
class Figure:
    """An estimate with its interval; `low` and `high` equal `value` where the figure is exact."""

    value: float
    low: float
    high: float
    unit: str

    @classmethod
    def exact(cls, value: float, unit: str) -> Figure:
        return cls(value, value, value, unit)


@dataclass(frozen=True)
class Amount:
    """A quantity with its unit, without an interval."""

    value: float
    unit: str


@dataclass(frozen=True)
class Verdict:
    """What a judge says of one cell (or of one signal in it), against the baseline where there is one."""

    cell: Cell
    status: Status
    summary: str  # one sentence for people; plain text, unescaped
    baseline: str | None = None  # name of the pins it was judged against
    signal: str | None = None
    kind: str | None = None
    suspect: Suspect | None = None
    figure: Figure | None = None
    detectable: Amount | None = None
    where: str | None = None

    @property
    def id(self) -> str:
        """A stable address: the same finding has the same id in every run."""
        return "/".join([self.cell.address, *([self.signal] if self.signal else [])])

    @property
    def scenario(self) -> str | None:
        return self.cell.scenario or None


@dataclass(frozen=True)
class Service:
    """Where the kernel serves: what a leak costs there."""

    calls_per_second: float
    device_memory: int | None  # bytes; None: what the observed machine has
    price_per_hour: float | None
    currency: str
    restart_minutes: float


@dataclass(frozen=True)
class Package:
    """One installed or locked package; `name` is normalised (PEP 503)."""

    name: str
    version: str


@dataclass(frozen=True)
class PackageChange:
    """A package that differs between two locks; an absent side is None."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Environment:
    """The pins of a run, resolved: what was asked for, and what is installed."""

    pins: str
    kernels: tuple[str, ...]  # the kernels that share it; empty means all
    lock_hash: str  # "sha256:…"; empty when the pins could not be resolved
    lock: str  # requirements text with hashes
    python: str  # full version, "3.11.7"
    packages: tuple[Package, ...]


def package_changes(old: Sequence[Package], new: Sequence[Package]) -> tuple[PackageChange, ...]:
    """The packages that differ between two locks, by name."""
    before = {package.name: package.version for package in old}
    after = {package.name: package.version for package in new}
    return tuple(
        PackageChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
