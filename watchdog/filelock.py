"""File locks that die with their owner.

flock(2) belongs to the open file, not to the process: a child that inherits the descriptor keeps the lock after its
parent was killed, and the operating system frees it when the last of them has gone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from watchdog.errors import UsageError

_POLL_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, seconds: float, on_wait: Callable[[], None] = lambda: None) -> Iterator[int | None]:
    """Hold `path` alone: its descriptor, or None when others kept it for `seconds`; `on_wait` is called once if we wait.

    Raises UsageError when the file cannot be opened.
    """
    with _held(path, fcntl.LOCK_EX, seconds, on_wait) as descriptor:
        yield descriptor


@contextmanager
def shared(path: Path, seconds: float = 0.0) -> Iterator[int | None]:
    """Hold `path` beside others who share it: its descriptor, or None when one held it alone for `seconds`.

    Raises UsageError when the file cannot be opened.
    """
    with _held(path, fcntl.LOCK_SH, seconds, lambda: None) as descriptor:
        yield descriptor


@contextmanager
def _held(path: Path, kind: int, seconds: float, on_wait: Callable[[], None]) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        msg = f"the lock file {path} cannot be opened: {error.strerror}"
        raise UsageError(msg) from error
    try:
        yield descriptor if _acquired(descriptor, kind, seconds, on_wait) else None
    finally:
        os.close(descriptor)


def _acquired(descriptor: int, kind: int, seconds: float, on_wait: Callable[[], None]) -> bool:
    give_up = time.monotonic() + seconds
    if _try(descriptor, kind):
        return True
    on_wait()
    while time.monotonic() < give_up:
        if _try(descriptor, kind):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
