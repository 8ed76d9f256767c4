"""What is told, and in which order: pure functions from a run to the parts of a report, shared by all formats."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from watchdog.model import (
    Cell,
    Check,
    Environment,
    Fault,
    Observation,
    PackageChange,
    Scenario,
    Status,
    Verdict,
    package_changes,
)
from watchdog.publish.story import RunReport
from watchdog.publish.wording import count, listed, one_line

# For a reader, a good answer tells more than no answer: skipped comes last here.
NEED = (Status.REGRESSED, Status.INCONCLUSIVE, Status.IMPROVED, Status.PASS, Status.SKIPPED)
_CHECKS = tuple(Check)
_SCENARIOS = tuple(Scenario)
_WEIGHT = (  # from what stops a service to what makes it dearer
    Check.INSTALL,
    Check.IMPORT,
    Check.LOWER,
    Check.NUMERICS,
    Check.GRADIENTS,
    Check.RACES,
    Check.MEMORY,
    Check.COMPILE,
    Check.TIMING,
    Check.SCHEDULE,
)
_KNOWN_LIBRARIES = ("jax", "jaxlib", "libtpu", "torch", "triton")


@dataclass(frozen=True)
class Finding:
    """One thing to tell; the same aspect in further cases, targets or scenarios or of further kernels is told with it."""

    verdict: Verdict
    also: tuple[Verdict, ...]

    @property
    def kernels(self) -> set[str]:
        return {one.cell.kernel for one in (self.verdict, *self.also)}

    @property
    def elsewhere(self) -> str:
        """Where else it is found: "jax_flash_attention/native and 3 other cells", "9 other scenarios"."""
        owner = cell_owner(self.verdict.cell)
        owners = [cell_owner(one.cell) for one in self.also]
        others = [one_line(name, 80) for name in dict.fromkeys(owners) if name != owner]
        return listed([*others, *([count(owners.count(owner), f"other {self._part}")] if owner in owners else [])])

    @property
    def _part(self) -> str:
        """What the cells of this kernel and implementation differ in."""
        owner = cell_owner(self.verdict.cell)
        mine = {replace(one.cell, scenario="") for one in (self.verdict, *self.also) if cell_owner(one.cell) == owner}
        return "scenario" if len(mine) == 1 else "cell"


@dataclass(frozen=True)
class Square:
    """What several verdicts say together."""

    status: Status | None  # None where nothing was judged
    counts: Mapping[Status, int]
    first: Verdict | None  # the one that needs a person most

    @property
    def words(self) -> str:
        if self.status is None:
            return "not run"
        if self.status in (Status.PASS, Status.SKIPPED):
            return self.status.value
        return f"{self.counts[self.status]} {self.status}"

    @property
    def rest(self) -> str:
        """The counts that `words` does not tell."""
        told = self.status if self.status not in (Status.PASS, Status.SKIPPED) else None
        return ", ".join(
            f"{self.counts[status]:,} {status}" for status in NEED if self.counts[status] and status != told
        )


@dataclass(frozen=True)
class Block:
    """What was observed of one implementation under some pins."""

    kernel: str
    implementation: str
    pins: str
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class Skipped:
    """Questions that could not be asked, for one reason."""

    reason: str
    verdicts: tuple[Verdict, ...]

    @property
    def what(self) -> str:
        checks = sorted({verdict.cell.check for verdict in self.verdicts}, key=_CHECKS.index)
        pins = sorted({verdict.cell.pins for verdict in self.verdicts})
        places = sorted({cell_owner(verdict.cell) for verdict in self.verdicts})
        return f"{listed([str(check) for check in checks], 5)} of {listed(places, 4)} under {listed(pins, 4)}"


class Story:
    """A run with the look-ups that telling it needs."""

    def __init__(self, report: RunReport) -> None:
        self.report = report

    @cached_property
    def by_cell(self) -> dict[Cell, Observation]:
        return {observation.cell: observation for observation in self.report.observations}

    @cached_property
    def _by_address(self) -> dict[str, Cell]:
        return {cell.address: cell for cell in self.by_cell}

    def asked_of(self, cell: Cell) -> Cell:
        """The cell whose answer this one has: another's where several kernels share the question, else its own."""
        observation = self.by_cell.get(cell)
        address = observation.data.get("same_as") if observation else None
        return self._by_address.get(address, cell) if isinstance(address, str) else cell

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """All verdicts, what needs a person most first."""
        return sorted(self.report.verdicts, key=self._need)

    @cached_property
    def implementations(self) -> dict[str, list[str]]:
        """The implementations of each kernel: custom, native, then others by name."""
        found: dict[str, set[str]] = {kernel: set() for kernel in self.report.kernels}
        for cell in self._cells():
            if cell.kernel in found and cell.implementation:
                found[cell.kernel].add(cell.implementation)
        usual = ("custom", "native")
        return {name: sorted(some, key=lambda one: (one not in usual, one)) for name, some in found.items()}

    @cached_property
    def findings(self) -> list[Finding]:
        """What regressed, told once each."""
        return self._told_once(Status.REGRESSED)

    @cached_property
    def undecided(self) -> list[Finding]:
        """What could not be decided, told once each."""
        return self._told_once(Status.INCONCLUSIVE)

    @cached_property
    def skipped(self) -> list[Skipped]:
        """What could not be asked, by reason, the most frequent first."""
        groups: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.status is Status.SKIPPED:
                groups.setdefault(self._skip_reason(verdict), []).append(verdict)
        return sorted((Skipped(why, tuple(some)) for why, some in groups.items()), key=lambda one: -len(one.verdicts))

    def about(
        self, kernel: str, *, implementation: str | None = None, pins: str | None = None, check: Check | None = None
    ) -> list[Verdict]:
        """Verdicts on a kernel, and those (of install) that concern every kernel, worst first."""
        return [
            verdict
            for verdict in self.verdicts
            if verdict.cell.kernel in ("", kernel)
            and (implementation is None or verdict.cell.implementation in ("", implementation))
            and (pins is None or verdict.cell.pins == pins)
            and (check is None or verdict.cell.check is check)
        ]

    def headline(self) -> str:
        """The state in one sentence."""
        findings, kernels = self.findings, self.report.kernels
        if findings:
            touched = set().union(*(finding.kernels for finding in findings))
            hit = len(kernels) if "" in touched else len(touched)
            what = listed(list(dict.fromkeys(_topic(finding.verdict) for finding in findings)), 3)
            return f"{count(len(findings), 'finding')} in {hit} of {count(len(kernels), 'kernel')}: {what}."
        counts = Counter(verdict.status for verdict in self.report.verdicts)
        if not counts:
            return "Nothing is judged yet." if self.report.state == "running" else "Nothing was judged in this run."
        others = [f"{counts[status]:,} {status}" for status in NEED[1:] if counts[status]]
        return f"Nothing regressed in {count(len(kernels), 'kernel')}: {listed(others, 4)}."

    def environment(self, pins: str, kernel: str | None = None) -> Environment | None:
        """The environment of some pins, for one kernel where kernels do not share it."""
        candidates = [one for one in self.report.environments if one.pins == pins]
        fitting = [one for one in candidates if not one.kernels or kernel is None or kernel in one.kernels]
        return next(iter(fitting or candidates), None)

    def changes(self, environment: Environment) -> tuple[PackageChange, ...] | None:
        """What differs from the baseline's environment; None where there is nothing to compare with."""
        kernel = environment.kernels[0] if environment.kernels else None
        baseline = self.environment(self.report.baseline or "", kernel)
        if baseline is None or environment.pins == self.report.baseline or not environment.lock_hash:
            return None
        return package_changes(baseline.packages, environment.packages)

    @cached_property
    def blocks(self) -> list[Block]:
        """All observations, in the order of the configuration."""
        groups: dict[tuple[str, str, str], list[Observation]] = {}
        for one in self.report.observations:
            groups.setdefault((one.cell.kernel, one.cell.implementation, one.cell.pins), []).append(one)
        report = self.report
        keys = sorted(groups, key=lambda key: (_place(report.kernels, key[0]), key[1], _place(report.pins, key[2])))
        return [Block(*key, tuple(groups[key])) for key in keys]

    @cached_property
    def package_rows(self) -> list[tuple[str, list[tuple[str, bool]]]]:
        """Packages that differ between environments: name, then for each environment version and "is changed"."""
        held = [{package.name: package.version for package in one.packages} for one in self.report.environments]
        moved = [{change.name for change in self.changes(one) or ()} for one in self.report.environments]
        return [
            (name, [(packages.get(name, ""), name in changed) for packages, changed in zip(held, moved, strict=True)])
            for name in sorted(set().union(*moved))
        ]

    def versions(self, pins: str) -> list[str]:
        """The versions that tell these pins from others, at most three: "jax 0.9.2"."""
        environment = self.environment(pins)
        if environment is None or not environment.lock_hash:
            return ["not resolved"] if environment else []
        known = {package.name: package.version for package in environment.packages}
        told = [f"{name} {known[name]}" for name in _KNOWN_LIBRARIES if name in known]
        changed = [f"{change.name} {change.new}" for change in self.changes(environment) or () if change.new]
        return [one_line(one, 40) for one in (told or changed or [f"Python {environment.python}"])[:3]]

    def _told_once(self, status: Status) -> list[Finding]:
        """The verdicts of this status, and those on a question that several kernels share together."""
        return _together((one for one in self.verdicts if one.status is status), lambda _: (), self.asked_of)

    def _cells(self) -> Iterable[Cell]:
        yield from (verdict.cell for verdict in self.report.verdicts)
        yield from self.by_cell

    def _skip_reason(self, verdict: Verdict) -> str:
        observation = self.by_cell.get(verdict.cell)
        return (observation.reason if observation else None) or verdict.summary

    def _need(self, verdict: Verdict) -> tuple[object, ...]:
        cell, report = verdict.cell, self.report
        return (
            NEED.index(verdict.status),
            verdict.figure is not None,  # what broke comes before what moved
            _WEIGHT.index(cell.check),
            _place(report.kernels, cell.kernel),
            _place(report.pins, cell.pins),
            cell.implementation,
            cell.case,
            _place(report.targets, cell.target),
            _place(_SCENARIOS, cell.scenario),
            verdict.id,
        )


