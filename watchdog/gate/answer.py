"""What the verdicts of both sides mean for the change: pure functions from verdicts to standings, answer and exit code."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from watchdog import acceptances
from watchdog.acceptances import Acceptance
from watchdog.gate.report import Answer, Judged, Standing
from watchdog.model import Cell, Observation, Status, Verdict
from watchdog.publish.wording import count, listed

EXIT_CODES = {Answer.PASSED: 0, Answer.FAILED: 1, Answer.UNDECIDED: 3}
_WORSE = 1.05  # a finding that was there and grew by more than this is a new one


class Strictness(Enum):
    """Whether what was broken before fails the gate."""

    THE_CHANGE_ALONE = auto()
    STRICT = auto()


def judged(
    verdicts: Sequence[Verdict],
    observations: Mapping[Cell, Observation],
    accepted: Sequence[Acceptance],
    *,
    base: str,
    head: str,
    today: datetime.date,
) -> tuple[Judged, ...]:
    """Each verdict of the head with its standing, and those of the base that the head does not share.

    Of the base's verdicts only regressions are told apart; what passes there is told by the comparison.
    """
    before = {_key(verdict): verdict for verdict in verdicts if verdict.cell.pins == base}
    after = [verdict for verdict in verdicts if verdict.cell.pins == head]
    told = [_judged_head(verdict, _before(verdict, before, base), accepted, today) for verdict in after]
    shared = {one.before.id for one in told if one.verdict.status is Status.REGRESSED and one.before}
    alone = [
        Judged(verdict, Standing.BASE)
        for verdict in before.values()
        if verdict.status is Status.REGRESSED and verdict.id not in shared
    ]
    return tuple(replace(one, log_tail=_log(one.verdict, observations)) for one in (*told, *alone))


def answer(told: Sequence[Judged], strictness: Strictness) -> Answer:
    """What the gate says. Nothing measured is never success, and what was left open is no pass."""
    standings = {one.standing for one in told}
    if Standing.BUMP in standings or (strictness is Strictness.STRICT and Standing.STILL in standings):
        return Answer.FAILED
    if Standing.OPEN in standings or not any(_measured(one) for one in told):
        return Answer.UNDECIDED
    return Answer.PASSED


def headline(told: Sequence[Judged], said: Answer, *, base: str, head: str) -> str:
    """The answer in one sentence."""
    of = {standing: [one.verdict for one in told if one.standing is standing] for standing in Standing}
    if said is Answer.FAILED:
        bump, still = of[Standing.BUMP], of[Standing.STILL]
        if not bump:
            return f"{count(len(still), 'finding')} of {base} is still there under {head} (--strict)"
        kernels = sorted({one.cell.kernel or "all kernels" for one in bump})
        kinds = list(dict.fromkeys(one.kind or one.cell.check.value for one in bump))
        return f"the change causes {count(len(bump), 'regression')} ({listed(kinds)}) in {listed(kernels)}"
    if said is Answer.PASSED:
        measured = sum(_measured(one) for one in told)
        return f"the change breaks nothing: {count(measured, 'question')} answered"
    if of[Standing.OPEN]:
        return f"undecided: {count(len(of[Standing.OPEN]), 'question')} could not be answered either way"
    if of[Standing.BASE]:
        return f"undecided: {base} is itself broken, and nothing could be measured under {head}"
    return f"undecided: nothing could be measured under {head}, so nothing is known of the change"


def _judged_head(
    verdict: Verdict, before: Verdict | None, accepted: Sequence[Acceptance], today: datetime.date
) -> Judged:
    acceptance = acceptances.about(accepted, verdict, today)
    if verdict.status is Status.REGRESSED:
        if acceptance is not None and acceptance.expired is None:
            return Judged(verdict, Standing.ACCEPTED, acceptance, before)
        was_broken = before is not None and before.status is Status.REGRESSED and not _worse(verdict, before)
        return Judged(verdict, Standing.STILL if was_broken else Standing.BUMP, acceptance, before)
    if verdict.status is Status.INCONCLUSIVE:
        was_open = before is not None and before.status in (Status.INCONCLUSIVE, Status.REGRESSED)
        return Judged(verdict, Standing.FINE if was_open else Standing.OPEN, acceptance, before)
    return Judged(verdict, Standing.FINE, acceptance, before)


def _worse(verdict: Verdict, before: Verdict) -> bool:
    """Whether what was broken before is so by more, beyond both figures' doubt: a leak that grew is a new finding."""
    new, old = verdict.figure, before.figure
    if new is None or old is None or (new.unit, verdict.kind) != (old.unit, before.kind):
        return False
    return new.low > _WORSE * old.high > 0


def _before(verdict: Verdict, before: Mapping[tuple[Cell, str | None], Verdict], base: str) -> Verdict | None:
    """The base's verdict on the same question: on the same signal, or on the whole cell, as a fault has no signal."""
    cell = replace(verdict.cell, pins=base)
    found = before.get((cell, verdict.signal)) or before.get((cell, None))
    if found is not None or verdict.signal is not None:
        return found
    return next((one for (of, _), one in before.items() if of == cell and one.status is Status.REGRESSED), None)


def _key(verdict: Verdict) -> tuple[Cell, str | None]:
    return verdict.cell, verdict.signal


def _measured(one: Judged) -> bool:
    """Whether a verdict tells something of the head beyond that it could be installed."""
    of_head = one.standing is not Standing.BASE
    return of_head and one.verdict.status is not Status.SKIPPED and bool(one.verdict.cell.implementation)


def _log(verdict: Verdict, observations: Mapping[Cell, Observation]) -> str:
    seen = observations.get(verdict.cell)
    return seen.log_tail if seen is not None and verdict.status is Status.REGRESSED else ""
