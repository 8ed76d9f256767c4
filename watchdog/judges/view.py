"""The four-way view of one cell: candidate, its baseline, and the native implementation under both pins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watchdog.judges.experiment import Rule
from watchdog.judges.wording import one_line
from watchdog.model import (
    Cell,
    Check,
    Environment,
    Observation,
    Outcome,
    PackageChange,
    Service,
    Status,
    Verdict,
    package_changes,
)

NATIVE = "native"  # the implementation that is every other one's control


@dataclass(frozen=True)
class KernelFacts:
    """What the judges must know of a kernel beside its observations.

    `own_packages` are the distributions that are the kernel's own (its `requirements`), normalised;
    `tolerance` is the relative error that its author allows, None where the author leaves it to the judge;
    `service` is where it serves, None where nobody said.
    """

    own_packages: frozenset[str] = frozenset()
    tolerance: float | None = None
    service: Service | None = None


@dataclass(frozen=True)
class Times:
    """What a gate's processes took, in seconds, block by block: of this cell and of its control, under both sides."""

    rule: Rule
    head: Sequence[float]
    base: Sequence[float]
    control_head: Sequence[float]
    control_base: Sequence[float]


@dataclass(frozen=True)
class View:
    """Everything that a judge may look at for one cell."""

    candidate: Observation
    baseline_pins: str | None = None  # the run's baseline, also where this cell is the baseline's own
    baseline: Observation | None = None
    control: Observation | None = None
    control_baseline: Observation | None = None
    environment: Environment | None = None
    baseline_environment: Environment | None = None
    facts: KernelFacts = field(default_factory=KernelFacts)
    family: Sequence[Observation] = ()  # this question under all pins, of all implementations
    same_artefacts: bool | None = None  # are the lowered and compiled programs those of the baseline? None: unknown
    same_module: bool | None = None  # is the lowered module that of the baseline? None: unknown
    times: Times | None = None  # of the processes of a gate
    compiles: bool | None = None  # did the compile check of the same cell succeed? None: not asked
    baseline_compiles: bool | None = None

    @property
    def cell(self) -> Cell:
        return self.candidate.cell

    @property
    def data(self) -> Mapping[str, Any]:
        return self.candidate.data

    @property
    def is_baseline(self) -> bool:
        """Whether this cell belongs to the baseline pins themselves."""
        return self.cell.pins == self.baseline_pins

    @property
    def against(self) -> str | None:
        """The pins that this cell is judged against; None for the baseline's own cells and without a baseline."""
        return None if self.is_baseline else self.baseline_pins

    @property
    def before(self) -> Observation | None:
        """The baseline's observation, where it holds figures to compare with."""
        return observed(self.baseline)

    @property
    def is_native(self) -> bool:
        return self.cell.implementation == NATIVE

    @property
    def changes(self) -> tuple[PackageChange, ...] | None:
        """What differs between the two environments, Python included; None when one of them is not known."""
        old, new = self.baseline_environment, self.environment
        if old is None or new is None or not old.lock_hash or not new.lock_hash:
            return None
        python = (PackageChange("python", old.python, new.python),) if old.python != new.python else ()
        return package_changes(old.packages, new.packages) + python

    def verdict(self, status: Status, summary: str, **more: Any) -> Verdict:
        """A verdict on this cell, against its baseline; `more` are the other fields of `Verdict`."""
        return Verdict(self.cell, status, summary, baseline=self.against, **more)

    def nothing_to_compare(self) -> str | None:
        """Why no comparison is possible; None when it is, or when none is asked for (the baseline's own cell)."""
        if self.is_baseline or self.before is not None:
            return None
        if self.baseline_pins is None:
            return "nothing to compare with: no baseline is set"
        if self.baseline is None:
            return f"nothing to compare with: not observed under {self.baseline_pins}"
        if self.baseline.outcome is Outcome.SKIPPED:
            reason = one_line(self.baseline.reason or "no reason given")
            return f"nothing to compare with: skipped under {self.baseline_pins}: {reason}"
        return f"nothing to compare with: it failed under {self.baseline_pins}"


def observed(observation: Observation | None) -> Observation | None:
    """The observation, if it ended with figures."""
    return observation if observation is not None and observation.outcome is Outcome.OBSERVED else None


