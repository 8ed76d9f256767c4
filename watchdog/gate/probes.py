"""One question asked of one lock: is what regressed there as well?

A probe builds the lock's environment, asks the few cells that the question needs, and judges them against the base,
whose observations are at hand. What it learned is remembered under everything that the answer depends on.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from watchdog import __version__, machine, plan, projects
from watchdog import run as running
from watchdog.config import Config
from watchdog.config_values import NATIVE
from watchdog.environments import EnvironmentCache
from watchdog.gate.deadline import Deadline
from watchdog.gate.report import Probed
from watchdog.gate.timing import time_both_sides
from watchdog.installation import Installer
from watchdog.judges import pins as mismatches
from watchdog.judges.experiment import Rule
from watchdog.judges.wording import one_line
from watchdog.model import Cell, Check, Observation, Status, Verdict
from watchdog.pins import Lock
from watchdog.plan import Selection
from watchdog.rooms import room
from watchdog.run import Started
from watchdog.runner import Runner, Silent
from watchdog.store import reader, writer
from watchdog.store.engine import Store, open_store
from watchdog.store.values import Learned
from watchdog.uv import Uv

_SAID = 300  # characters of what is kept of a verdict
_OF_THE_MACHINE = (Check.MEMORY, Check.TIMING)  # checks whose answers hold on machines like this one alone


@dataclass(frozen=True)
class Trial:
    """What an evaluation is given: pins with their locks, and the cells to ask of them."""

    config: Config  # its baseline is the base
    selection: Selection
    locks: Mapping[str, Lock]  # by pins
    seen: Mapping[Cell, Observation]  # what need not be asked


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation came to."""

    verdicts: tuple[Verdict, ...]
    observations: tuple[Observation, ...]


Evaluate = Callable[[Trial], Evaluated]


@dataclass(frozen=True)
class Told:
    """What a probe says to one question."""

    result: Probed
    said: str  # one line
    seconds: float = 0.0
    remembered: bool = False
    lasting: bool = True  # worth remembering: False where another try may say otherwise


class Question(Protocol):
    """What is asked of each lock."""

    @property
    def selection(self) -> Selection:
        """The cells that it needs, of all pins of a trial."""

    @property
    def subject(self) -> str:
        """What is asked, as text that tells it from every other question."""

    def answer(self, verdicts: Sequence[Verdict]) -> Told:
        """The answer that the verdicts of the tried pins give."""


@dataclass(frozen=True)
class Regression:
    """Whether a verdict of the head, which is regressed, is so elsewhere: with the same aspect and kind."""

    verdict: Verdict

    @property
    def selection(self) -> Selection:
        cell = self.verdict.cell
        if cell.check is Check.INSTALL:
            named = [cell.kernel] if cell.kernel else []
            told_there = self.verdict.kind == mismatches.KIND
            checks = [Check.IMPORT, Check.LOWER, Check.COMPILE] if told_there else []
            return Selection(kernels=tuple(named), checks=(Check.INSTALL, *checks))
        return Selection(
            kernels=(cell.kernel,),
            cases=(cell.case,) if cell.case else (),
            implementations=tuple(dict.fromkeys((cell.implementation, NATIVE))),
            targets=(cell.target,) if cell.target else (),
            checks=(Check.INSTALL, *plan.prerequisites(cell.check), cell.check),
            scenarios=(cell.scenario,) if cell.scenario else (),
        )

    @property
    def subject(self) -> str:
        here = replace(self.verdict, cell=replace(self.verdict.cell, pins=""))
        return f"{here.id} {self.verdict.kind}"

    def answer(self, verdicts: Sequence[Verdict]) -> Told:
        cell = self.verdict.cell
        if cell.check is not Check.INSTALL and (failed := not_installed(verdicts)) is not None:
            return failed
        of_cell = [one for one in verdicts if one.cell == cell]
        about = [one for one in of_cell if one.signal == self.verdict.signal] or of_cell
        regressed = [one for one in about if one.status is Status.REGRESSED]
        same = next((one for one in regressed if one.kind == self.verdict.kind), None)
        if same is not None:
            return Told(Probed.BAD, _said(same))
        if regressed:
            return Told(Probed.UNKNOWN, f"another fault: {_said(regressed[0])}")
        return told_of(about)


def not_installed(verdicts: Sequence[Verdict]) -> Told | None:
    """The answer where the environment could not be made; None where it could."""
    failed = next((one for one in verdicts if one.cell.check is Check.INSTALL and _is_failure(one)), None)
    # Not remembered: an index that was away, or a full disk, is another day's success.
    return None if failed is None else Told(Probed.UNRESOLVABLE, _said(failed), lasting=False)


def _is_failure(verdict: Verdict) -> bool:
    return verdict.status is Status.REGRESSED and verdict.kind != mismatches.KIND


def told_of(about: Sequence[Verdict]) -> Told:
    """The answer of verdicts of which none regressed: good when one of them was measured and none was left open."""
    opened = next((one for one in about if one.status is Status.INCONCLUSIVE), None)
    if opened is not None:
        return Told(Probed.UNKNOWN, _said(opened), lasting=False)
    measured = next((one for one in about if one.status in (Status.PASS, Status.IMPROVED)), None)
    if measured is not None:
        return Told(Probed.GOOD, _said(measured))
    skipped = next(iter(about), None)
    return Told(Probed.UNKNOWN, "it was not asked" if skipped is None else _said(skipped))


def _said(verdict: Verdict) -> str:
    return one_line(verdict.summary, _SAID)


