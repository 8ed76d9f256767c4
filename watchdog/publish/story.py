"""What publishing needs to know of a run, as plain values; whoever reads the store fills them in.

Times are UTC in ISO 8601, as in `Observation.at`. All text may come from outside: every format cleans and escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdog.model import Environment, Observation, Status, Verdict

KILLED = "killed"  # the state of a run whose process has gone, though the run did not end
RESUMABLE = ("interrupted", "failed", KILLED)  # the states of a run that --resume finishes


@dataclass(frozen=True)
class RunSummary:
    """One line in the list of runs."""

    run_id: str
    started: str
    finished: str | None  # None while it runs, and when it was cut off
    state: str  # "running", "finished", "interrupted", "failed" or "killed"
    exit_code: int | None
    kernels: tuple[str, ...]
    pins: tuple[str, ...]
    counts: Mapping[Status, int]
    command: str = "run"  # of watchdog, that began it: "run" or "gate"


@dataclass(frozen=True)
class RunReport:
    """One run, whole: what was asked, what was seen, what was judged."""

    run_id: str
    started: str
    finished: str | None
    state: str
    exit_code: int | None
    program_version: str
    baseline: str | None  # the pins that the others are judged against
    kernels: tuple[str, ...]  # in the order of the configuration, as are pins and targets
    pins: tuple[str, ...]
    targets: tuple[str, ...]
    machine: Mapping[str, str] = field(default_factory=dict)  # "processor" → "…", in the order to show
    environments: tuple[Environment, ...] = ()
    observations: tuple[Observation, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    command: str = "run"

    @property
    def summary(self) -> RunSummary:
        counts = dict.fromkeys(Status, 0)
        for verdict in self.verdicts:
            counts[verdict.status] += 1
        return RunSummary(
            self.run_id,
            self.started,
            self.finished,
            self.state,
            self.exit_code,
            self.kernels,
            self.pins,
            counts,
            self.command,
        )
