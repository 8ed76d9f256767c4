"""From the store to what publishing needs: runs, whole or as a line of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from watchdog import acceptances, machine, plan
from watchdog.acceptances import Acceptance
from watchdog.asked import configuration
from watchdog.errors import UsageError
from watchdog.model import Status, Verdict
from watchdog.ownership import is_alive
from watchdog.publish import site
from watchdog.publish.html import write_site
from watchdog.publish.story import KILLED, RunReport, RunSummary
from watchdog.records import run_to_json
from watchdog.store import reader
from watchdog.store.engine import Store
from watchdog.store.values import Run, RunState

_GIB = 2**30
_INCOMPLETE = 3  # exit code of a run that has not come to its end
_MOST_RUNS = 200  # listed in the site; `watchdog runs` has all


@dataclass(frozen=True)
class _Asked:
    """What a run was asked, by name, in the order of its configuration."""

    kernels: tuple[str, ...]
    pins: tuple[str, ...]
    targets: tuple[str, ...]
    baseline: str | None


def report(store: Store, run: Run) -> RunReport:
    """One run, whole."""
    asked = _asked(store, run)
    return RunReport(
        run_id=run.id,
        started=run.started,
        finished=run.finished,
        state=_state(run),
        exit_code=run.exit_code,
        program_version=run.version,
        baseline=asked.baseline,
        kernels=asked.kernels,
        pins=asked.pins,
        targets=asked.targets,
        machine=_machine(run.host),
        environments=tuple(reader.environments(store, run.id)),
        observations=tuple(reader.observations(store, run.id)),
        verdicts=tuple(_with_acceptances(run, reader.verdicts(store, run.id))),
        command=_command(run),
    )


def summaries(store: Store, *, most: int | None = None) -> list[RunSummary]:
    """Every run as one line, latest first; the `most` latest where that is given."""
    counts = reader.verdict_counts(store)
    return [_summary(store, run, counts.get(run.id, {})) for run in reader.runs(store)[:most]]


def _summary(store: Store, run: Run, counts: Mapping[Status, int]) -> RunSummary:
    asked = _asked(store, run)
    return RunSummary(
        run_id=run.id,
        started=run.started,
        finished=run.finished,
        state=_state(run),
        exit_code=run.exit_code,
        kernels=asked.kernels,
        pins=asked.pins,
        counts=counts,
        command=_command(run),
    )


def _command(run: Run) -> str:
    return "gate" if run.is_gate else "run"


def _state(run: Run) -> str:
    """How far a run came; the store cannot know that one was killed."""
    killed = run.state is RunState.RUNNING and not is_alive(run)
    return KILLED if killed else run.state.value


def _asked(store: Store, run: Run) -> _Asked:
    try:
        config, selection = configuration(run)
    except UsageError:  # of a program unlike this one: its plan still tells what it asked
        return _planned(store, run)
    pins = tuple(plan.selected_pins(config, selection))
    return _Asked(
        kernels=tuple(kernel.name for kernel in plan.selected_kernels(config, selection)),
        pins=pins,
        targets=selection.targets or config.watchdog.targets,
        baseline=config.baseline if config.baseline in pins else None,
    )


def _planned(store: Store, run: Run) -> _Asked:
    """What the planned cells tell of what was asked."""
    subjects = reader.planned_subjects(store, run.id)
    kernels, pins, targets = (tuple(dict.fromkeys(one[part] for one in subjects if one[part])) for part in range(3))
    return _Asked(kernels, pins, targets, reader.judged_against(store, run.id))


def _machine(host: Mapping[str, Any]) -> dict[str, str]:
    """The machine's facts for people, in the order to show."""
    memory = host.get("memory_bytes")
    facts = {
        "system": f"{host.get('os', 'unknown')}, {host.get('architecture', 'unknown')}",
        "cores": str(host.get("cores", "unknown")),
        "memory": f"{memory / _GIB:.1f} GiB" if isinstance(memory, (int, float)) else "unknown",
        "devices": ", ".join(map(str, host.get("devices") or ())) or "no accelerator",
        "python of the program": str(host.get("python", "unknown")),
    }
    return {name: value for name, value in facts.items() if value != "unknown"}


def _accepted(run: Run, verdicts: Sequence[Verdict]) -> dict[str, Acceptance]:
    """What was declared intended of a run's verdicts, in the file beside its configuration."""
    try:
        config, _ = configuration(run)
    except UsageError:  # of a program unlike this one
        return {}
    return acceptances.of_verdicts(acceptances.load(acceptances.beside(config.path)), verdicts, machine.today())


def _with_acceptances(run: Run, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, each with what was declared about it in its sentence, so that it is shown wherever they are."""
    accepted = _accepted(run, verdicts)
    return [
        replace(verdict, summary=f"{verdict.summary} ({acceptances.told(accepted[verdict.id])})")
        if verdict.id in accepted
        else verdict
        for verdict in verdicts
    ]


def document(store: Store, run: Run) -> dict[str, Any]:
    """The run as `--json` writes it (docs/run.schema.json)."""
    against = _asked(store, run).baseline
    environments = reader.environments(store, run.id)
    baseline = [environment for environment in environments if environment.pins == against]
    verdicts = reader.verdicts(store, run.id)
    code = _INCOMPLETE if run.exit_code is None else run.exit_code
    written = run_to_json(run.id, code, environments, verdicts, baseline=baseline)
    accepted = _accepted(run, verdicts)
    return {**written, "accepted": [acceptances.to_json(one) for one in accepted.values()]} if accepted else written


class _RehearsedError(Exception):
    """Ends a rehearsal before anything is replaced."""


def check_place(folder: Path) -> None:
    """Rehearse the writing of a report, before a long run: `folder` stays as it is.

    Raises UsageError when it holds files that are not a report, or cannot be made or written.
    """
    with suppress(_RehearsedError), site.replacing(folder):
        raise _RehearsedError


def write(store: Store, run: Run, folder: Path) -> Path:
    """Write the site about a run, with the list of all runs; returns its first page."""
    return write_site(folder, summaries(store, most=_MOST_RUNS), report(store, run))
