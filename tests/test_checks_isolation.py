"""A forked child for each cell: whatever it does, the parent has an observation of it."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

from tests.inside import checks

isolation = checks("isolation")
emit = checks("emit")

OBSERVED = emit.Observed("observed", data={"bundles": 506, "pid": None}, series={"fds": [1.0, 2.0]})


def crashed(act: Callable[[], object]) -> Any:
    """The fault of a child that does `act` before it could answer."""

    def function() -> Any:
        faulthandler.disable()  # pytest's, which would fill the screen
        act()
        return OBSERVED

    observed = isolation.in_child(function)
    assert observed.outcome == "crashed"
    assert observed.fault.message == "the process ended before it could answer"
    return observed.fault


def kill_oneself(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_an_answer_comes_back_whole() -> None:
    """What the child observed is what the parent gets, and it was another process that observed it."""
    observed = isolation.in_child(lambda: emit.Observed("observed", data={"pid": os.getpid()}, series={"fds": [1.5]}))
    assert observed.data["pid"] != os.getpid()
    assert observed.series == {"fds": [1.5]}


def test_a_fault_comes_back_as_a_fault() -> None:
    """A fault keeps its type and its fields on the way."""
    fault = emit.Fault(kind="ValueError", message="ä\n\udc80", where="k.py:1", missing=None)
    assert isolation.in_child(lambda: emit.Observed("failed", fault=fault)) == emit.Observed("failed", fault=fault)


def test_an_answer_larger_than_a_pipe_comes_back() -> None:
    """5 MB pass through."""
    series = {"seconds": [float(number) for number in range(400_000)], "text": ["x" * 3_000_000]}
    assert isolation.in_child(lambda: emit.Observed("observed", series=series)).series == series


def test_numbers_that_json_lacks_are_words() -> None:
    """NaN in the data does not cost the answer."""
    observed = isolation.in_child(lambda: emit.Observed("observed", data={"rms": float("nan")}))
    assert observed.data == {"rms": "nan"}


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (os.abort, "signal 6 (SIGABRT)"),
        (kill_oneself(signal.SIGSEGV), "signal 11 (SIGSEGV)"),
        (kill_oneself(signal.SIGKILL), "signal 9 (SIGKILL)"),
        (kill_oneself(40), "signal 40"),  # a real-time signal has no name
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os._exit(0), "exit code 0"),  # a kernel that exits well has not answered
    ],
)
def test_a_child_that_dies_is_a_crash(act: Callable[[], object], kind: str) -> None:
    """A signal or an exit is named as it was."""
    assert crashed(act).kind == kind


def test_an_answer_that_cannot_be_written_says_why_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """Something that JSON cannot hold ends the child with exit code 1, and the log has the traceback."""
    observed = isolation.in_child(lambda: emit.Observed("observed", data={"device": object()}))
    assert observed.fault.kind == "exit code 1"
    assert "Object of type object is not JSON serializable" in capfd.readouterr().err


def test_a_child_that_raises_is_a_crash_and_never_returns_here(capfd: pytest.CaptureFixture[str]) -> None:
    """An exception that nobody caught stays in the child; the parent's own code does not run twice."""

    def act() -> NoReturn:
        raise KeyboardInterrupt

    assert crashed(act).kind == "exit code 1"
    assert "KeyboardInterrupt" in capfd.readouterr().err


@pytest.mark.parametrize("answers", [True, False])
def test_a_grandchild_that_keeps_the_pipe_open_is_not_waited_for(answers: bool, tmp_path: Path) -> None:
    """A process that the child left behind, with all of its descriptors, does not hold up the observation."""
    note = tmp_path / "pid"

    def function() -> Any:
        grandchild = os.fork()
        if grandchild == 0:
            time.sleep(60)
            os._exit(0)
        note.write_text(str(grandchild))
        if not answers:
            os._exit(7)
        return OBSERVED

    observed = isolation.in_child(function)
    psutil.Process(int(note.read_text())).kill()  # still there, so nobody waited for it
    assert observed.outcome == ("observed" if answers else "crashed")