def told_once(verdicts: Iterable[Verdict]) -> list[Finding]:
    """Verdicts on one aspect of one implementation, together over cases, targets and scenarios, whatever their figures.

    What happens at different lines in different scenarios is told apart.
    """
    return _together(verdicts, lambda _: ())


def word_for_word(verdicts: Iterable[Verdict]) -> list[Finding]:
    """Only verdicts that say the same, with the same figure and in the same scenario, together."""
    return _together(verdicts, lambda verdict: (verdict.summary, verdict.figure, verdict.scenario))


def _together(
    verdicts: Iterable[Verdict],
    further: Callable[[Verdict], tuple[object, ...]],
    subject: Callable[[Cell], Cell] = lambda cell: cell,
) -> list[Finding]:
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        cell = subject(verdict.cell)
        line = verdict.where if verdict.scenario else None
        place = (cell.kernel, cell.implementation, cell.pins, cell.check, line, verdict.signal)
        groups.setdefault((*place, verdict.status, verdict.kind, verdict.suspect, *further(verdict)), []).append(
            verdict
        )
    return [Finding(first, tuple(also)) for first, *also in groups.values()]


def weight(check: Check) -> int:
    """The place of a check between what stops a service, 0, and what makes it dearer."""
    return _WEIGHT.index(check)


