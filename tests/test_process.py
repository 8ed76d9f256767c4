"""The seam to the processes that run code under watch, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from watchdog import process
from watchdog.process import Ended, Limits, Listener, Stopped
from watchdog.rooms import room

MIB = 2**20
GENEROUS = Limits(seconds=60, memory=2**34)

# What every process under these tests begins with: `say` writes a line to the record, `living` is the other descriptor.
PROLOGUE = """
import os, signal, subprocess, sys, time
record, living = int(sys.argv[-2]), int(sys.argv[-1])
def say(line):
    os.write(record, str(line).encode() + b"\\n")
def left_behind(**how):
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], **how).pid
"""


def python(source: str) -> list[str]:
    return [sys.executable, "-I", "-c", PROLOGUE + textwrap.dedent(source)]


@dataclass
class Heard:
    """Collects lines. A line `start` begins a cell, as a line `answer` ends it; each may be reacted to."""

    react: Callable[[str], object] = lambda _: None
    lines: list[str] = field(default_factory=list)
    began: float | None = None

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self.began = {"start": time.monotonic(), "answer": None}.get(line, self.began)
        self.react(line)


@dataclass
class Supervisor:
    """Supervises Python sources in a folder of its own."""

    folder: Path
    heard: Heard = field(default_factory=Heard)
    stop: threading.Event = field(default_factory=threading.Event)

    def __call__(self, source: str, limits: Limits = GENEROUS) -> Ended:
        return process.supervise(
            python(source),
            folder=self.folder,
            log=self.folder / "process.log",
            limits=limits,
            listener=Listener(self.heard, lambda: self.heard.began),
            stop=self.stop,
        )

    @property
    def log(self) -> str:
        return (self.folder / "process.log").read_text()


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked for its status yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def all_end(pids: list[int]) -> bool:
    """Whether all of them end, waited for up to a point where they never will."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not all(map(is_gone, pids)):
        time.sleep(0.02)
    return all(map(is_gone, pids))


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor; afterwards no child, no zombie and no descriptor of its is left."""
    own = psutil.Process()
    descriptors = own.num_fds()
    yield Supervisor(tmp_path)
    assert own.children(recursive=True) == []
    assert own.num_fds() == descriptors
    assert all_end([stray.pid for stray in process._living_at(tmp_path, own.create_time())])


class TestRecords:
    def test_lines_arrive_while_it_runs(self, supervise: Supervisor) -> None:
        """A line is heard before the next thing starts: this process waits until its first line was answered."""
        answer = supervise.folder / "answer"
        supervise.heard.react = lambda _: answer.touch()
        ended = supervise("""
            say("first")
            while not os.path.exists("answer"):
                time.sleep(0.01)
            say("second")
        """)
        assert supervise.heard.lines == ["first", "second"]
        assert (ended.status, ended.stopped, ended.kind) == (0, None, "exit code 0")

    def test_half_a_line_at_death_is_not_heard(self, supervise: Supervisor) -> None:
        """What a process wrote before it died counts, save a line that it did not finish."""
        ended = supervise("""
            say("whole")
            os.write(record, b"ha")
            os.write(record, b"lf\\nand half")
            os.abort()
        """)
        assert supervise.heard.lines == ["whole", "half"]
        assert ended.kind == "signal 6 (SIGABRT)"

    def test_long_lines_and_strange_bytes_arrive(self, supervise: Supervisor) -> None:
        """A line of 5 MB is whole, and bytes that are no text are replaced."""
        supervise("""
            data = b"x" * 5_000_000 + b"\\n\\xff\\xfe\\n"
            while data:
                data = data[os.write(record, data):]
        """)
        assert [len(line) for line in supervise.heard.lines] == [5_000_000, 2]
        assert supervise.heard.lines[1] == "\ufffd\ufffd"

    def test_many_lines_arrive_in_order(self, supervise: Supervisor) -> None:
        """None of 20,000 lines is lost, and the last ones are heard after the process has ended."""
        supervise("""
            for number in range(20_000):
                say(number)
        """)
        assert supervise.heard.lines == [str(number) for number in range(20_000)]

    def test_a_record_that_is_closed_early_is_no_end(self, supervise: Supervisor) -> None:
        """A process that closes its record is waited for."""
        assert supervise("os.close(record); time.sleep(0.3); os._exit(5)").kind == "exit code 5"

    def test_its_output_is_in_the_log(self, supervise: Supervisor) -> None:
        """Standard output and standard error go to the log, and standard input is empty."""
        supervise("""
            print("to stdout", repr(sys.stdin.read()), flush=True)
            os.write(2, b"to stderr\\n")
        """)
        assert supervise.log == "to stdout ''\nto stderr\n"


class TestEnds:
    @pytest.mark.parametrize(
        ("act", "kind"),
        [
            ("sys.exit(0)", "exit code 0"),
            ("sys.exit(3)", "exit code 3"),
            ("os._exit(255)", "exit code 255"),
            ("os.abort()", "signal 6 (SIGABRT)"),
            ("os.kill(os.getpid(), signal.SIGSEGV)", "signal 11 (SIGSEGV)"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9 (SIGKILL)"),
            ("os.kill(os.getpid(), 40)", "signal 40"),  # a real-time signal has no name
        ],
    )
    def test_how_it_ended_is_told_in_words(self, supervise: Supervisor, act: str, kind: str) -> None:
        """An exit code or a signal is named as it was."""
        ended = supervise(act)
        assert (ended.kind, ended.stopped) == (kind, None)

    def test_a_process_that_cannot_start_is_an_error(self, supervise: Supervisor) -> None:
        """A command that does not exist raises OSError, and nothing stays open."""
        with pytest.raises(FileNotFoundError):
            process.supervise(
                ["/nowhere/python"],
                folder=supervise.folder,
                log=supervise.folder / "process.log",
                limits=GENEROUS,
                listener=Listener(supervise.heard, lambda: None),
                stop=supervise.stop,
            )

    def test_a_listener_that_fails_ends_the_process(self, supervise: Supervisor) -> None:
        """When an observation cannot be kept, the process ends and the error is told."""

        def full_disk(_: str) -> None:
            raise OSError(28, "No space left on device")

        supervise.heard.react = full_disk
        with pytest.raises(OSError, match="No space left"):
            supervise("say(os.getpid()); time.sleep(300)")
        assert is_gone(int(supervise.heard.lines[0]))

    def test_the_wish_to_stop_ends_it(self, supervise: Supervisor) -> None:
        """When the event is set, the process and its children end, and what they wrote before was heard."""
        supervise.heard.react = lambda line: supervise.stop.set() if line == "ready" else None
        ended = supervise("""
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(left_behind())
            say("ready")
            time.sleep(300)
        """)
        assert (ended.stopped, ended.kind) == (Stopped.INTERRUPT, "interrupt")
        assert all_end([int(supervise.heard.lines[0])])


class TestDescendants:
    @pytest.mark.parametrize("how", ["start_new_session=False", "start_new_session=True", "env={}"])
    @pytest.mark.parametrize("end", ["os._exit(0)", "os.abort()", "say('start'); time.sleep(300)"])
    def test_all_of_them_end_with_it(self, supervise: Supervisor, end: str, how: str) -> None:
        """However it ends, its children end: one in its group, one that left for a session of its own, one without HOME."""
        ended = supervise(f"say(left_behind({how})); {end}", Limits(seconds=1, memory=2**34))
        assert (ended.stopped is Stopped.TIME) == ("start" in end)
        assert all_end([int(supervise.heard.lines[0])])

    def test_a_daemon_ends_with_it(self, supervise: Supervisor) -> None:
        """A grandchild that left the session, whose parent has ended, and that keeps the record open, ends."""
        supervise("""
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    say(os.getpid())
                    time.sleep(300)
                os._exit(0)
            os.wait()
            time.sleep(0.2)
        """)
        assert all_end([int(supervise.heard.lines[0])])

    def test_others_are_left_alone(self, supervise: Supervisor) -> None:
        """A process of somebody else's is not ended, even one in the same folder."""
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], cwd=supervise.folder)
        try:
            supervise("os.abort()")
            assert other.poll() is None
        finally:
            other.kill()
            other.wait()


