"""Processes for cells, for the price of a fork: a fresh one for each, or one for several that share what they started.

The parent has jax imported and no backend started, so that a child begins clean within milliseconds. What one cell
does (an abort, a leak, a poisoned interpreter) cannot reach another, and the parent sees a child's death as data.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from .emit import Fault, Observed

_CHUNK = 65_536
_TO_LEAVE = 5.0  # seconds
_QUOTED = 200  # characters of an answer that cannot be read
_private: list[int] = []


def keep_from_children(descriptor: int) -> None:
    """No child forked from now on holds this descriptor: what runs there cannot write on it."""
    _private.append(descriptor)


def _fork() -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        for descriptor in _private:
            os.close(descriptor)
        _private.clear()  # a grandchild has nothing left to close
    return child


def _read(answer: bytes) -> Observed:
    """The answer, or that it was spoilt: code under watch may have written into the pipe as well."""
    try:
        return Observed.from_json(json.loads(answer))
    except (ValueError, TypeError, KeyError) as error:
        beginning = answer[:_QUOTED].decode("utf-8", errors="replace")
        message = f"its answer cannot be read ({type(error).__name__}); it begins with {beginning!r}"
        return Observed("failed", fault=Fault(kind="answer lost", message=message))


def in_child(function: Callable[[], Observed]) -> Observed:
    """Call `function` in a forked child and return what it observed, or how the child died."""
    reading, writing = os.pipe()
    child = _fork()
    if child == 0:
        os.close(reading)
        _answer(function, writing)
    os.close(writing)
    answer, status = _await(child, reading)
    if answer and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return _read(answer)
    return died(status)


class Worker:
    """One child that answers several questions in turn; when it dies over one, the next one gets a new child.

    It is for questions that share what is slow to start (the compiler) and do no harm to each other. A question is any
    value that JSON can hold.
    """

    def __init__(self, answer: Callable[[Any], Observed]) -> None:
        self._function = answer
        self._child: int | None = None
        self._asking = self._reading = -1

    def ask(self, question: Any) -> Observed:
        """The answer to a question, or how the child died over it."""
        if self._child is None:
            self._start()
        os.write(self._asking, json.dumps(question).encode() + b"\n")
        answer, status = _await_line(self._child or 0, self._reading)
        if status is not None:
            self._child = None
            self.end()
            return died(status)
        observed = _read(answer)
        if observed.fault is not None and observed.fault.kind == "answer lost":
            self.end()  # what else is in the pipe answers nothing either
        return observed

    def end(self) -> None:
        """Let the child end, and free what it holds, a device perhaps; a later question starts another."""
        for descriptor in (self._asking, self._reading):
            if descriptor >= 0:
                _private.remove(descriptor)
                os.close(descriptor)
        self._asking = self._reading = -1
        if self._child is not None:
            _see_out(self._child)
            self._child = None

    def _start(self) -> None:
        questions, self._asking = os.pipe()
        self._reading, answers = os.pipe()
        self._child = _fork()
        if self._child == 0:
            os.close(self._asking)
            os.close(self._reading)
            self._serve(questions, answers)
        os.close(questions)
        os.close(answers)
        for descriptor in (self._asking, self._reading):  # else a later child keeps this one waiting for questions
            keep_from_children(descriptor)

    def _serve(self, questions: int, answers: int) -> None:
        """The child's whole life."""
        status = 1
        try:
            with os.fdopen(questions) as lines:
                for line in lines:
                    _write(
                        answers,
                        json.dumps(self._function(json.loads(line)).to_json(), allow_nan=False).encode() + b"\n",
                    )
            status = 0
        except BaseException:
            traceback.print_exc()  # what could not be answered is the checks' own fault
        finally:
            os._exit(status)


def _see_out(child: int) -> None:
    """Wait for a child that has nothing left to read, and kill it when it stays."""
    give_up = time.monotonic() + _TO_LEAVE
    while time.monotonic() < give_up:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _await_line(child: int, reading: int) -> tuple[bytes, int | None]:
    """A whole line and None, or what there is and the status of a child that died over it."""
    answer = b""
    while not answer.endswith(b"\n"):
        ready, _, _ = select.select([reading], [], [], 0.02)
        chunk = os.read(reading, _CHUNK) if ready else None
        answer += chunk or b""
        if not ready or chunk == b"":
            finished, status = os.waitpid(child, 0 if chunk == b"" else os.WNOHANG)
            if finished:
                return answer, status
    return answer, None


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _answer(function: Callable[[], Observed], writing: int) -> None:
    """The child's whole life. It never returns to pytest."""
    status = 1
    try:
        _write(writing, json.dumps(function().to_json(), allow_nan=False).encode())
        status = 0
    except BaseException:
        traceback.print_exc()  # to the cell's log: what could not be answered is the checks' own fault
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _await(child: int, reading: int) -> tuple[bytes, int]:
    """All that the child wrote, and its status; a grandchild that keeps the pipe open is not waited for."""
    answer, status = b"", None
    while status is None:
        ready, _, _ = select.select([reading], [], [], 0.02)
        chunk = os.read(reading, _CHUNK) if ready else None
        answer += chunk or b""
        if not ready or chunk == b"":
            finished, waited = os.waitpid(child, 0 if chunk == b"" else os.WNOHANG)
            status = waited if finished else None
    while select.select([reading], [], [], 0)[0] and (chunk := os.read(reading, _CHUNK)):
        answer += chunk
    os.close(reading)
    return answer, status


def died(status: int) -> Observed:
    """The observation of a process that ended without an answer."""
    kind = _signal(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
    return Observed("crashed", fault=Fault(kind=kind, message="the process ended before it could answer"))


def _signal(number: int) -> str:
    """As people call it; most real-time signals have no name."""
    names = {known.value: known.name for known in signal.Signals}
    return f"signal {number} ({names[number]})" if number in names else f"signal {number}"
