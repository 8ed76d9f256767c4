"""What a gate says, as plain values: every output (terminal, Markdown, JUnit, SARIF, annotations, JSON) is made of these.

All text may come from outside: every format cleans and escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.acceptances import Acceptance
from watchdog.model import PackageChange, Status, Verdict


class Answer(StrEnum):
    """What the gate says of the whole change."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"  # a question was left open, or nothing at all could be measured


class Standing(StrEnum):
    """What a verdict means for the change."""

    BUMP = "caused by the change"
    STILL = "still broken"  # it is so under both sides
    BASE = "broken under the base"  # the base alone has it; the change repaired it, or could not be judged
    OPEN = "undecided"  # inconclusive, and not so under the base
    ACCEPTED = "accepted"  # somebody said that it is intended
    FINE = "fine"  # passed, improved or skipped


@dataclass(frozen=True)
class Change:
    """One package that differs between the two locks."""

    package: PackageChange
    direct: bool | None  # named by the user's own requirements; None where that is not known

    @property
    def depth(self) -> str:
        return {True: "direct", False: "transitive", None: ""}[self.direct]


@dataclass(frozen=True)
class Side:
    """One side of the comparison, resolved."""

    name: str  # the name of its pins in verdicts: "base", "head", or that of the pins in watchdog.toml
    given: str  # what the user wrote: "origin/main:uv.lock"
    lock_hash: str  # "sha256:…"; empty when it could not be resolved
    python: str  # full version


@dataclass(frozen=True)
class Difference:
    """What the change changes, at the head of every output."""

    base: Side
    head: Side
    changes: tuple[Change, ...]  # jax, jaxlib and libtpu first, then direct ones, then by name
    warnings: tuple[str, ...]  # one sentence each: jax, jaxlib and libtpu out of step, packages that are not pinned


@dataclass(frozen=True)
class Judged:
    """A verdict of the gate, and what it means for the change."""

    verdict: Verdict
    standing: Standing
    acceptance: Acceptance | None = None  # the one that holds, or else one that has expired
    before: Verdict | None = None  # the same cell's verdict under the base
    log_tail: str = ""


class Probed(StrEnum):
    """What one probe of a search said about the question."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "cannot be judged"  # another fault stands before it, skipped, or inconclusive
    UNRESOLVABLE = "cannot be installed"


@dataclass(frozen=True)
class Probe:
    """One step on the path of a search."""

    what: str  # "jax 0.9.2 with jaxlib 0.9.2", "jax 0.9.0"
    result: Probed
    said: str  # the verdict's sentence, or why there is none
    seconds: float
    remembered: bool = False  # taken from an earlier search


@dataclass(frozen=True)
class Blame:
    """The packages that bring a regression; `packages` is empty when the search did not come to an end."""

    verdicts: tuple[str, ...]  # ids of the verdicts that it explains
    packages: tuple[PackageChange, ...]  # the smallest set found that brings it
    said: str  # one sentence
    path: tuple[Probe, ...] = ()
    complete: bool = True  # False: the budget ended, or some combinations could not be judged, so the set may be larger


@dataclass(frozen=True)
class Bisected:
    """Between which releases of a package a kernel's check broke, in the direction of the search."""

    kernel: str
    check: str
    package: str
    good: str  # the ends, as they were asked for
    bad: str
    last_good: str | None  # None: the good end is not good
    first_bad: str | None  # None: the bad end is not bad
    between: tuple[str, ...]  # releases that could not be judged, any of which may be the first bad one
    certain: bool  # nothing lies between, and both sides said the same when they were asked afresh
    said: str  # one sentence
    path: tuple[Probe, ...]
    moved: tuple[PackageChange, ...] = ()  # what else differs between the two sides of the edge
    notes: tuple[str, ...] = ()  # one sentence each: what was released to move along, what was left out

    @property
    def exit_code(self) -> int:
        """0 when the edge is known, else 3: a decision was asked for and could not be reached."""
        return 0 if self.certain else 3


@dataclass(frozen=True)
class GateReport:
    """The whole answer."""

    run_id: str
    started: str  # UTC, ISO 8601
    seconds: float
    answer: Answer
    exit_code: int
    headline: str  # one sentence
    difference: Difference
    judged: tuple[Judged, ...]  # the head's verdicts, and the base's where Standing.BASE
    blames: tuple[Blame, ...] = ()
    notes: tuple[str, ...] = ()  # what was left out and why: budget ended, checks not asked
    strict: bool = False  # what is still broken fails the gate, too

    def of(self, *standings: Standing) -> tuple[Judged, ...]:
        """The verdicts of these standings, in their order."""
        return tuple(one for one in self.judged if one.standing in standings)

    @property
    def failing(self) -> tuple[Judged, ...]:
        """The verdicts for which the gate failed."""
        failing = [Standing.BUMP, *([Standing.STILL] if self.strict else [])]
        return self.of(*failing) or (self.of(Standing.STILL) if self.answer is Answer.FAILED else ())

    @property
    def counts(self) -> dict[Status, int]:
        """How many of the verdicts there are of each status."""
        counts = dict.fromkeys(Status, 0)
        for one in self.judged:
            counts[one.verdict.status] += 1
        return {status: count for status, count in counts.items() if count}

    def blame_of(self, verdict: Verdict) -> Blame | None:
        """The blame that explains a verdict, if one does."""
        return next((blame for blame in self.blames if verdict.id in blame.verdicts), None)
