"""From jobs to observations: processes inside environments, supervised; what kills one is an observation of its cell."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from watchdog import plan, process, records
from watchdog.config import Config
from watchdog.config_values import NATIVE
from watchdog.environments import Built, EnvironmentCache
from watchdog.installation import Installed
from watchdog.model import Cell, Fault, Observation, Outcome
from watchdog.plan import Job, Lane
from watchdog.process import Ended, Limits, Listener, Stopped
from watchdog.redaction import plain, redact
from watchdog.rooms import room

_LOG_TAIL = 16_384  # bytes
_BETWEEN_CELLS = 120.0  # seconds to start, and from one cell to the next
_TO_END = 5.0  # seconds to end after the last answer: code under watch may have left threads
# glibc counts what lies in a thread's cache of freed chunks as handed out. Without that cache the heap's bytes are
# those of the line that asked for them; where the C library is another one, the variable says nothing.
_EXACT_HEAP = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
_VARIABLES = {Lane.SIDE_BY_SIDE: _EXACT_HEAP, Lane.DEVICE: _EXACT_HEAP}  # never where time is measured
_ROOM = "_watchdog_checks"  # the private name that the checks have inside an environment


class Progress(Protocol):
    """Who is told what is going on."""

    def started(self, label: str) -> None: ...
    def finished(self, label: str, outcome: Outcome, seconds: float) -> None: ...


class Silent:
    """Progress that nobody is told: what asks the cells tells of itself."""

    def started(self, label: str) -> None: ...
    def finished(self, label: str, outcome: Outcome, seconds: float) -> None: ...


class Interrupted(Exception):  # noqa: N818  # the user's wish, not an error
    """The run was asked to stop; all of its processes have ended."""


@dataclass
class Runner:
    """Asks the cells of a run. `keep` makes an observation durable before the next thing starts."""

    config: Config
    asked: Sequence[Cell]
    cache: EnvironmentCache
    installed: Mapping[tuple[str, str], Installed]  # by pins and kernel
    host: Callable[[str], str]  # pins → platform of this machine's device
    keep: Callable[[Observation], object]
    progress: Progress
    side_by_side: int
    seen: dict[Cell, Observation] = field(default_factory=dict)
    same: Mapping[Cell, Sequence[Cell]] = field(default_factory=dict)  # asked → answered by it as well
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, cells: Sequence[Cell]) -> None:
        """Ask all cells. Raises Interrupted on Ctrl-C, when every process has ended."""
        self.same = plan.same_questions(self.config, cells)
        jobs = plan.jobs(list(self.same), self.host)
        with ThreadPoolExecutor(self.side_by_side) as pool, self._stopping():
            # Native ones come last: they are short, so that no long one is left for a single process at the end.
            together = sorted(jobs, key=lambda job: job.implementation == NATIVE)
            _finish([pool.submit(self._ask_job, job) for job in together if job.lane is Lane.SIDE_BY_SIDE])
        with ThreadPoolExecutor(1) as alone, self._stopping():
            for lane in (Lane.DEVICE, Lane.TIMING):
                _finish([alone.submit(self._ask_job, job) for job in jobs if job.lane is lane])

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Whatever ends the block early stops all processes: those that have begun, and those that wait their turn."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop.set()
            raise Interrupted from None
        except BaseException:
            self.stop.set()
            raise

    def _ask_job(self, job: Job) -> None:
        """Ask every cell of a job, unless the run is stopped."""
        installed = self.installed[job.pins, job.kernel]
        if self.stop.is_set():
            return
        if installed.built is None:
            self._skip_all(job.cells, "the environment could not be installed")
            return
        with self.cache.in_use(installed.built):
            self._ask_until_all_answered(job, installed.built)

    def _ask_until_all_answered(self, job: Job, built: Built) -> None:
        """Start processes until every cell of the job has its observation, or the run is stopped."""
        remaining = self._not_blocked(job.cells)
        while remaining and not self.stop.is_set():
            _Attempt(self, job, built, remaining).make()
            remaining = self._not_blocked([cell for cell in remaining if cell not in self.seen])

    def _not_blocked(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells that are worth asking; the others are recorded as skipped, with the reason."""
        free = []
        for cell in cells:
            reason = plan.blocked(cell, self.seen)
            if reason is None:
                free.append(cell)
            else:
                self.record(Observation(cell, Outcome.SKIPPED, reason=reason))
        return free

    def _skip_all(self, cells: Sequence[Cell], reason: str) -> None:
        for cell in cells:
            self.record(Observation(cell, Outcome.SKIPPED, reason=reason))

    def record(self, observation: Observation) -> None:
        """Keep one observation, cleaned of credentials and control characters, for all cells that it answers."""
        clean = cleaned(observation)
        self._keep(clean)
        for cell in self.same.get(clean.cell, ()):
            self._keep(replace(clean, cell=cell, data={**clean.data, "same_as": clean.cell.address}))

    def _keep(self, observation: Observation) -> None:
        with self._lock:
            self.keep(observation)
            self.seen[observation.cell] = observation
        self.progress.finished(label(observation.cell), observation.outcome, observation.seconds)


