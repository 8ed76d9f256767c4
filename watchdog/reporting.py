"""From the store to what publishing needs: runs, whole or as a line of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from watchdog import plan
from watchdog.config import Config
from watchdog.model import Status, Verdict
from watchdog.plan import Selection
from watchdog.publish import site
from watchdog.publish.html import write_site
from watchdog.publish.story import RunReport, RunSummary
from watchdog.records import run_to_json
from watchdog.store import reader
from watchdog.store.engine import Store
from watchdog.store.values import Run

_GIB = 2**30
_INCOMPLETE = 3  # exit code of a run that has not come to its end
_MOST_RUNS = 200  # listed in the site; `watchdog runs` has all


def report(store: Store, run: Run) -> RunReport:
    """One run, whole."""
    config, selection = configuration(run)
    names = plan.selected_pins(config, selection)
    return RunReport(
        run_id=run.id,
        started=run.started,
        finished=run.finished,
        state=run.state.value,
        exit_code=run.exit_code,
        program_version=run.version,
        baseline=config.baseline if config.baseline in names else None,
        kernels=tuple(kernel.name for kernel in plan.selected_kernels(config, selection)),
        pins=tuple(names),
        targets=selection.targets or config.watchdog.targets,
        machine=_machine(run.host),
        environments=tuple(reader.environments(store, run.id)),
        observations=tuple(reader.observations(store, run.id)),
        verdicts=tuple(reader.verdicts(store, run.id)),
    )


def configuration(run: Run) -> tuple[Config, Selection]:
    """What a run was asked, as it was stored when it began."""
    return Config.model_validate(run.config["config"]), Selection.from_json(run.config["selection"])


def summaries(store: Store) -> list[RunSummary]:
    """Every run as one line, latest first."""
    return [_summary(store, run) for run in reader.runs(store)[:_MOST_RUNS]]


def _summary(store: Store, run: Run) -> RunSummary:
    config, selection = configuration(run)
    return RunSummary(
        run_id=run.id,
        started=run.started,
        finished=run.finished,
        state=run.state.value,
        exit_code=run.exit_code,
        kernels=tuple(kernel.name for kernel in plan.selected_kernels(config, selection)),
        pins=tuple(plan.selected_pins(config, selection)),
        counts=_counts(reader.verdicts(store, run.id)),
    )


def _counts(verdicts: Sequence[Verdict]) -> Mapping[Status, int]:
    found = Counter(verdict.status for verdict in verdicts)
    return {status: found[status] for status in Status}


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


def document(store: Store, run: Run) -> dict[str, Any]:
    """The run as `--json` writes it (docs/run.schema.json)."""
    config, _ = configuration(run)
    environments = reader.environments(store, run.id)
    baseline = [environment for environment in environments if environment.pins == config.baseline]
    verdicts = reader.verdicts(store, run.id)
    code = _INCOMPLETE if run.exit_code is None else run.exit_code
    return run_to_json(run.id, code, environments, verdicts, baseline=baseline)


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
    return write_site(folder, summaries(store), report(store, run))