@dataclass
class Prober:
    """Asks questions of locks. `seen` are the base's observations; those that a probe lacks are added to them."""

    store: Store
    config: Config  # with the pins of both sides, the base as its baseline
    base_pins: str
    head_pins: str  # the pins under whose name every lock is tried
    base: Lock
    seen: dict[Cell, Observation]
    evaluate: Evaluate

    def ask(self, lock: Lock, questions: Sequence[Question]) -> list[Told]:
        """An answer to each question: remembered where it is known, or else from one probe for all others."""
        known = {question.subject: self._remembered(lock, question) for question in questions}
        unknown = [question for question in questions if known[question.subject] is None]
        fresh = self.ask_afresh(lock, unknown) if unknown else []
        answers = {**known, **{question.subject: told for question, told in zip(unknown, fresh, strict=True)}}
        return [told for question in questions if (told := answers[question.subject]) is not None]

    def ask_afresh(self, lock: Lock, questions: Sequence[Question]) -> list[Told]:
        """An answer to each question from one probe, whatever is remembered."""
        began = time.monotonic()
        config = self.config.model_copy(
            update={
                "pins": {name: self.config.pins[name] for name in (self.base_pins, self.head_pins)},
                "watchdog": self.config.watchdog.model_copy(update={"baseline": self.base_pins}),
            }
        )
        locks = {self.base_pins: self.base, self.head_pins: lock}
        done = self.evaluate(Trial(config, merged([one.selection for one in questions]), locks, self.seen))
        seconds = time.monotonic() - began
        self.seen.update({one.cell: one for one in done.observations if one.cell.pins == self.base_pins})
        tried = [one for one in done.verdicts if one.cell.pins == self.head_pins]
        answers = [replace(question.answer(tried), seconds=seconds) for question in questions]
        for question, told in zip(questions, answers, strict=True):
            self._remember(lock, question, told)
        return answers

    def _remembered(self, lock: Lock, question: Question) -> Told | None:
        learned = reader.learned(self.store, self.digest(question), lock.hash)
        if learned is None:
            return None
        return Told(Probed(learned.result), learned.said, learned.seconds, remembered=True)

    def _remember(self, lock: Lock, question: Question, told: Told) -> None:
        if told.lasting:
            learned = Learned(told.result.value, told.said, told.seconds)
            writer.record_learned(self.store, self.digest(question), lock.hash, learned)

    def digest(self, question: Question) -> str:
        """A digest of all that an answer depends on, but for the lock that is tried."""
        checks = {Check(name) for name in question.selection.checks}
        here = machine.facts() if checks & set(_OF_THE_MACHINE) else {"architecture": machine.facts()["architecture"]}
        parts = {
            "question": question.subject,
            "selection": question.selection.to_json(),
            "base": self.base.hash,
            "machine": here,
            **self._surroundings,
        }
        return "sha256:" + hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @cached_property
    def _surroundings(self) -> dict[str, object]:
        """The kernels as they are configured and written, the limits, and the program that asks."""
        kernels = self.config.kernel
        paths = {kernel.path for kernel in kernels if kernel.path}
        limits = self.config.watchdog.model_dump(
            mode="json", include={"cell_timeout", "cell_memory", "interpret_limit", "memory_budget"}
        )
        return {
            "kernels": {kernel.name: kernel.model_dump(mode="json") for kernel in kernels},
            "code": {path: projects.content_digest(self.config.absolute(path)) for path in sorted(paths)},
            "checks": projects.content_digest(room("checks")),
            "limits": limits,
            "gate": self.config.gate.model_dump(mode="json", exclude={"budget"}),
            "program": __version__,
        }


def merged(selections: Sequence[Selection]) -> Selection:
    """One selection that holds all of these. A question that needs no case or target leaves those of the others."""
    fields = ("kernels", "cases", "implementations", "targets", "checks", "scenarios")
    parts = {name: [getattr(one, name) for one in selections] for name in fields}
    every = {"kernels", "implementations"}  # here, nothing named means all
    return Selection(
        **{
            name: ()
            if name in every and not all(given)
            else tuple(dict.fromkeys(value for values in given for value in values))
            for name, given in parts.items()
        }
    )


@dataclass(frozen=True)
class Once:
    """Asks each cell once, and times both sides as an experiment, in a store that is thrown away."""

    cache: EnvironmentCache
    uv: Uv
    deadline: Deadline

    def __call__(self, trial: Trial) -> Evaluated:
        with tempfile.TemporaryDirectory(prefix="watchdog-probe-") as folder:
            return self._evaluated(trial, open_store("sqlite:///probe.db", root=Path(folder)))

    def _evaluated(self, trial: Trial, opened: Store) -> Evaluated:
        with opened as store:
            begun = running.begin(store, trial.config, trial.selection)
            seen = {cell: trial.seen[cell] for cell in begun.cells if cell in trial.seen}
            for observation in seen.values():
                writer.record_observation(store, begun.id, observation)
            started = replace(begun, seen=seen)
            installer = Installer(trial.config, store, self.cache, self.uv, refresh=False, given=trial.locks)
            silent = Silent()
            installed = running.install(store, started, installer, silent)
            runner = running.asking(store, started, installed, self.cache, silent)
            untimed = [cell for cell in running.unseen(started) if cell.check not in (Check.INSTALL, Check.TIMING)]
            runner.ask(untimed)
            rule = self._timed(store, started, runner)
            verdicts = running.judge(store, started, installed, rule=rule)
            return Evaluated(verdicts, tuple(reader.observations(store, started.id)))

    def _timed(self, store: Store, started: Started, runner: Runner) -> Rule | None:
        pins = started.config.pins
        if not any(cell.check is Check.TIMING for cell in started.cells):
            return None
        return time_both_sides(
            store,
            started,
            runner,
            base=started.config.baseline,
            head=next((name for name in pins if name != started.config.baseline), started.config.baseline),
            deadline=self.deadline,
            show=lambda _: nullcontext(Silent()),
        )
