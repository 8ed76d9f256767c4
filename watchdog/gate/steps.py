"""A gate, from two sides to an answer: a list of steps that reads on one screen."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from watchdog import acceptances, asked, machine, plan, run
from watchdog.config import Config
from watchdog.environments import EnvironmentCache
from watchdog.errors import IncompleteError, UsageError
from watchdog.gate import answer, out_of_step
from watchdog.gate.answer import EXIT_CODES, Strictness
from watchdog.gate.blame import Tell
from watchdog.gate.deadline import Deadline
from watchdog.gate.difference import difference, same_locks
from watchdog.gate.document import document
from watchdog.gate.probes import Once
from watchdog.gate.relevance import unrelated
from watchdog.gate.report import Answer, Blame, Difference, GateReport, Judged, Standing
from watchdog.gate.searching import Searcher
from watchdog.gate.sides import GivenSide, compared, read_sides
from watchdog.gate.timing import time_both_sides
from watchdog.installation import Installed, Installer
from watchdog.model import Check, Verdict
from watchdog.pins import Lock, Unresolvable
from watchdog.plan import Selection
from watchdog.publish.wording import duration, listed
from watchdog.run import ShowProgress, Started
from watchdog.runner import Runner
from watchdog.store import reader, values, writer
from watchdog.store.engine import Store
from watchdog.uv import Uv


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
    installer = Installer(both, store, EnvironmentCache(both.environments_directory, uv), uv, refresh=False)
    requests = plan.environment_requests(both, replace(selection, pins=()))
    with ThreadPoolExecutor(2) as pool:
        locks = list(zip(requests, pool.map(installer.lock, requests), strict=True))
    for one, lock in locks:
        _refuse_unread(one.pins, lock)
    base_locks, head_locks = (
        tuple(lock for one, lock in locks if one.pins == side.name and isinstance(lock, Lock)) for side in (base, head)
    )
    own = [name for kernel in both.kernel for name in both.absolute_requirements(kernel)]
    warnings = [
        *out_of_step.warnings(base.given, base_locks, uv),
        *out_of_step.warnings(head.given, head_locks, uv),
    ]
    said = difference(base, head, base_locks, head_locks, own, warnings=warnings)
    return Compared(both, base, head, base_locks, head_locks, said, installer)


def nothing_to_ask(both: Compared) -> str | None:
    """Why a gate need not be passed at all: nothing that the kernels depend on changed. None when it must."""
    if same_locks(both.base_locks, both.head_locks):
        return f"{both.base.given} and {both.head.given} are the same lock: nothing changed"
    return unrelated(both.config, both.difference, (*both.base_locks, *both.head_locks), both.installer.uv)


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


@dataclass(frozen=True)
class Gate:
    """A gate at work: what it compares, and whom it tells."""

    store: Store
    both: Compared
    request: Request
    started: Started
    show: ShowProgress
    tell: Tell

    def passed(self) -> GateReport:
        """Build both environments, ask every question of both, time them, judge, find the package, keep the answer.

        Whatever ends it early, what was observed is kept, and `resumed` goes on from there.
        """
        began = time.monotonic()
        with run.ending(self.store, self.started.id):
            installed, runner = self._ask()
            deadline = self._deadline()
            rule = time_both_sides(
                self.store,
                self.started,
                runner,
                base=self.both.base.name,
                head=self.both.head.name,
                deadline=deadline,
                show=self.show,
            )
            verdicts = run.judge(self.store, self.started, installed, rule=rule)
            told = self._told(verdicts)
            blames = self._search(told, installed, deadline)
            report = self._report(told, blames, time.monotonic() - began, self._notes(told, deadline))
            self._keep(report)
        return report

    def _ask(self) -> tuple[list[Installed], Runner]:
        """All questions but timing."""
        cells = [cell for cell in run.unseen(self.started) if cell.check is not Check.TIMING]
        with self.show(len(cells)) as progress:
            installed = run.install(self.store, self.started, self.both.installer, progress)
            runner = run.asking(self.store, self.started, installed, self.both.installer.cache, progress)
            runner.ask([cell for cell in cells if cell.check is not Check.INSTALL])
        return installed, runner

    def _deadline(self) -> Deadline:
        chosen = self.request.budget
        return Deadline(self.both.config.gate.budget if chosen is None else chosen)

    def _told(self, verdicts: Sequence[Verdict]) -> tuple[Judged, ...]:
        return answer.judged(
            verdicts,
            {seen.cell: seen for seen in reader.observations(self.store, self.started.id)},
            acceptances.load(acceptances.beside(self.both.config.path)),
            base=self.both.base.name,
            head=self.both.head.name,
            today=machine.today(),
        )

    def _search(self, told: Sequence[Judged], installed: Sequence[Installed], deadline: Deadline) -> tuple[Blame, ...]:
        """The packages that bring what the change caused."""
        if not self.request.search:
            return ()
        caused = [one.verdict for one in told if one.standing is Standing.BUMP]
        cache = self.both.installer.cache
        searcher = Searcher(
            store=self.store,
            config=self.both.config,
            base=self.both.base,
            head=self.both.head,
            seen={seen.cell: seen for seen in reader.observations(self.store, self.started.id)},
            evaluate=Once(cache, self.both.installer.uv, deadline),
            deadline=deadline,
            tell=self.tell,
            uv=self.both.installer.uv,
        )
        return searcher.blames(caused, installed)

    def _notes(self, told: Sequence[Judged], deadline: Deadline) -> tuple[str, ...]:
        """What was left out, and why."""
        notes = _narrowed(self.request.selection)
        if deadline.is_over:
            notes.append(
                f"the budget of {duration(deadline.seconds)} ended before timing and the search for the package did; "
                "--budget allows more"
            )
        if not self.request.search and any(one.standing is Standing.BUMP for one in told):
            notes.append("which package did it was not searched for (--no-blame)")
        return tuple(notes)

    def _report(
        self, told: tuple[Judged, ...], blames: tuple[Blame, ...], seconds: float, notes: tuple[str, ...]
    ) -> GateReport:
        said = answer.answer(told, self.request.strictness)
        return GateReport(
            run_id=self.started.id,
            started=reader.run(self.store, self.started.id).started,
            seconds=seconds,
            answer=said,
            exit_code=EXIT_CODES[said],
            headline=answer.headline(told, said, base=self.both.base.given, head=self.both.head.given),
            difference=self.both.difference,
            judged=told,
            blames=blames,
            notes=notes,
            strict=self.request.strictness is Strictness.STRICT,
        )

    def _keep(self, report: GateReport) -> None:
        base, head = self.both.base.given, self.both.head.given
        kept = values.Gate(report.run_id, base, head, report.answer.value, document(report))
        writer.record_gate(self.store, kept)
        writer.finish_run(self.store, report.run_id, state=values.RunState.FINISHED, exit_code=report.exit_code)


def _narrowed(selection: Selection) -> list[str]:
    """That parts of the watch were not asked for."""
    named = {
        "kernel": selection.kernels,
        "case": selection.cases,
        "implementation": selection.implementations,
        "target": selection.targets,
        "check": selection.checks,
        "scenario": selection.scenarios,
    }
    said = [f"--{option} {', '.join(names)}" for option, names in named.items() if names]
    return [f"asked for {listed(said, len(said))} alone; the rest of the watch was left out"] if said else []


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


def _refuse_unread(pins: str, lock: Lock | Unresolvable) -> None:
    """A file that cannot be read and an index that cannot be reached say nothing about the change."""
    if isinstance(lock, Unresolvable) and lock.reason == "unreadable":
        raise UsageError(lock.explanation)
    if isinstance(lock, Unresolvable) and lock.reason in ("index", "time limit"):
        first = lock.explanation.strip().splitlines()[0]
        msg = f"{pins} could not be resolved, and that is not the change's fault: {first}"
        raise IncompleteError(msg)
