"""What a callback raised, taken out of jax's own error: that has a whole traceback for its message.

The same for pure_callback and io_callback, seen under jax 0.5.3 (where "calling callback" is missing) to 0.12.0 (where
the compiler's own files may follow):

    JaxRuntimeError: INTERNAL: CpuCallback error calling callback: Traceback (most recent call last):
      File "/srv/env/lib/python3.11/site-packages/jax/_src/callback.py", line 71, in __call__
      File "/srv/kernels/mine.py", line 4, in lookup
    ValueError: the real thing
"""

from __future__ import annotations

import re
from dataclasses import replace

from watchdog.judges.fault_texts import without_trace
from watchdog.judges.places import is_library, within
from watchdog.model import Fault

_WRAPPED = re.compile(r"\A[A-Z_]+: (?:[^\n]*: )?\w*Callback error[^\n]*: Traceback \(most recent call last\):\n")
_TRACEBACK = "Traceback (most recent call last):\n"
_FRAMES = re.compile(r"(?:[ \t][^\n]*(?:\n|\Z))*")
_FRAME = re.compile(r'^  File "([^"\n]+)", line (\d+)', re.MULTILINE)
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?::\s(.*))?:?", re.DOTALL)
_HANDED_OVER = "/jax/_src/callback.py"


def unwrapped(fault: Fault) -> Fault:
    """The exception at the end of the traceback that is `fault`'s message; `fault` itself where there is none."""
    if not _WRAPPED.match(fault.message):
        return fault
    _, _, told = without_trace(fault.message).rpartition(_TRACEBACK)  # the last one: a callback may call another
    frames = _FRAMES.match(told)
    raised = _RAISED.fullmatch(told[frames.end() :].rstrip()) if frames else None
    if frames is None or raised is None:
        return fault
    own = _own_frames(frames[0])
    mine = [f"{_name(file)}:{line}" for file, line in own if not is_library(file)]
    return replace(
        fault,
        kind=raised[1].rpartition(".")[2],
        message=(raised[2] or "").strip(),
        where=mine[-1] if mine else fault.where,
        traceback="\n".join(file for file, _ in own),
    )


def _own_frames(frames: str) -> list[tuple[str, str]]:
    """File and line of the frames after the one where jax hands over to the callback; none where it is not seen."""
    found: list[tuple[str, str]] = _FRAME.findall(frames)
    handed_over = [place for place, (file, _) in enumerate(found) if file.endswith(_HANDED_OVER)]
    return found[handed_over[-1] + 1 :] if handed_over else []


def _name(file: str) -> str:
    """A file's path as people name it: below the installed packages, or else its name alone."""
    inside = within(file)
    return inside if inside != file else file.rpartition("/")[2]
