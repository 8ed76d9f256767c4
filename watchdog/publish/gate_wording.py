"""What every format of a gate says alike: order, sentences about findings, packages, blame and acceptances.

All text that leaves here is one line, without credentials and control characters; each format escapes it its own way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from watchdog.acceptances import Acceptance
from watchdog.gate.report import Blame, Change, Difference, GateReport, Judged, Standing
from watchdog.model import Figure, PackageChange, Status, Verdict
from watchdog.publish import sections, wording
from watchdog.redaction import plain, redact

LONGEST_SENTENCE = 400  # characters of a summary, a reason, a warning
LONGEST_NAME = 120
_ORDER = (Standing.BUMP, Standing.OPEN, Standing.STILL, Standing.BASE, Standing.ACCEPTED, Standing.FINE)
_TITLES = {
    Standing.BUMP: "Caused by the change",
    Standing.OPEN: "Undecided",
    Standing.STILL: "Still broken, with and without the change",
    Standing.BASE: "Broken under the base alone",
    Standing.ACCEPTED: "Accepted",
    Standing.FINE: "Fine",
}


@dataclass(frozen=True)
class Told:
    """A finding, with those that are the same in further cases, targets or scenarios."""

    judged: Judged
    also: tuple[Judged, ...]

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict

    @property
    def elsewhere(self) -> str:
        """As in: and in 3 other cells; often nothing."""
        return f"and in {wording.count(len(self.also), 'other cell')}" if self.also else ""


def title(standing: Standing) -> str:
    """The heading over verdicts of a standing."""
    return _TITLES[standing]


def said(text: str, limit: int = LONGEST_SENTENCE) -> str:
    """Text from outside, on one line of at most `limit` characters."""
    return wording.one_line(redact(plain(text[: limit * 8])), limit)


def log(text: str, *, lines: int = 60, characters: int = 6_000) -> str:
    """The end of a log, as lines."""
    return wording.tail(redact(plain(text)), lines=lines, characters=characters).strip("\n")


def reason(report: GateReport) -> str:
    """The headline, without the answer that some begin with."""
    return said(report.headline.removeprefix(f"{report.answer}: "))


def culprits(report: GateReport) -> str:
    """Who is to blame for what fails the gate: "jax 0.8.3 → 0.9.2"; nothing where nobody was found."""
    found = [package for blame in report.blames for package in blame.packages]
    return wording.listed([package_change(one) for one in dict.fromkeys(found)], 4)


def worst_first(judged: Iterable[Judged]) -> list[Judged]:
    """What needs a person most first: by standing, then what broke before what moved, then by how far it moved."""
    return sorted(judged, key=_need)


def told_once(report: GateReport, judged: Iterable[Judged]) -> list[Told]:
    """The verdicts, worst first; one aspect of one implementation over cases, targets and scenarios is told together."""
    groups: dict[tuple[object, ...], list[Judged]] = {}
    for one in worst_first(judged):
        verdict, cell = one.verdict, one.verdict.cell
        line = verdict.where if verdict.scenario else None
        subject = (cell.kernel, cell.implementation, cell.pins, cell.check, line, verdict.signal)
        fault = (one.standing, verdict.status, verdict.kind, verdict.suspect, report.blame_of(verdict), one.acceptance)
        groups.setdefault((*subject, *fault), []).append(one)
    return [Told(first, tuple(also)) for first, *also in groups.values()]


def topic(verdict: Verdict) -> str:
    """What was asked of whom: "timing of flash_attention/custom (prefill_2k, tpu:v5e)"."""
    detail = sections.cell_detail(verdict.cell)
    place = f"{verdict.cell.check} of {sections.cell_owner(verdict.cell)}"
    return said(f"{place} ({detail})" if detail else place, LONGEST_NAME)


def figure(verdict: Verdict) -> str:
    """The figure with its uncertainty; nothing where there is none."""
    return "" if verdict.figure is None else wording.figure(verdict.figure)


def smallest(verdict: Verdict) -> str:
    """The smallest change that would have been seen; nothing where that is not known."""
    return "" if verdict.detectable is None else wording.detectable(verdict.detectable)


def suspect(verdict: Verdict) -> str:
    """Whose fault it is, in a word; nothing where that is not known."""
    return "" if verdict.suspect is None else verdict.suspect.value


def blamed(report: GateReport, verdict: Verdict) -> str:
    """The packages that bring a verdict: "jax 0.8.3 → 0.9.2 and jaxlib 0.8.3 → 0.9.2"; nothing where none was found."""
    blame = report.blame_of(verdict)
    return "" if blame is None else blame_packages(blame)


def blame_packages(blame: Blame) -> str:
    """The packages of a blame, with a word where the set may be larger than it must be."""
    names = wording.listed([package_change(one) for one in blame.packages], 4)
    return names if blame.complete or not names else f"{names} (perhaps not all of them)"


def facts(report: GateReport, one: Judged) -> list[str]:
    """What stands beside a finding's sentence: "×1.08 ± 0.01", "suspect: library", "blame: jax 0.8.3 → 0.9.2"."""
    verdict = one.verdict
    named = {
        "": figure(verdict),
        "suspect: ": suspect(verdict),
        "blame: ": blamed(report, verdict),
        "at ": "" if verdict.where is None or verdict.where in verdict.summary else said(verdict.where, LONGEST_NAME),
    }
    return [name + fact for name, fact in named.items() if fact]