class TestTimeLimit:
    LIMIT = Limits(seconds=1, memory=2**34)

    def test_a_cell_that_hangs_is_stopped(self, supervise: Supervisor) -> None:
        """From its start, a cell has so many seconds; a process that ignores signals is ended all the same."""
        ended = supervise(
            """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say("start")
            while True:
                pass
            """,
            self.LIMIT,
        )
        assert (ended.stopped, ended.kind) == (Stopped.TIME, "time limit")
        assert supervise.heard.lines == ["start"]

    def test_each_cell_has_the_limit_anew(self, supervise: Supervisor) -> None:
        """A process whose cells all answer in time may take longer than the limit."""
        ended = supervise(
            """
            for _ in range(5):
                say("start")
                time.sleep(0.4)
                say("answer")
            """,
            Limits(seconds=1.6, memory=2**34),
        )
        assert (ended.stopped, ended.kind) == (None, "exit code 0")
        assert supervise.heard.lines == ["start", "answer"] * 5

    @pytest.mark.parametrize("before", ["pass", "say('start'); say('answer')"])
    def test_a_process_that_hangs_between_cells_is_stopped(self, supervise: Supervisor, before: str) -> None:
        """Before the first cell and after the last, the same limit holds: a hang on import or at exit ends too."""
        assert supervise(f"{before}; time.sleep(300)", self.LIMIT).stopped is Stopped.TIME

    def test_a_process_that_never_stops_talking_is_stopped(self, supervise: Supervisor) -> None:
        """An endless record does not keep the limits from being looked at."""
        ended = supervise("say('start')\nwhile True: os.write(record, b'x' * 65536)", self.LIMIT)
        assert ended.stopped is Stopped.TIME


