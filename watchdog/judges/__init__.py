"""The judges: pure functions from observations to verdicts. `docs/judging.md` gives each rule with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from watchdog.judges import compile as compiling
from watchdog.judges import faults, imports, install, lower, memory, numerics, pins, races, schedule, timing, vmem
from watchdog.judges.experiment import Rule
from watchdog.judges.suspects import blamed, suspect
from watchdog.judges.view import KernelFacts, View, build_views
from watchdog.judges.wording import one_line, sentence
from watchdog.model import Cell, Check, Environment, Observation, Outcome, Status, Verdict

__all__ = ["KernelFacts", "exit_code", "judge_run", "worst"]

_JUDGES: dict[Check, Callable[[View], list[Verdict]]] = {
    Check.INSTALL: install.judge,
    Check.IMPORT: imports.judge,
    Check.LOWER: lower.judge,
    Check.COMPILE: compiling.judge,
    Check.SCHEDULE: lambda view: [*schedule.judge(view), *vmem.judge(view)],
    Check.NUMERICS: numerics.judge,
    Check.GRADIENTS: numerics.judge,
    Check.RACES: races.judge,
    Check.MEMORY: memory.judge,
    Check.TIMING: timing.judge,
}
_SEVERITY = list(Status)  # the model lists them from what needs a person most to what needs one least


def judge_run(
    observations: Sequence[Observation],
    environments: Sequence[Environment],
    baseline: str | None,
    kernels: Mapping[str, KernelFacts],
    *,
    samples: Mapping[Cell, Sequence[float]] = MappingProxyType({}),
    rule: Rule | None = None,
) -> tuple[Verdict, ...]:
    """The verdicts on every observed cell, at least one each, in the cells' order.

    `baseline` names the pins that others are judged against; None judges absolute faults only. A kernel that
    `kernels` does not name is judged without facts of its own. The order of the observations does not matter.
    `samples` are the times of a gate's processes by cell (seconds, block by block), compared by `rule`.
    """
    views = build_views(observations, environments, baseline, kernels, samples=samples, rule=rule)
    judged = [pins.Judged(view, verdict) for view in views for verdict in _judge(view)]
    return tuple(pins.told_once(judged))


def worst(verdicts: Iterable[Verdict]) -> Status | None:
    """The status that needs a person most; None when there are no verdicts."""
    return min((verdict.status for verdict in verdicts), key=_SEVERITY.index, default=None)


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """What a run ends with: 1 when something regressed, 3 when nothing at all was judged, else 0.

    An inconclusive cell alone does not fail a run, for no decision was asked for.
    """
    statuses = {verdict.status for verdict in verdicts}
    if Status.REGRESSED in statuses:
        return 1
    return 0 if statuses - {Status.SKIPPED} else 3


def _judge(view: View) -> list[Verdict]:
    if _lost_its_gradient(view):
        return [_without_gradient(view)]
    if view.candidate.outcome is Outcome.SKIPPED:
        return [view.verdict(Status.SKIPPED, one_line(view.candidate.reason or "", 300) or "skipped without a reason")]
    if view.candidate.outcome.is_fault:
        return [faults.judge(view)]
    verdicts = _JUDGES[view.cell.check](view)
    return [_repaired(view, verdict) for verdict in verdicts] if _was_broken(view) else verdicts


def _lost_its_gradient(view: View) -> bool:
    """Whether it could be differentiated under the baseline and cannot now; one that never could is skipped."""
    reason = view.candidate.reason or ""
    had_one = view.baseline is not None and view.baseline.outcome is Outcome.OBSERVED
    return view.cell.check is Check.GRADIENTS and had_one and reason.startswith("has no gradient")


def _without_gradient(view: View) -> Verdict:
    who = suspect(view, before=False, native=None)
    parts = [view.candidate.reason, f"{view.against} had one", blamed(view, who, before=False)]
    return view.verdict(Status.REGRESSED, sentence(parts), kind="lost gradient", suspect=who)


def _was_broken(view: View) -> bool:
    """Whether the baseline failed where the candidate works. A schedule that its dump hid was not broken."""
    failed = view.baseline is not None and view.baseline.outcome.is_fault
    return failed and not (view.cell.check is Check.SCHEDULE and view.baseline_compiles)


def _repaired(view: View, verdict: Verdict) -> Verdict:
    """A cell that works now and failed under the baseline improved, unless its own figures say otherwise."""
    if verdict.status not in (Status.PASS, Status.SKIPPED) or view.baseline is None:
        return verdict
    now = f"{faults.fine_text(view.cell.check)} under {view.cell.pins}"
    then = f"under {view.against} it failed: {faults.read(view.baseline, view.baseline_environment).what}"
    return replace(verdict, status=Status.IMPROVED, kind="repaired", summary=sentence([now, then]))