def package_change(change: PackageChange) -> str:
    """As in: jax 0.8.3 → 0.9.2."""
    name, old, new = (said(text, 80) for text in (change.name, change.old or "not there", change.new or "gone"))
    return f"{name} {old} → {new}"


def change(one: Change) -> str:
    """As in: jax 0.8.3 → 0.9.2 (direct)."""
    return f"{package_change(one.package)} ({one.depth})" if one.depth else package_change(one.package)


def shortened(difference: Difference, most: int) -> str:
    """The changed packages in one line: "jax 0.8.3 → 0.9.2 (direct), absl-py 2.3.1 → gone and 12 more"."""
    changes = [change(one) for one in difference.changes]
    return wording.listed(changes, most) if changes else "no package differs"


def sides(difference: Difference) -> tuple[str, str]:
    """Both sides as the user wrote them."""
    return said(difference.base.given, LONGEST_NAME), said(difference.head.given, LONGEST_NAME)


def acceptance(one: Acceptance) -> str:
    """By whom, when, until when and why; and why it holds no longer."""
    until = f" until {one.until.isoformat()}" if one.until else ""
    told = f"accepted by {said(one.by, 80)} on {one.on.isoformat()}{until}: {said(one.reason)}"
    return f"{told} (no longer: {said(one.expired)})" if one.expired else told


def counts(report: GateReport) -> str:
    """How many verdicts there are of each status: "1 regressed, 446 pass, 72 skipped"."""
    found = report.counts
    told = [f"{found[status]:,} {status}" for status in sections.NEED if found.get(status)]
    return ", ".join(told) or "nothing judged"


def took(report: GateReport) -> str:
    """How long the gate took."""
    return wording.duration(report.seconds)


def asides(report: GateReport) -> str:
    """What beside the answer needs a word, with numbers: "2 still broken, 1 accepted"; often nothing."""
    shown = (Standing.STILL, Standing.BASE, Standing.ACCEPTED, Standing.OPEN)
    numbers = {standing: len(told_once(report, report.of(standing))) for standing in shown}
    return ", ".join(f"{number:,} {standing}" for standing, number in numbers.items() if number)


def undecided_before(report: GateReport) -> tuple[Judged, ...]:
    """What could be decided neither with the change nor without it."""
    return tuple(one for one in report.of(Standing.FINE) if one.verdict.status is Status.INCONCLUSIVE)


def not_measured(report: GateReport) -> list[tuple[str, str]]:
    """What was not asked, and why: ("timing of flash_attention/custom", "no TPU here"), the most frequent reason first."""
    groups: dict[str, list[Verdict]] = {}
    for one in report.judged:
        if one.verdict.status is Status.SKIPPED:
            groups.setdefault(one.verdict.summary, []).append(one.verdict)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [(said(sections.Skipped(why, tuple(some)).what), said(why)) for why, some in ordered]


def seen_well(report: GateReport) -> list[Judged]:
    """What is fine and has a figure: improvements first, then the largest moves."""
    fine = [one for one in report.of(Standing.FINE) if one.verdict.figure is not None]
    measured = [one for one in fine if one.verdict.status in (Status.IMPROVED, Status.PASS)]
    return sorted(measured, key=lambda one: (one.verdict.status is not Status.IMPROVED, *_need(one)[2:]))


def _need(one: Judged) -> tuple[object, ...]:
    verdict = one.verdict
    return (
        _ORDER.index(one.standing),
        verdict.figure is not None,
        sections.weight(verdict.cell.check),
        -_moved(verdict.figure),
        verdict.id,
    )


def _moved(estimate: Figure | None) -> float:
    """How far a figure is from no change, whatever its unit: only comparable within one check, where it is used."""
    if estimate is None or not math.isfinite(estimate.value):
        return 0.0
    return (
        abs(math.log(estimate.value))
        if estimate.unit in ("x", "×", "ratio") and estimate.value > 0
        else abs(estimate.value)
    )
