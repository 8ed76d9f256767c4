"""A run, from the configuration to verdicts and pages: a list of steps that reads on one screen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from watchdog import __version__, acceptances, asked, judges, machine, ownership, plan, process
from watchdog.config import Config
from watchdog.environments import EnvironmentCache
from watchdog.errors import UsageError
from watchdog.gate import sampling
from watchdog.installation import Installed, Installer, own_packages
from watchdog.judges import KernelFacts
from watchdog.judges.experiment import Rule
from watchdog.model import Cell, Observation, Verdict
from watchdog.plan import EnvironmentRequest, Selection
from watchdog.runner import Interrupted, Progress, Runner, label
from watchdog.store import reader, writer
from watchdog.store.engine import Store
from watchdog.store.values import Run, RunState
from watchdog.uv import Uv

INCOMPLETE = 3  # exit code of a run that was interrupted

# How a run shows its progress: called with the number of cells, used as a with-statement.
ShowProgress = Callable[[int], Any]


@dataclass(frozen=True)
class Started:
    """A run that has begun, or goes on: what it asks and what it has seen."""

    id: str
    config: Config
    selection: Selection
    cells: tuple[Cell, ...]
    seen: Mapping[Cell, Observation]


def run(store: Store, started: Started, show: ShowProgress, *, refresh: bool) -> int:
    """Do everything that a run has to do, and return its exit code.

    Whatever ends it early, what was observed is kept, and `resumed` goes on from there.
    """
    uv = Uv.found()
    cache = EnvironmentCache(started.config.environments_directory, uv)
    with ending(store, started.id), show(len(started.cells) - len(started.seen)) as progress:
        installer = Installer(started.config, store, cache, uv, refresh)
        installed = install(store, started, installer, progress)
        asking(store, started, installed, cache, progress).ask(unseen(started))
        verdicts = judge(store, started, installed)
        code = judges.exit_code(_not_accepted(started.config, verdicts))
        writer.finish_run(store, started.id, state=RunState.FINISHED, exit_code=code)
    return code


def begin(
    store: Store, config: Config, selection: Selection, purpose: Mapping[str, Any] = MappingProxyType({})
) -> Started:
    """Write down what a new run will ask, and what else whoever resumes it must know (`purpose`, JSON values).

    Raises UsageError when it asks nothing.
    """
    cells = plan.cells(config, selection)
    host = {**machine.facts(), **ownership.mine()}
    document = {**asked.document(config, selection), **purpose}
    run_id = writer.start_run(store, config=document, host=host, version=__version__)
    writer.record_plan(store, run_id, cells)
    return Started(run_id, config, selection, cells, {})


def resumed(store: Store) -> Started:
    """The latest unfinished run, with the configuration that it began with.

    Raises UsageError when there is none, when its process is still alive, or when its configuration is of a program
    unlike this one.
    """
    unfinished = next((one for one in reader.unfinished_runs(store) if not one.is_gate), None)
    if unfinished is None:
        msg = "there is no unfinished run to resume; `watchdog run` starts a new one, `watchdog runs` lists them"
        raise UsageError(msg)
    return taken_up(store, unfinished)


def taken_up(store: Store, unfinished: Run) -> Started:
    """An unfinished run, from now on this process's. Raises UsageError as `resumed` does."""
    if ownership.is_alive(unfinished):
        msg = f"run {unfinished.id} is still running (process {unfinished.host['pid']}); wait for it, or stop it first"
        raise UsageError(msg)
    config, selection = asked.configuration(unfinished)
    writer.reopen_run(store, unfinished, owner=ownership.mine())
    seen = {observation.cell: observation for observation in reader.observations(store, unfinished.id)}
    return Started(unfinished.id, config, selection, plan.cells(config, selection), seen)


def unseen(started: Started) -> list[Cell]:
    """The cells that still have to be asked."""
    return [cell for cell in started.cells if cell not in started.seen]


@contextmanager
def ending(store: Store, run_id: str) -> Iterator[None]:
    """However it ends early, the run says so."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        writer.finish_run(store, run_id, state=RunState.INTERRUPTED, exit_code=INCOMPLETE)
        raise Interrupted from None
    except BaseException:
        writer.finish_run(store, run_id, state=RunState.FAILED, exit_code=None)
        raise


def install(store: Store, started: Started, installer: Installer, progress: Progress) -> list[Installed]:
    """Every environment of the run, two at a time; the first to need a package downloads it for all."""
    requests = plan.environment_requests(started.config, started.selection)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(_install_one, installer, request, progress) for request in requests]
        try:
            installed = [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):  # one that was between two calls of uv starts the next
                process.end_children()
                wait(futures, timeout=0.2)
            raise
    for one in installed:
        writer.record_environment(store, started.id, one.environment)
        for observation in one.observations:
            if observation.cell in started.cells and observation.cell not in started.seen:
                writer.record_observation(store, started.id, observation)
                progress.finished(label(observation.cell), observation.outcome, observation.seconds)
    return installed


def _install_one(installer: Installer, request: EnvironmentRequest, progress: Progress) -> Installed:
    for cell in request.install_cells:
        progress.started(label(cell))
    return installer.install(request)


def _not_accepted(config: Config, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts that nobody declared intended, or no longer."""
    accepted = acceptances.of_verdicts(acceptances.load(acceptances.beside(config.path)), verdicts, machine.today())
    held = {name for name, acceptance in accepted.items() if acceptance.expired is None}
    return [verdict for verdict in verdicts if verdict.id not in held]


def asking(
    store: Store, started: Started, installed: Sequence[Installed], cache: EnvironmentCache, progress: Progress
) -> Runner:
    """Who asks the cells of a run, and keeps what it observes."""
    return Runner(
        config=started.config,
        asked=started.cells,
        cache=cache,
        installed={(one.request.pins, kernel): one for one in installed for kernel in one.request.kernels},
        host=functools.cache(lambda pins: _host(installed, pins)),
        keep=functools.partial(writer.record_observation, store, started.id),
        progress=progress,
        side_by_side=side_by_side(started.config.watchdog.cell_memory),
        seen=dict(started.seen),
    )


def _host(installed: Sequence[Installed], pins: str) -> str:
    names = {package.name for one in installed if one.request.pins == pins for package in one.environment.packages}
    return machine.host_platform(names).platform


def side_by_side(cell_memory: int) -> int:
    """How many processes may run at once: as many as there are cores, and as the memory allows at its limit."""
    return max(1, min(machine.usable_cores(), machine.usable_memory() // cell_memory))


def judge(
    store: Store, started: Started, installed: Sequence[Installed], rule: Rule | None = None
) -> tuple[Verdict, ...]:
    """Judge what the run observed, and keep the verdicts; with a `rule`, times as an experiment by it."""
    facts = {
        kernel.name: KernelFacts(
            own_packages(started.config, kernel, installed), kernel.tolerance, started.config.served
        )
        for kernel in plan.selected_kernels(started.config, started.selection)
    }
    names = plan.selected_pins(started.config, started.selection)
    baseline = started.config.baseline if started.config.baseline in names else None
    observations = reader.observations(store, started.id)
    environments = reader.environments(store, started.id)
    times = sampling.by_cell(reader.samples(store, started.id), baseline)
    verdicts = judges.judge_run(observations, environments, baseline, facts, samples=times, rule=rule)
    writer.record_verdicts(store, started.id, verdicts)
    return verdicts
