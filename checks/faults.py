"""From an exception to a fault that helps: its class, its text, and the line of the user's that it came from.

A probe goes through stages (import, inputs, trace, lower, compile, run). A failure belongs to the check that asks
about that stage; for every later check of the same cell it is the reason why its own question could not be asked.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .emit import Fault, Observed
from .places import is_library, is_machinery, short_path, where

__all__ = ["NotHereError", "StageError", "at", "describe", "is_library", "is_machinery", "observe", "short_path"]

STAGES = ("import", "inputs", "trace", "lower", "compile", "run")

_OWNER = {"import": "import", "inputs": "lower", "trace": "lower", "lower": "lower", "compile": "compile"}
SENTENCE = {
    "import": "does not import",
    "inputs": "its inputs cannot be made",
    "trace": "does not trace",
    "lower": "does not lower",
    "compile": "does not compile",
}
_TRACEBACK_LIMIT = 12_000  # characters; the end says most


class NotHereError(Exception):
    """The question cannot be asked on this machine or of this implementation; the text says why."""


class StageError(Exception):
    """The probe stopped at a stage; the cause is the exception of the code under watch."""

    def __init__(self, stage: str, cause: BaseException) -> None:
        super().__init__(stage)
        self.stage, self.cause = stage, cause


@contextmanager
def at(stage: str) -> Iterator[None]:
    """What is raised inside happened at `stage`."""
    try:
        yield
    except (NotHereError, StageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise StageError(stage, error) from error


def observe(check: str, asked: list[str], module: str, probe: Callable[[], Observed]) -> Observed:
    """The outcome of a probe, whatever it raises.

    `asked` are the checks of the whole run: a failure at a stage that another of them asks about is a reason to
    skip, not a second finding. `module` is the implementation's, to find its lines in a traceback.
    """
    try:
        return probe()
    except NotHereError as reason:
        return Observed("skipped", reason=str(reason))
    except StageError as error:
        fault = describe(error.cause, module)
        owner = _OWNER.get(error.stage, check)
        if owner != check and owner in asked:
            return Observed("skipped", reason=f"{SENTENCE[error.stage]}: {fault.kind}: {_first_line(fault.message)}")
        return Observed("failed", fault=fault)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the code under watch may raise anything, SystemExit too
        return Observed("failed", fault=describe(error, module))


def describe(error: BaseException, module: str) -> Fault:
    """The exception as data."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    message = _message(error)
    return Fault(
        kind=type(error).__name__,
        message=message,
        where=where(error, message, module),
        traceback=text[-_TRACEBACK_LIMIT:],
        missing=_missing(error),
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # an exception's own text is code under watch, too
        return f"(its text raises {type(second).__name__})"


def _missing(error: BaseException) -> str | None:
    """The module, attribute or argument that was not there."""
    if isinstance(error, ImportError):
        named = re.search(r"cannot import name '([^']+)'", str(error))
        return named.group(1) if named else error.name
    if isinstance(error, AttributeError):
        return error.name or _quoted(error, r"has no attribute '([^']+)'")
    if isinstance(error, TypeError):
        return _quoted(error, r"unexpected keyword argument '([^']+)'")
    return None


def _quoted(error: BaseException, pattern: str) -> str | None:
    match = re.search(pattern, str(error))
    return match.group(1) if match else None


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:300] if lines else ""
