"""A fresh process for each cell, for the price of a fork.

The parent has jax imported and no backend started, so that a child begins clean within milliseconds. What one cell
does (an abort, a leak, a poisoned interpreter) cannot reach another, and the parent sees a child's death as data.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable

from .emit import Fault, Observed

_CHUNK = 65_536


def in_child(function: Callable[[], Observed]) -> Observed:
    """Call `function` in a forked child and return what it observed, or how the child died."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(function, writing)
    os.close(writing)
    answer, status = _await(child, reading)
    if answer and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return Observed.from_json(json.loads(answer))
    return died(status)


def _answer(function: Callable[[], Observed], writing: int) -> None:
    """The child's whole life. It never returns to pytest."""
    status = 1
    try:
        data = json.dumps(function().to_json(), allow_nan=False).encode()
        while data:
            data = data[os.write(writing, data) :]
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