def test_nothing_is_left_open() -> None:
    """After forty children, as many descriptors are open as before, and no zombie is left."""
    before = psutil.Process().num_fds()
    for _ in range(20):
        isolation.in_child(lambda: OBSERVED)
        crashed(lambda: os._exit(1))
    assert psutil.Process().num_fds() == before
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


def pipes() -> list[int]:
    """The descriptors of this process that are pipes open for writing, beyond the standard ones."""
    found = [int(path.name) for path in Path("/proc/self/fd").iterdir() if int(path.name) > 2]
    return [one for one in found if is_pipe_to_write(one)]


def is_pipe_to_write(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
        return stat.S_ISFIFO(mode) and bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_WRONLY)
    except OSError:  # the one that listed them
        return False


class TestWorker:
    """One child that answers several questions."""

    def test_one_child_answers_all(self) -> None:
        """The questions of one worker share a process."""
        worker = isolation.Worker(lambda number: emit.Observed("observed", data={"number": number, "pid": os.getpid()}))
        answers = [worker.ask(number).data for number in (3, 1, 2)]
        worker.end()
        assert [answer["number"] for answer in answers] == [3, 1, 2]
        assert len({answer["pid"] for answer in answers}) == 1
        assert answers[0]["pid"] != os.getpid()

    def test_a_death_is_the_answer_to_one_question(self) -> None:
        """The question over which the child died is answered by its death, the next by a new child."""

        def answer(number: int) -> Any:
            if number == 1:
                os._exit(3)
            return emit.Observed("observed", data={"number": number})

        worker = isolation.Worker(answer)
        outcomes = [worker.ask(number) for number in range(3)]
        worker.end()
        assert [one.outcome for one in outcomes] == ["observed", "crashed", "observed"]
        assert outcomes[1].fault.kind == "exit code 3"

    def test_garbage_is_no_answer(self) -> None:
        """What code under watch writes into the pipe is said to have spoilt the answer; the next one is whole."""

        def answer(number: int) -> Any:
            if number == 0:
                for descriptor in pipes():
                    os.write(descriptor, b"\xff{garbage\n")
            return emit.Observed("observed", data={"number": number})

        worker = isolation.Worker(answer)
        fault = worker.ask(0).fault
        assert (fault.kind, "garbage" in fault.message) == ("answer lost", True)
        assert worker.ask(1).data == {"number": 1}
        worker.end()

    def test_a_long_answer_arrives_whole(self) -> None:
        """Five megabytes, more than any pipe holds."""
        worker = isolation.Worker(lambda number: emit.Observed("observed", data={"text": "x" * (5_000_000 + number)}))
        assert len(worker.ask(7).data["text"]) == 5_000_007
        worker.end()

    def test_a_child_cannot_write_on_what_is_kept_from_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The record stream, say: the child's copy of the descriptor is closed."""
        reading, writing = os.pipe()
        monkeypatch.setattr(isolation, "_private", [writing])
        held = isolation.in_child(lambda: emit.Observed("observed", data={"held": writing in pipes()})).data["held"]
        assert held is False
        assert writing in pipes()
        os.close(reading)
        os.close(writing)

    def test_nothing_is_left(self) -> None:
        """After the end there is no child."""
        worker = isolation.Worker(lambda _number: emit.Observed("observed", data={"pid": os.getpid()}))
        pid = worker.ask(0).data["pid"]
        worker.end()
        assert not psutil.pid_exists(pid)

    def test_a_later_child_does_not_keep_an_earlier_one(self) -> None:
        """Of two workers each can end by itself: the second one's child holds no end of the first one's pipes."""
        first, second = (isolation.Worker(lambda _: emit.Observed("observed", data={"held": pipes()})) for _ in "ab")
        first.ask(1)
        kept = {first._asking, first._reading}
        held = second.ask(2).data["held"]
        first.end()
        assert not kept & set(held)
        assert second.ask(3).outcome == "observed"
        second.end()