def _finish(futures: Iterable[Future[None]]) -> None:
    """Wait until all are done; the first error is raised again at once."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()


class _Attempt:
    """One process, and the cell that it has in hand.

    Code under watch runs in children of the process that writes the lines, and for timing in that process itself, so
    that it may write some. Whatever is written, every cell of the process gets exactly one observation, none of another
    process does, and only an answer about the cell in hand is taken. Beyond that a process is believed: code that means
    to deceive can do so about its own cells.
    """

    def __init__(self, runner: Runner, job: Job, built: Built, cells: Sequence[Cell]) -> None:
        self.runner, self.job, self.built = runner, job, built
        self.numbered = dict(enumerate(cells))
        self.in_hand: Cell | None = None
        self.began = time.monotonic()  # with the cell in hand
        self.deadline = self.began + _BETWEEN_CELLS
        self.answered = 0
        self.unreadable: str | None = None  # the first line since the last answer that was not taken

    def make(self) -> None:
        with process.scratch_folder() as folder:
            scratch = Path(folder)
            ended = self._run(scratch)
            if ended.stopped is not Stopped.INTERRUPT:
                self._account(ended, scratch)

    def _run(self, scratch: Path) -> Ended:
        built, limits = self.built, self._limits()
        (scratch / _ROOM).symlink_to(room("checks"))
        host = self.runner.host(self.job.pins)
        document = plan.document(
            self.job,
            self.numbered,
            self.runner.config,
            asked=self.runner.asked,
            host=host,
            scratch=scratch,
            tools=built.tools,
        )
        plan_file = scratch / "plan.json"
        plan_file.write_text(json.dumps(document), encoding="utf-8")
        return process.supervise(
            [
                str(built.python),
                "-I",
                "-u",
                "-X",
                f"pycache_prefix={built.directory / 'pycache'}",
                str(scratch / _ROOM / "run.py"),
                str(plan_file),
            ],
            folder=scratch,
            log=scratch / "process.log",
            limits=limits,
            listener=Listener(self._hear, lambda: self.deadline - limits.seconds),
            stop=self.runner.stop,
            variables=_VARIABLES.get(self.job.lane, {}),
        )

    def _hear(self, line: str) -> None:
        match records.parse_line(line, self.numbered):
            case records.Started(cell):
                self._give_up_in_hand()
                self.in_hand, self.began = cell, time.monotonic()
                self.deadline = self.began + self._limits().seconds
                self.runner.progress.started(label(cell))
            case records.Observed(observation) if observation.cell == self.in_hand:
                self._answer(observation)
            case records.Observed(observation):
                self._refuse(f"an answer about a cell that was not in hand: {label(observation.cell)}")
            case records.Unreadable(reason, text):
                self._refuse(f"{reason}: {text}")
            case records.Ended():
                self.deadline = time.monotonic() + _TO_END

    def _answer(self, observation: Observation) -> None:
        self.answered += 1
        self.in_hand = self.unreadable = None
        self.deadline = time.monotonic() + _BETWEEN_CELLS
        self.runner.record(observation)

    def _refuse(self, line: str) -> None:
        self.unreadable = self.unreadable or line

    def _give_up_in_hand(self) -> None:
        """The process went on to the next cell, and what it said of this one could not be read."""
        if self.in_hand is not None:
            fault = Fault(kind="answer lost", message=f"its answer cannot be read{self._said()}")
            seconds = time.monotonic() - self.began
            self._answer(Observation(self.in_hand, Outcome.FAILED, fault=fault, seconds=seconds))

    def _account(self, ended: Ended, scratch: Path) -> None:
        """Write down what the process could not: the cell that ended it, or that it never began."""
        if self.in_hand is not None:
            number = next(number for number, cell in self.numbered.items() if cell == self.in_hand)
            fault = self._fault(ended, "the process ended before it could answer")
            # The interpreter's last words on a fatal signal go to the log that it began with.
            log = _tail(scratch / f"{number}.log") or _tail(scratch / "process.log")
            seconds = time.monotonic() - self.began
            self._answer(Observation(self.in_hand, _outcome(ended), fault=fault, log_tail=log, seconds=seconds))
        elif self.answered == 0:
            fault = self._fault(ended, "the checks could not start in this environment")
            log = _tail(scratch / "process.log")
            for cell in self.numbered.values():
                self.runner.record(Observation(cell, _outcome(ended), fault=fault, log_tail=log))

    def _fault(self, ended: Ended, otherwise: str) -> Fault:
        """How the process ended, where it was in the way of an answer."""
        limits = self._limits()
        match ended.stopped:
            case Stopped.TIME:
                message = f"no answer within {limits.seconds:g} s (cell_timeout); it was stopped"
            case Stopped.MEMORY:
                held, allowed = ended.memory / 2**30, limits.memory / 2**30
                message = f"it held {held:.1f} GiB, more than the {allowed:.1f} GiB of cell_memory; it was stopped"
            case _:
                message = f"{otherwise}{self._said()}"
        return Fault(kind=ended.kind, message=message)

    def _said(self) -> str:
        return f"; instead it wrote {self.unreadable}" if self.unreadable else ""

    def _limits(self) -> Limits:
        options = self.runner.config.watchdog
        return Limits(options.cell_timeout, options.cell_memory)


def _outcome(ended: Ended) -> Outcome:
    """Of the cell that was in hand when its process ended."""
    match ended.stopped:
        case Stopped.TIME:
            return Outcome.HUNG
        case Stopped.MEMORY:
            return Outcome.OUT_OF_MEMORY
    return Outcome.CRASHED


def cleaned(observation: Observation) -> Observation:
    """The observation with the texts from outside freed of credentials, and logs of control characters."""

    def text(value: str) -> str:
        return redact(plain(value))

    fault = observation.fault
    if fault is not None:
        fault = replace(fault, message=text(fault.message), traceback=text(fault.traceback), kind=text(fault.kind))
    reason = text(observation.reason) if observation.reason is not None else None
    return replace(observation, fault=fault, reason=reason, log_tail=text(observation.log_tail))


def label(cell: Cell) -> str:
    """What people see of a cell while it runs."""
    subject = " ".join(part for part in (f"{cell.kernel}/{cell.implementation}".strip("/"), cell.case) if part)
    place = f"{cell.pins} {cell.target}".strip()
    check = f"{cell.check} {cell.scenario}".rstrip()
    return f"{check}: {subject or 'all kernels'} ({place})"


def _tail(log: Path) -> str:
    """The end of a log, or nothing where none was written."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_TAIL))
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