class TestMemoryLimit:
    LIMIT = Limits(seconds=60, memory=200 * MIB)
    HOLD = "held = bytearray(os.urandom(1024)) * (1024 * {mib}); "

    def test_a_process_that_holds_too_much_is_stopped(self, supervise: Supervisor) -> None:
        """300 MiB are more than 200 MiB, and how much it was is told."""
        ended = supervise(self.HOLD.format(mib=300) + "time.sleep(300)", self.LIMIT)
        assert (ended.stopped, ended.kind) == (Stopped.MEMORY, "memory limit")
        assert ended.memory > self.LIMIT.memory

    def test_its_children_count(self, supervise: Supervisor) -> None:
        """Three processes of 100 MiB together are too much, though each alone is not."""
        source = "if os.fork(): os.fork()\n" + self.HOLD.format(mib=100) + "time.sleep(300)"
        assert supervise(source, self.LIMIT).stopped is Stopped.MEMORY

    def test_what_a_fork_shares_counts_once(self, supervise: Supervisor) -> None:
        """Three processes that share the same 100 MiB hold 100 MiB."""
        ended = supervise(
            self.HOLD.format(mib=100) + "\nchildren = [os.fork()]\nif children[0]: os.fork()\ntime.sleep(1)", self.LIMIT
        )
        assert (ended.stopped, ended.kind) == (None, "exit code 0")
        assert 100 * MIB < ended.memory < self.LIMIT.memory


