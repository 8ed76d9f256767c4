"""The user's own line behind an exception, wherever jax keeps it.

In order: the exception's frames; those of the exceptions that it came from (jax hands the stack of the operation that
does not lower on as the cause); the locations that compilers write into their text; the line of the program under
watch that holds the access, or the `pallas_call`, that the text is about. A line of jax's own is never the place, unless the implementation itself lies there.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import pallas

_CHECKS = str(Path(__file__).parent)
_RUNNERS = ("/_pytest/", "/pluggy/", "/pytest_benchmark/")
_STDLIB = sysconfig.get_paths()["stdlib"]
_LIBRARIES = ("jax", "jaxlib", "libtpu", "numpy", "ml_dtypes", "scipy", "opt_einsum")
_IN_TEXT = re.compile(
    r'"(?P<mlir>[^"\n]+\.py)":(?P<mlir_line>\d+)'  # loc("kernel.py":12:0), or "body"("kernel.py":12:4 to :9)
    r'|source_file="(?P<hlo>[^"\n]+)" source_line=(?P<hlo_line>\d+)'
    r"|\bat (?P<jax>/[^\s\"']+\.py):(?P<jax_line>\d+)"  # in pallas_call body at /srv/kernel.py:12
)
_ALLOCATED = re.compile(r"(?:shape = '|window shape is )\w+\[([\d,]+)\]")
_OUT_OF_BOUNDS = re.compile(
    r"Out-of-bounds (?P<what>read|write) of .*? but buffer has shape (?P<shape>\([\d, ]*\))", re.DOTALL
)
_MOST_CAUSES = 10

Place = tuple[str, int]


def where(error: BaseException, text: str, module: str) -> str | None:
    """The place of an exception with that text; `module` is the implementation's, which may lie in jax."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{short_path(error.filename)}:{error.lineno}"
    own = module.replace(".", "/")
    causes = list(_causes(error))
    if (
        type(error).__name__ == "LoweringException"
    ):  # jax's own around what one operation raised, and further out than it
        causes.reverse()
    frames = [list(_frames(one)) for one in causes]
    found = (
        *(_last(place for place in places if not is_library(place[0])) for places in frames),
        next((place for place in _places_in(text) if not is_library(place[0])), None),
        *(_last(place for place in places if own in place[0]) for places in frames),
        _pallas_call(error, text, own),
    )
    place = next((place for place in found if place), None)
    return f"{short_path(place[0])}:{place[1]}" if place else None


def is_machinery(filename: str) -> bool:
    """Whether a frame belongs to these checks, to what runs them or to the import system: never the place."""
    return filename.startswith((_CHECKS, "<frozen importlib")) or any(part in filename for part in _RUNNERS)


def is_library(filename: str) -> bool:
    """Whether a frame belongs to Python or to jax and what it stands on, so that the place is further out."""
    _, installed, within = filename.rpartition("/site-packages/")
    if installed:
        return within.partition("/")[0] in _LIBRARIES
    return filename.startswith(("<", _STDLIB))


def short_path(filename: str) -> str:
    """A file's path from the import path's entry that holds it, as people name it."""
    entries = sorted((entry for entry in sys.path if entry), key=len, reverse=True)
    for entry in entries:
        if filename.startswith(entry.rstrip("/") + "/"):
            return filename[len(entry.rstrip("/")) + 1 :]
    return filename


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it came from."""
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def _frames(error: BaseException) -> Iterator[Place]:
    """Outermost first, without the machinery's."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not is_machinery(frame.f_code.co_filename):
            yield frame.f_code.co_filename, line


def _places_in(text: str) -> Iterator[Place]:
    for match in _IN_TEXT.finditer(text):
        file = match["mlir"] or match["hlo"] or match["jax"]
        if not is_machinery(file):
            yield file, int(match["mlir_line"] or match["hlo_line"] or match["jax_line"])


def _pallas_call(error: BaseException, text: str, own: str) -> Place | None:
    """The line of the program's `pallas_call`; of several, the one that the text names or whose buffer it is about."""
    equations = _calls(error)
    if access := _access(equations, text, own):
        return access
    calls = [(call, place, function) for call in equations for place, function in _source(call, own)]
    named = (place for call, place, function in calls if _is_named(call, function, text))
    holding = (place for call, place, _ in calls if _holds_a_buffer_of(call, text))
    for places in ((place for _, place, _ in calls), named, holding):
        found = set(places)
        if len(found) == 1:
            return found.pop()
    return None


def _access(calls: list[Any], text: str, own: str) -> Place | None:
    """The only line of the kernels that reads (or writes) a buffer of the shape that the TPU interpreter complains of."""
    told = _OUT_OF_BOUNDS.search(text)
    if told is None:
        return None
    wanted = ("get", "masked_load", "load") if told["what"] == "read" else ("swap", "masked_swap", "store")
    lines = {
        place
        for call in calls
        for access in _equations(call.params.get("jaxpr"), wanted)
        if str(tuple(getattr(access.invars[0].aval, "shape", ()))) == told["shape"]
        for place, _ in _source(access, own)
    }
    return lines.pop() if len(lines) == 1 else None


def _is_named(call: Any, function: str, text: str) -> bool:
    """Whether a compiler's text names a Pallas call: by its name, by its body, or by the function that makes it."""
    body = getattr(getattr(call.params.get("jaxpr"), "debug_info", None), "func_name", None)
    names = [str(name) for name in (function, body, call.params.get("name")) if name]
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def _holds_a_buffer_of(call: Any, text: str) -> bool:
    """Whether one of the call's buffers has the shape of an allocation or a window that the text tells of."""
    shapes = _ALLOCATED.findall(text)
    return any(f"[{shape}]" in str(call.params.get("jaxpr")) for shape in shapes)


def _calls(error: BaseException) -> list[Any]:
    """The program's Pallas calls, where jax or a compiler raised. These know nothing of it: the checks' own frames do."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames or is_machinery(frames[-1].f_code.co_filename):
        return []
    for frame in frames:
        subject: Any = frame.f_locals.get("subject")
        if frame.f_code.co_filename.startswith(_CHECKS) and hasattr(subject, "traced"):
            try:
                return pallas.calls(subject.traced(None).jaxpr)
            except Exception:  # then it cannot be traced for this machine, and has no place to tell
                return []
    return []


def _equations(jaxpr: Any, names: tuple[str, ...]) -> Iterator[Any]:
    """The equations of these primitives, however deep."""
    for equation in getattr(getattr(jaxpr, "jaxpr", jaxpr), "eqns", ()):
        if equation.primitive.name in names:
            yield equation
        for value in equation.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(getattr(item, "jaxpr", item), "eqns"):
                    yield from _equations(item, names)


def _source(call: Any, own: str) -> list[tuple[Place, str]]:
    """The line and the function that a Pallas call was made in, by jax's own record of it; empty where it kept none."""
    trace = getattr(getattr(call, "source_info", None), "traceback", None)
    frames = [((one.file_name, one.line_num), one.function_name) for one in getattr(trace, "frames", ())]
    outside = [frame for frame in frames if not is_machinery(frame[0][0])]
    users = [frame for frame in outside if not is_library(frame[0][0])]
    return (users or [frame for frame in outside if own in frame[0][0]])[:1]


def _last(places: Iterator[Place]) -> Place | None:
    found = list(places)
    return found[-1] if found else None