def totals(verdicts: Iterable[Verdict]) -> str:
    """How many of each: "4 improved, 83 pass, 4 skipped"."""
    return _counted(Counter(verdict.status for verdict in verdicts))


def square(verdicts: Sequence[Verdict]) -> Square:
    """The verdicts in one word: what needs a person most; skipped only where nothing else was said."""
    counts = dict.fromkeys(Status, 0) | Counter(verdict.status for verdict in verdicts)
    status = next((status for status in NEED if counts[status]), None)
    first = next((verdict for verdict in verdicts if verdict.status is status), None)
    return Square(status, counts, first)


def cell_owner(cell: Cell) -> str:
    """The kernel and implementation of a cell: "flash_attention/custom"."""
    return "/".join(filter(None, (cell.kernel or "all kernels", cell.implementation)))


def cell_detail(cell: Cell) -> str:
    """Case, target and scenario of a cell, where it has them: "prefill_2k, tpu:v5e"."""
    return ", ".join(filter(None, (cell.case, cell.target, cell.scenario)))


def fault_text(fault: Fault) -> str:
    """A fault in its own words, without the frames of a traceback that its message has in it."""
    lines = fault.message.splitlines()
    if any("Traceback (most recent call last):" in line for line in lines):
        lines = [line for line in lines if not line.startswith("  ")]
    return f"{fault.kind}: {' '.join(lines)}"


def command(cell: Cell) -> str:
    """The command that asks this cell's question again; safe to paste into a shell."""
    options = (
        ("--pins", cell.pins),
        ("--kernel", cell.kernel),
        ("--implementation", cell.implementation),
        ("--case", cell.case),
        ("--target", cell.target),
        ("--check", cell.check.value),
        ("--scenario", cell.scenario),
    )
    return shlex.join(["watchdog", "run", *(word for option, value in options if value for word in (option, value))])


def _counted(counts: Mapping[Status, int]) -> str:
    return ", ".join(f"{counts[status]:,} {status}" for status in NEED if counts.get(status))


def _topic(verdict: Verdict) -> str:
    cell = verdict.cell
    return f"{cell.check} of {one_line(cell_owner(cell), 80)} under {one_line(cell.pins, 60)}"


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else (-1 if not name else len(order))
