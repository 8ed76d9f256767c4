"""Pins that do not fit together are told once, of the pins, and not once for each kernel that they break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from watchdog.judges import faults
from watchdog.judges.view import View
from watchdog.judges.wording import one_line, sentence
from watchdog.model import Check, Outcome, Status, Suspect, Verdict

KIND = "pins mismatch"


@dataclass(frozen=True)
class Judged:
    """A verdict, and what it was reached from."""

    view: View
    verdict: Verdict

    @property
    def environment(self) -> tuple[str, str]:
        """What the pins were installed as: kernels with requirements of their own have another environment."""
        return self.view.cell.pins, self.view.environment.lock_hash if self.view.environment else ""

    @property
    def is_mismatch(self) -> bool:
        return self.verdict.kind == KIND and self.verdict.status is Status.REGRESSED


def told_once(judged: Sequence[Judged]) -> Iterator[Verdict]:
    """The verdicts, with those on pins that do not fit together drawn into one for each environment.

    It stands with the install check, or with the first cell that shows it where install was not asked; the others
    become `skipped`, for nothing is known of the kernels.
    """
    tellers = {environment: _teller(found, judged) for environment, found in _mismatches(judged).items()}
    for one in judged:
        teller = tellers.get(one.environment)
        if teller is not None and one is teller.place:
            yield _finding(teller)
        elif teller is not None and one.is_mismatch:
            yield _left_out(one, teller)
        else:
            yield one.verdict


@dataclass(frozen=True)
class _Teller:
    """Where a mismatch is told, and the cells that show it."""

    place: Judged
    found: Sequence[Judged]

    @property
    def what(self) -> str:
        first = self.found[0].view
        return faults.read(first.candidate, first.environment).what


def _mismatches(judged: Sequence[Judged]) -> dict[tuple[str, str], list[Judged]]:
    found: dict[tuple[str, str], list[Judged]] = {}
    for one in judged:
        if one.is_mismatch and one.view.cell.check is not Check.INSTALL:
            found.setdefault(one.environment, []).append(one)
    return found


def _teller(found: list[Judged], judged: Sequence[Judged]) -> _Teller:
    installs = (
        one
        for one in judged
        if one.view.cell.check is Check.INSTALL
        and one.view.candidate.outcome is Outcome.OBSERVED
        and one.environment == found[0].environment
    )
    return _Teller(next(installs, found[0]), found)


def _finding(teller: _Teller) -> Verdict:
    view = teller.place.view
    kernels = sorted({one.view.cell.kernel for one in teller.found})
    targets = sorted({one.view.cell.target for one in teller.found if one.view.cell.target})
    aimed = f" for {', '.join(targets)}" if targets else ""
    where = f"so nothing is known of {', '.join(kernels)}{aimed}"
    fits = f"{view.against} does not have this" if view.against and not _has_it(teller) else None
    summary = sentence(
        [f"the pins {one_line(view.cell.pins, 60)} do not fit together: {teller.what}", fits, one_line(where, 200)]
    )
    return view.verdict(Status.REGRESSED, summary, kind=KIND, suspect=Suspect.PINS)


def _has_it(teller: _Teller) -> bool:
    before = teller.found[0].view.baseline
    return before is not None and before.outcome.is_fault and faults.kind_of(before) == KIND


def _left_out(one: Judged, teller: _Teller) -> Verdict:
    place = "the install check" if teller.place.view.cell.check is Check.INSTALL else "another cell"
    summary = f"the pins do not fit together, which {place} tells: {teller.what}"
    return replace(
        one.verdict, status=Status.SKIPPED, summary=summary, kind=None, suspect=None, where=None, figure=None
    )
