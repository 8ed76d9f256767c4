"""A gate, from two sides to an answer: a list of steps that reads on one screen."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from watchdog import acceptances, asked, plan, run
from watchdog.config import Config
from watchdog.environments import EnvironmentCache
from watchdog.errors import IncompleteError, UsageError
from watchdog.gate import answer, sampling
from watchdog.gate.answer import EXIT_CODES, Strictness
from watchdog.gate.deadline import Deadline
from watchdog.gate.difference import difference, same_locks
from watchdog.gate.document import document
from watchdog.gate.relevance import unrelated
from watchdog.gate.report import Answer, Blame, Difference, GateReport, Judged, Probe, Standing
from watchdog.gate.sampling import Pair, Sampling
from watchdog.gate.sides import GivenSide, check_readable, compared, read_sides
from watchdog.installation import Installed, Installer
from watchdog.judges.experiment import Rule
from watchdog.model import Cell, Check, Observation, Outcome, Sample, Verdict
from watchdog.pins import Lock, Unresolvable
from watchdog.plan import Selection
from watchdog.run import ShowProgress, Started
from watchdog.runner import Runner
from watchdog.store import reader, writer
from watchdog.store.engine import Store
from watchdog.store.values import Gate, RunState
from watchdog.uv import Uv

TellProbe = Callable[[Probe, float], object]  # called with each probe of a search and the seconds that are left


@dataclass(frozen=True)
class Request:
    """What a gate is asked."""

    base: str
    head: str
    selection: Selection
    python: str | None
    budget: float | None  # seconds; None: what the configuration says
    strictness: Strictness
    search: bool  # whether to look for the package


@dataclass(frozen=True)
class Compared:
    """Both sides, resolved."""

    config: Config  # with the pins of the two sides alone
    base: GivenSide
    head: GivenSide
    base_locks: tuple[Lock, ...]
    head_locks: tuple[Lock, ...]
    difference: Difference
    installer: Installer


def resolve(store: Store, config: Config, request: Request) -> Compared:
    """Read both sides and say what differs. Nothing is installed.

    Raises UsageError when a side cannot be read, IncompleteError when the index cannot be reached.
    """
    base, head = read_sides(config, request.base, request.head, python=request.python)
    return resolved(store, compared(config, base, head), base, head, request.selection)


def resolved(store: Store, both: Config, base: GivenSide, head: GivenSide, selection: Selection) -> Compared:
    """Both sides of a configuration that has just these pins. Raises as `resolve` does."""
    uv = Uv.found()
    for side in (base, head):
        check_readable(side, uv)
    installer = Installer(both, store, EnvironmentCache(both.environments_directory, uv), uv, refresh=False)
    requests = plan.environment_requests(both, replace(selection, pins=()))
    with ThreadPoolExecutor(2) as pool:
        locks = list(zip(requests, pool.map(installer.lock, requests), strict=True))
    for one, lock in locks:
        _refuse_unreachable(one.pins, lock)
    base_locks, head_locks = (
        tuple(lock for one, lock in locks if one.pins == side.name and isinstance(lock, Lock)) for side in (base, head)
    )
    own = [name for kernel in both.kernel for name in both.absolute_requirements(kernel)]
    said = difference(base, head, base_locks, head_locks, own, uv)
    return Compared(both, base, head, base_locks, head_locks, said, installer)


def nothing_to_ask(both: Compared) -> str | None:
    """Why a gate need not be passed at all: nothing that the kernels depend on changed. None when it must."""
    if same_locks(both.base_locks, both.head_locks):
        return f"{both.base.given} and {both.head.given} are the same lock: nothing changed"
    return unrelated(both.config, both.difference, both.base_locks, both.head_locks, both.installer.uv)


def refuse_equal(both: Compared) -> None:
    """Raises UsageError when both sides are the same lock."""
    if same_locks(both.base_locks, both.head_locks):
        msg = (
            f"{both.base.given} and {both.head.given} are the same lock: there is nothing to compare; "
            "with --only-changed that ends with 0"
        )
        raise UsageError(msg)


def begin(store: Store, both: Compared, request: Request) -> Started:
    """Write down what a new gate will ask. Raises UsageError when that is nothing."""
    purpose = {"gate": _stored(both, request)}
    return run.begin(store, both.config, replace(request.selection, pins=()), purpose=purpose)


def gate(
    store: Store, both: Compared, request: Request, started: Started, show: ShowProgress, tell: TellProbe
) -> GateReport:
    """Build both environments, ask every question of both, time them, judge, find the package, and keep the answer.

    Whatever ends it early, what was observed is kept, and `resumed` goes on from there.
    """
    began = time.monotonic()
    cache = both.installer.cache
    with run.ending(store, started.id):
        timed = [cell for cell in started.cells if cell.check is Check.TIMING]
        others = [cell for cell in run.unseen(started) if cell.check is not Check.TIMING]
        with show(len(others)) as progress:
            installed = run.install(store, started, both.installer, progress)
            runner = run.asking(store, started, installed, cache, progress)
            runner.ask([cell for cell in others if cell.check is not Check.INSTALL])
        deadline = Deadline(both.config.gate.budget if request.budget is None else request.budget)
        rule = time_them(store, started, runner, timed, both, deadline, show)
        verdicts = run.judge(store, started, installed, rule=rule)
        told = _told(store, both, started, verdicts)
        blames = _search(store, both, request, told, deadline, tell) if request.search else ()
        report = _report(store, both, request, started, told, blames, time.monotonic() - began)
        _keep(store, both, report)
    return report


def time_them(
    store: Store,
    started: Started,
    runner: Runner,
    timed: Sequence[Cell],
    both: Compared,
    deadline: Deadline,
    show: ShowProgress,
) -> Rule:
    """Sample the time of both sides; returns the rule that the pairs were compared by."""
    same = plan.same_questions(both.config, timed)
    asked_pairs = sampling.pairs(list(same), both.base.name, both.head.name)
    options = both.config.gate
    rule = Rule(options.error_rate, max(1, len(asked_pairs)), options.relevant, options.processes)
    subjects = len({pair.subject for pair in asked_pairs})
    with show(2 * rule.processes * subjects) as progress:
        loop = Sampling(
            take=lambda cells: _one_process(runner, cells, same),
            keep=lambda sample: _keep_sample(store, started.id, sample, same),
            rule=rule,
            deadline=deadline,
            progress=progress,
            samples=[sample for sample in reader.samples(store, started.id) if sample.cell in same],
        )
        loop.run(_worth_timing(runner, asked_pairs))
    runner.ask([cell for cell in timed if cell not in runner.seen])
    return rule


class _Silent:
    """No progress: the loop tells it."""

    def started(self, label: str) -> None: ...
    def finished(self, label: str, outcome: Outcome, seconds: float) -> None: ...


def _worth_timing(runner: Runner, asked_pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of which neither side is kept from an answer by an earlier question."""
    seen = runner.seen
    return [pair for pair in asked_pairs if all(plan.blocked(cell, seen) is None for cell in (pair.base, pair.head))]


