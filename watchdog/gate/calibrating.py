"""Measures this machine for `watchdog calibrate`: the same call in many fresh processes, of which nothing changed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watchdog import plan, run, selftest
from watchdog.config import Config
from watchdog.config_values import NATIVE
from watchdog.environments import EnvironmentCache
from watchdog.gate.deadline import Deadline
from watchdog.installation import Installer
from watchdog.model import Cell, Check, Observation, Outcome
from watchdog.plan import Selection
from watchdog.run import ShowProgress
from watchdog.runner import Runner, Silent, label
from watchdog.store.engine import Store, open_store
from watchdog.uv import Uv


@dataclass(frozen=True)
class Measured:
    """The calls of one cell, process by process."""

    cell: Cell
    processes: tuple[tuple[float, ...], ...]  # seconds of each process's rounds, in the order in which they ran
    why_not: str | None = None  # why there are none


def measure(
    config: Config | None, pins: str | None, selection: Selection, *, processes: int, budget: float, show: ShowProgress
) -> tuple[Measured, ...]:
    """Time the selected cells under one set of pins, in up to `processes` processes or as many as `budget` allows.

    Without a configuration a small kernel of the program's own is timed under the pins that `watchdog init` writes.
    `budget` is in seconds. Nothing is kept. Raises UsageError for unknown names.
    """
    with tempfile.TemporaryDirectory(prefix="watchdog-calibrate-") as folder:
        own = selftest.project(Path(folder), config, [pins] if pins else [], ())
        project = own if config is None else _of_the_user(config, own)
        with open_store(own.database_url, root=own.root) as store:
            return _measured(store, project, selection, processes=processes, budget=budget, show=show)


def _of_the_user(config: Config, own: Config) -> Config:
    """The user's kernels under the chosen pins alone."""
    checks = (Check.INSTALL, Check.IMPORT, Check.LOWER, Check.COMPILE, Check.TIMING)
    options = config.watchdog.model_copy(update={"checks": checks, "targets": ("host",), "baseline": None})
    return config.model_copy(update={"pins": own.pins, "watchdog": options})


def _measured(
    store: Store, project: Config, selection: Selection, *, processes: int, budget: float, show: ShowProgress
) -> tuple[Measured, ...]:
    chosen = replace(
        selection,
        checks=(Check.INSTALL.value, Check.TIMING.value),
        implementations=selection.implementations or (NATIVE,),
    )
    uv = Uv.found()
    cache = EnvironmentCache(project.environments_directory, uv)
    started = run.begin(store, project, chosen)
    with run.ending(store, started.id):
        with show(len(plan.environment_requests(project, chosen))) as progress:
            installed = run.install(store, started, Installer(project, store, cache, uv, refresh=False), progress)
            runner = run.asking(store, started, installed, cache, progress)
        cells = list(plan.same_questions(project, [cell for cell in started.cells if cell.check is Check.TIMING]))
        with show(processes) as progress:
            taken: list[list[Observation]] = []
            deadline = Deadline(budget)
            while len(taken) < processes and not deadline.is_over:
                said = f"{label(cells[0])}, process {len(taken) + 1} of {processes}"
                progress.started(said)
                taken.append(_one_process(runner, cells))
                progress.finished(said, Outcome.OBSERVED, 0.0)
    return tuple(_of_cell(cell, taken) for cell in cells)


def _one_process(runner: Runner, cells: Sequence[Cell]) -> list[Observation]:
    """One fresh process of each implementation."""
    answers: list[Observation] = []
    replace(runner, keep=answers.append, progress=Silent(), seen={}).ask(cells)
    return answers


def _of_cell(cell: Cell, taken: Sequence[Sequence[Observation]]) -> Measured:
    seen = [answer for answers in taken for answer in answers if answer.cell == cell]
    rounds = tuple(tuple(one.series["seconds"]) for one in seen if one.series.get("seconds"))
    if rounds:
        return Measured(cell, rounds)
    first = seen[0] if seen else None
    said = None if first is None else first.reason or (first.fault and first.fault.message)
    return Measured(cell, (), said or "no process gave a time")