def quantity(data: Mapping[str, Any], key: str) -> float | None:
    """A finite number of `data`; None where it is missing, null or not a finite number."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def records(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A list of objects in `data`; empty where it is missing or null."""
    value = data.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def build_views(
    observations: Sequence[Observation],
    environments: Sequence[Environment],
    baseline: str | None,
    kernels: Mapping[str, KernelFacts],
    *,
    samples: Mapping[Cell, Sequence[float]],
    rule: Rule | None,
) -> list[View]:
    """One view per observed cell, in the cells' order. Of two observations of one cell the later one counts.

    `samples` are the times of a gate's processes by cell, which are compared by `rule`.
    """
    table = _newest(observations)
    families = _families(table)
    return [
        replace(
            _view(observation, table, environments, baseline, kernels),
            family=families[_question(observation.cell)],
            times=_times(observation.cell, baseline, samples, rule),
        )
        for _, observation in sorted(table.items(), key=lambda item: item[0])
    ]


def _times(
    cell: Cell, baseline: str | None, samples: Mapping[Cell, Sequence[float]], rule: Rule | None
) -> Times | None:
    if rule is None or baseline is None or cell.check is not Check.TIMING or cell.pins == baseline:
        return None
    before, native = replace(cell, pins=baseline), replace(cell, implementation=NATIVE)
    control = () if cell.implementation == NATIVE else samples.get(native, ())
    control_base = () if not control else samples.get(replace(native, pins=baseline), ())
    return Times(rule, samples.get(cell, ()), samples.get(before, ()), control, control_base)


def _families(table: Mapping[Cell, Observation]) -> dict[Cell, list[Observation]]:
    """The observations of each question, in the cells' order."""
    found: dict[Cell, list[Observation]] = {}
    for cell, observation in sorted(table.items(), key=lambda item: item[0]):
        found.setdefault(_question(cell), []).append(observation)
    return found


def _question(cell: Cell) -> Cell:
    return replace(cell, implementation="", pins="")


def _newest(observations: Sequence[Observation]) -> dict[Cell, Observation]:
    newest: dict[Cell, Observation] = {}
    for observation in observations:
        held = newest.get(observation.cell)
        newest[observation.cell] = observation if held is None else max(held, observation, key=_age)
    return newest


def _age(observation: Observation) -> tuple[str, str]:
    """When it was seen; its text breaks ties, so that the order of arrival never matters."""
    return observation.at, repr(observation)


def _view(
    candidate: Observation,
    table: Mapping[Cell, Observation],
    environments: Sequence[Environment],
    baseline: str | None,
    kernels: Mapping[str, KernelFacts],
) -> View:
    cell = candidate.cell
    compares = baseline is not None and cell.pins != baseline
    before = replace(cell, pins=baseline) if compares and baseline is not None else None
    return View(
        candidate=candidate,
        baseline_pins=baseline,
        baseline=table.get(before) if before else None,
        control=_control(table, cell),
        control_baseline=_control(table, before) if before else None,
        environment=_environment(environments, cell),
        baseline_environment=_environment(environments, before) if before else None,
        facts=kernels.get(cell.kernel, KernelFacts()),
        same_artefacts=_same_artefacts(table, cell, before) if before else None,
        same_module=_same(table, cell, before, Check.LOWER, ("fingerprint",)) if before else None,
        compiles=_compiles(table, cell),
        baseline_compiles=_compiles(table, before) if before else None,
    )


def _control(table: Mapping[Cell, Observation], cell: Cell) -> Observation | None:
    if not cell.implementation or cell.implementation == NATIVE:
        return None
    return table.get(replace(cell, implementation=NATIVE))


def _environment(environments: Sequence[Environment], cell: Cell) -> Environment | None:
    """The environment that a cell ran in; one made for its kernel alone goes before a shared one."""
    fitting = [one for one in environments if one.pins == cell.pins and (not one.kernels or cell.kernel in one.kernels)]
    return max(fitting, key=lambda one: (bool(one.kernels), one.lock_hash), default=None)


def _compiles(table: Mapping[Cell, Observation], cell: Cell) -> bool | None:
    compiled = table.get(replace(cell, check=Check.COMPILE, scenario=""))
    return None if compiled is None or compiled.outcome is Outcome.SKIPPED else not compiled.outcome.is_fault


def _same_artefacts(table: Mapping[Cell, Observation], cell: Cell, before: Cell) -> bool | None:
    """Whether the lowered and the compiled program are the baseline's, byte counts of the code included."""
    lowered = _same(table, cell, before, Check.LOWER, ("fingerprint",))
    compiled = _same(table, cell, before, Check.COMPILE, ("fingerprint", "code_bytes"))
    return None if lowered is None or compiled is None else lowered and compiled


def _same(
    table: Mapping[Cell, Observation], cell: Cell, before: Cell, check: Check, keys: Sequence[str]
) -> bool | None:
    new, old = (observed(table.get(replace(one, check=check, scenario=""))) for one in (cell, before))
    if new is None or old is None or not new.data.get("fingerprint") or not old.data.get("fingerprint"):
        return None
    return all(new.data.get(key) == old.data.get(key) for key in keys)