def _one_process(runner: Runner, cells: Sequence[Cell], same: Mapping[Cell, Sequence[Cell]]) -> list[Observation]:
    """Ask these cells in a fresh process. The first answer of a cell is its observation in the run."""
    answers: list[Observation] = []
    before = {cell: seen for cell, seen in runner.seen.items() if cell.check is not Check.TIMING}
    replace(runner, keep=answers.append, progress=_Silent(), seen=before).ask(cells)
    keeper = replace(runner, progress=_Silent(), same=same, seen=runner.seen)
    for answer in answers:
        if answer.cell not in runner.seen:
            keeper.record(answer)
    return answers


def _keep_sample(store: Store, run_id: str, sample: Sample, same: Mapping[Cell, Sequence[Cell]]) -> None:
    for cell in (sample.cell, *same.get(sample.cell, ())):
        writer.record_sample(store, run_id, replace(sample, cell=cell))


def _told(store: Store, both: Compared, started: Started, verdicts: Sequence[Verdict]) -> tuple[Judged, ...]:
    return answer.judged(
        verdicts,
        {seen.cell: seen for seen in reader.observations(store, started.id)},
        acceptances.load(acceptances.beside(both.config.path)),
        base=both.base.name,
        head=both.head.name,
        today=datetime.datetime.now(tz=datetime.UTC).date(),
    )


def _report(
    store: Store,
    both: Compared,
    request: Request,
    started: Started,
    told: tuple[Judged, ...],
    blames: tuple[Blame, ...],
    seconds: float,
) -> GateReport:
    said = answer.answer(told, request.strictness)
    return GateReport(
        run_id=started.id,
        started=reader.run(store, started.id).started,
        seconds=seconds,
        answer=said,
        exit_code=EXIT_CODES[said],
        headline=answer.headline(told, said, base=both.base.given, head=both.head.given),
        difference=both.difference,
        judged=told,
        blames=blames,
        notes=(),
    )


def _keep(store: Store, both: Compared, report: GateReport) -> None:
    kept = Gate(report.run_id, both.base.given, both.head.given, report.answer.value, document(report))
    writer.record_gate(store, kept)
    writer.finish_run(store, report.run_id, state=RunState.FINISHED, exit_code=report.exit_code)


def unneeded(both: Compared, sentence: str) -> GateReport:
    """The answer of a gate that need not be passed: nothing was asked, and no run is kept."""
    now = datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
    return GateReport("", now, 0.0, Answer.PASSED, 0, sentence, both.difference, ())


def resumed(store: Store) -> tuple[Compared, Request, Started]:
    """The latest gate that was stopped or killed. Raises UsageError when there is none, or a side has changed since."""
    unfinished = next((one for one in reader.unfinished_runs(store) if one.is_gate), None)
    if unfinished is None:
        msg = "there is no unfinished gate to resume; `watchdog gate BASE HEAD` starts a new one"
        raise UsageError(msg)
    config, selection = asked.configuration(unfinished)
    kept = unfinished.config["gate"]
    base, head = (GivenSide(name, given, config.pins[name]) for name, given in (kept["base"], kept["head"]))
    request = Request(
        base.given, head.given, selection, None, kept["budget"], Strictness[kept["strictness"]], kept["search"]
    )
    both = resolved(store, config, base, head, request.selection)
    if _hashes(both) != kept["locks"]:
        msg = f"{base.given} or {head.given} has changed since gate {unfinished.id} began; start a new one"
        raise UsageError(msg)
    return both, request, run.taken_up(store, unfinished)


def _stored(both: Compared, request: Request) -> dict[str, Any]:
    """What a gate that was stopped needs to go on, as JSON values."""
    return {
        "base": [both.base.name, both.base.given],
        "head": [both.head.name, both.head.given],
        "budget": request.budget,
        "strictness": request.strictness.name,
        "search": request.search,
        "locks": _hashes(both),
    }


def _hashes(both: Compared) -> list[str]:
    return [lock.hash for lock in (*both.base_locks, *both.head_locks)]


def _refuse_unreachable(pins: str, lock: Lock | Unresolvable) -> None:
    """An index that cannot be reached says nothing about the change."""
    if isinstance(lock, Unresolvable) and lock.reason in ("index", "time limit"):
        first = lock.explanation.strip().splitlines()[0]
        msg = f"{pins} could not be resolved, and that is not the change's fault: {first}"
        raise IncompleteError(msg)
