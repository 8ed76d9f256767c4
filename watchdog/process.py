"""The one seam to the processes that run code under watch: started, listened to, limited, and ended with all of theirs."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Event
from types import MappingProxyType

import psutil

_POLL_SECONDS = 0.1
_MEMORY_SECONDS = 0.25  # between two looks at the memory
_LOOKS, _LOOK_SECONDS = 5, 0.01  # at a process that is about to become another program
_CHUNK = 2**20  # bytes
_LONGEST_LINE = 256 * 2**20  # bytes; a line that never ends is not kept

# What a check needs of the surroundings. Credentials, PYTHON* and the caller's own settings stay out.
_PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "CUDA_VISIBLE_DEVICES")


_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Stopped(StrEnum):
    """Why a process was ended by us."""

    TIME = "time limit"
    MEMORY = "memory limit"
    INTERRUPT = "interrupt"


@dataclass(frozen=True)
class Limits:
    """For each cell: seconds from its start to its observation, and bytes that its processes hold together.

    The same number of seconds is allowed for what comes before the first cell, between two, and after the last.
    """

    seconds: float
    memory: int


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status as `subprocess` gives it, and whether we ended it."""

    status: int
    stopped: Stopped | None
    memory: int  # bytes, the most that was seen

    @property
    def kind(self) -> str:
        """In words, as a fault's kind."""
        if self.stopped is not None:
            return self.stopped.value
        if self.status < 0:
            return _signal(-self.status)
        return f"exit code {self.status}"


def _signal(number: int) -> str:
    """As people call it; most real-time signals have no name."""
    names = {known.value: known.name for known in signal.Signals}
    return f"signal {number} ({names[number]})" if number in names else f"signal {number}"


@dataclass
class Listener:
    """Receives complete lines, and knows when the cell in hand began (`time.monotonic()`), or None between cells."""

    on_line: Callable[[str], None]
    began: Callable[[], float | None]


def clean_environment(surroundings: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment variables of a process under watch; `home` and its temporary files are its own."""
    kept = {name: surroundings[name] for name in _PASSED if name in surroundings}
    return {**kept, "HOME": str(home), "TMPDIR": str(home)}


def supervise(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    limits: Limits,
    listener: Listener,
    stop: Event,
    variables: Mapping[str, str] = _NO_VARIABLES,
) -> Ended:
    """Run `command` with two descriptors appended, for its records and to tell whether we live; wait until it ends.

    It has a session and a process group of its own, a clean environment and the `variables` in it. When it ends, or `stop` is set, or a limit is passed, every
    process that it started ends too. If this program is killed, the operating system ends them: the second
    descriptor's other end closes.
    Raises OSError when it cannot be started.
    """
    reading, writing = os.pipe()
    living, alive = os.pipe()
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*command, str(writing), str(living)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**clean_environment(os.environ, folder), **variables},
                pass_fds=(writing, living),
                start_new_session=True,
            )
        os.close(writing)
        writing = -1
        return _Watch(process, folder, reading, limits, listener, stop).until_it_ends()
    finally:
        for descriptor in (reading, writing, living, alive):
            if descriptor >= 0:
                os.close(descriptor)


@dataclass
class _Watch:
    """One process being listened to."""

    process: subprocess.Popen[bytes]
    home: Path  # its HOME, and that of every process that comes of it
    reading: int
    limits: Limits
    listener: Listener
    stop: Event
    rest: bytes = b""
    heard: float = field(default_factory=time.monotonic)  # when the last line came, or it began
    family: dict[int, psutil.Process] = field(default_factory=dict)
    since: float = field(init=False)  # its beginning, as the operating system tells it
    most: int = 0
    looked: float = 0.0

    def __post_init__(self) -> None:
        self.since = psutil.Process(self.process.pid).create_time()

    def until_it_ends(self) -> Ended:
        stopped = None
        os.set_blocking(self.reading, False)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self.reading, selectors.EVENT_READ)
                while self.process.poll() is None and stopped is None:
                    if selector.select(_POLL_SECONDS) and not self._listen():
                        time.sleep(_POLL_SECONDS)  # it closed its records; wait for its end
                    stopped = self._reason_to_stop()
        finally:
            self._end_all()
        while self._listen():  # what it wrote last
            pass
        return Ended(self.process.returncode, stopped, self.most)

    def _listen(self) -> bool:
        """Read some of what has arrived and hand on complete lines; false when there is nothing."""
        try:
            data = os.read(self.reading, _CHUNK)
        except BlockingIOError:
            return False
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.rest = self.rest[:_LONGEST_LINE]
        for line in lines:
            self.heard = time.monotonic()
            self.listener.on_line(line.decode("utf-8", errors="replace"))
        return bool(data)

    def _reason_to_stop(self) -> Stopped | None:
        now = time.monotonic()
        if self.stop.is_set():
            return Stopped.INTERRUPT
        began = self.listener.began()
        if now - (self.heard if began is None else began) > self.limits.seconds:
            return Stopped.TIME
        if now - self.looked > _MEMORY_SECONDS:
            self.looked = now
            return self._look_at_memory()
        return None

    def _look_at_memory(self) -> Stopped | None:
        """Measure what the process and its descendants hold; exactly only where the quick measure exceeds the limit."""
        members = self._members()
        held = sum(map(_resident, members))
        if held > self.limits.memory:
            held = sum(map(_own_share, members))
        self.most = max(self.most, held)
        return Stopped.MEMORY if held > self.limits.memory else None

    def _members(self) -> list[psutil.Process]:
        """The process and all descendants that were ever seen: one whose parent has ended is still one of them."""
        if self.process.returncode is None:  # else its number may be another's by now
            parent = psutil.Process(self.process.pid)
            self.family |= {member.pid: member for member in (parent, *parent.children(recursive=True))}
        return list(self.family.values())

    def _end_all(self) -> None:
        members = self._members()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for member in (*members, *_living_at(self.home, self.since)):  # those that left the group
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self.process.wait()


def _resident(member: psutil.Process) -> int:
    """Bytes of a process in memory; pages that several share count for each of them."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return member.memory_info().rss
    return 0


def _own_share(member: psutil.Process) -> int:
    """Bytes of a process in memory; a page that n processes share, as after a fork, counts 1/n. Slow: milliseconds."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return member.memory_full_info().pss
    return 0


def _living_at(home: Path, since: float) -> list[psutil.Process]:
    """The processes begun at that time or later whose HOME is this folder, whoever their parent is now.

    While a process becomes another program it has no environment for a moment, and is asked again.
    """
    found: list[psutil.Process] = []
    unknown = list(psutil.process_iter())
    for _ in range(_LOOKS):
        asked, unknown = unknown, []
        for candidate in asked:
            with suppress(psutil.Error):  # it has ended, or is somebody else's
                if candidate.create_time() >= since:
                    environment = candidate.environ()
                    found += [candidate] if environment.get("HOME") == str(home) else []
                    unknown += [] if environment else [candidate]
        if not unknown:
            break
        time.sleep(_LOOK_SECONDS)
    return found


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A private folder for one process, gone when it is done."""
    return tempfile.TemporaryDirectory(prefix="kernel-watchdog-", ignore_cleanup_errors=True)


def end_children() -> None:
    """End every process that this one started, and theirs. For an interrupt, when threads wait for them."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