class TestSurroundings:
    def test_only_what_a_check_needs_is_passed_on(self, supervise: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        """Credentials, Python's and the libraries' own settings stay out; home and temporary files are its own."""
        stray = ("PYTHONPATH", "PYTHONSTARTUP", "GITHUB_TOKEN", "UV_INDEX_URL", "AWS_SECRET_ACCESS_KEY", "XLA_FLAGS")
        for name in (*stray, "JAX_PLATFORMS", "LIBTPU_INIT_ARGS", "VIRTUAL_ENV", "SSH_AUTH_SOCK"):
            monkeypatch.setenv(name, "x")
        monkeypatch.setenv("LC_ALL", "C.UTF-8")
        supervise("import json; say(json.dumps(dict(os.environ)))")
        seen = json.loads(supervise.heard.lines[0])
        folder = str(supervise.folder)
        assert (seen["HOME"], seen["TMPDIR"], seen["LC_ALL"]) == (folder, folder, "C.UTF-8")
        assert seen["PATH"] == os.environ["PATH"]
        assert not seen.keys() - {*process._PASSED, "HOME", "TMPDIR"}

    def test_it_has_a_session_and_a_group_of_its_own(self, supervise: Supervisor) -> None:
        """A signal to this program's group does not reach it, nor the other way round."""
        supervise("say(os.getpid() == os.getpgrp() == os.getsid(0)); say(os.getcwd())")
        assert supervise.heard.lines == ["True", str(supervise.folder)]

    def test_no_other_descriptor_reaches_it(self, supervise: Supervisor) -> None:
        """Beside the standard ones it has the two that it was given."""
        own = os.open(os.devnull, os.O_RDONLY)
        os.set_inheritable(own, True)
        supervise("""
            listed = [int(name) for name in os.listdir("/proc/self/fd")]
            say([number for number in listed if os.path.exists(f"/proc/self/fd/{number}")] == [0, 1, 2, record, living])
        """)
        os.close(own)
        assert supervise.heard.lines == ["True"]

    def test_the_scratch_folder_is_private_and_goes(self) -> None:
        """Only its owner can look into it, and it is gone afterwards, with what was left in it."""
        with process.scratch_folder() as name:
            folder = Path(name)
            (folder / "deep").mkdir()
            (folder / "deep" / "file").touch()
            assert folder.stat().st_mode & 0o077 == 0
        assert not folder.exists()


class TestTheProgramsOwnEnd:
    SUPERVISOR = """
        import sys, threading
        from pathlib import Path
        sys.path.insert(0, {root!r})
        from watchdog import process
        process.supervise(
            {command!r},
            folder=Path({folder!r}),
            log=Path({folder!r}) / "process.log",
            limits=process.Limits(300, 2**40),
            listener=process.Listener(lambda line: print(line, flush=True), lambda: None),
            stop=threading.Event(),
        )
    """
    LISTEN = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("run", {str(room("checks") / "run.py")!r})
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)
run._die_with_the_program(living)
"""

    def killed(self, folder: Path, source: str) -> list[int]:
        """The processes of a supervised source, once the supervising program has been killed."""
        root = str(Path(process.__file__).parents[1])
        script = textwrap.dedent(self.SUPERVISOR).format(root=root, command=python(source), folder=str(folder))
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            pids = [int(pid) for pid in program.stdout.readline().split()]
            program.kill()
        return pids

    def test_all_processes_end_when_the_program_is_killed(self, tmp_path: Path) -> None:
        """Nobody is left to end them, so the operating system does: the process and its child, which knows nothing."""
        pids = self.killed(tmp_path, f"{self.LISTEN}\nsay(f'{{os.getpid()}} {{left_behind()}}'); time.sleep(300)")
        assert len(pids) == 2
        assert all_end(pids)

    def test_it_ends_when_the_program_was_killed_before_it_listened(self, tmp_path: Path) -> None:
        """A process that is still starting when the program is killed ends as soon as it listens."""
        wait = "say(os.getpid())\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
        pids = self.killed(tmp_path, f"{wait}{self.LISTEN}\ntime.sleep(300)")
        assert not is_gone(pids[0])
        (tmp_path / "go").touch()
        assert all_end(pids)

    def test_children_end_at_an_interrupt(self) -> None:
        """Every process that this one started is ended, and what they started."""
        child = subprocess.Popen([*python("say(left_behind()); time.sleep(300)"), "1", "1"], stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child.stdout:
            grandchild = int(child.stdout.readline())
        process.end_children()
        assert child.wait() == -signal.SIGKILL
        assert all_end([grandchild])
