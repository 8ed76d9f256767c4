"""The TPU interpreter of this release of jax: its strictest settings, and what it does while it runs.

It simulates a TPU's memories, copies and semaphores by callbacks from a compiled program. The callbacks are wrapped, for
three things that the interpreter does not tell itself: the kernel's line behind an exception, the line that waits for a
semaphore which nothing signals, and the first line that reads a NaN.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from .emit import Fault, Observed
from .faults import NotHereError
from .places import is_library, is_machinery, short_path

MODULES = (  # where it lives: from 0.8.0 on, and before
    "jax._src.pallas.mosaic.interpret.interpret_pallas_call",
    "jax._src.pallas.mosaic.interpret",
)
_HOMES = ("jax.experimental.pallas.tpu", *MODULES)  # of its parameters; 0.5.3 keeps them to itself
_NAMES = ("InterpretParams", "TPUInterpretParams")
_CORES = ("num_cores_or_threads", "num_cores_or_threads_per_device", "num_cores_per_device")

# Copies happen only when waited for, fresh memory holds NaN, reading out of bounds raises, a race does not end the run
# (it is told at the end), the order of parallel grid points is the same every time.
STRICTEST: dict[str, Any] = {
    "dma_execution_mode": "on_wait",
    "uninitialized_memory": "nan",
    "out_of_bounds_reads": "raise",
}
_WHERE_THERE_IS_ONE: dict[str, Any] = {"buffer_bounds": "logical", "on_race": "warn", "random_seed": 0}
_CLOCKS = 32  # entries of the vector clocks: with the default of 4, copies share entries and their races hide

SAY_AFTER, GIVE_UP_AFTER = 3.0, 30.0  # seconds in which a waiting kernel does nothing at all
_WAITS = ("dma_wait", "semaphore_wait")
_OF_THE_KERNEL = re.compile(r"out[- ]of[- ]bounds|out of range|revisited|\brace\b", re.IGNORECASE)


class LimitError(Exception):
    """An interpreter cannot run this program: its own fault, never the kernel's. The text names it and its release."""


class EndlessWaitError(Exception):
    """The kernel waits for a semaphore that nothing signals."""

    def __init__(self, sentence: str, place: str | None) -> None:
        super().__init__(sentence)
        self.place = place

    def observed(self) -> Observed:
        """As if the time limit had ended it, only sooner, and with the line."""
        fault = Fault("EndlessWait", str(self), where=short(self.place))
        return Observed("hung", fault=fault)


@dataclass(frozen=True)
class Strict:
    """The TPU interpreter's parameters, and the names of the wanted settings that this release lacks."""

    parameters: Any
    cores: int
    missing: tuple[str, ...]


def strict(*, cores: int = 1, detect_races: bool = False, **instead: Any) -> Strict:
    """The strictest settings, with some of them replaced by `instead`.

    Raises NotHereError where this release has no TPU interpreter, or it cannot be imported.
    """
    make = _parameters()
    known = set(inspect.signature(make).parameters)
    of_cores = next((name for name in _CORES if name in known), None)
    where_there_is_one = {name: value for name, value in _WHERE_THERE_IS_ONE.items() if name in known}
    wanted = {**STRICTEST, **where_there_is_one, **instead}
    if detect_races:
        wanted |= {"detect_races": True} | ({"vector_clock_size": _CLOCKS} if "vector_clock_size" in known else {})
    if of_cores:
        wanted[of_cores] = cores
    missing = [name for name in wanted if name not in known]
    if cores > 1 and not of_cores:
        missing.append("num_cores")
    given = {name: value for name, value in wanted.items() if name in known}
    return Strict(make(**given), cores if of_cores else 1, tuple(sorted(missing)))


def _parameters() -> Callable[..., Any]:
    failures = []
    for home in _HOMES:
        try:
            module = importlib.import_module(home)
        except ImportError as error:
            failures.append(f"{home}: {error}")
            continue
        for name in _NAMES:
            if (found := getattr(module, name, None)) is not None:
                return found  # type: ignore[no-any-return]  # a class, whose keywords are asked
    message = f"the TPU interpreter of jax {_release()} cannot be used: {failures[0] if failures else 'there is none'}"
    raise NotHereError(message)


def _release() -> str:
    import jax

    return str(jax.__version__)


def module() -> ModuleType | None:
    """The interpreter's own module; None in a release that keeps it elsewhere."""
    for name in MODULES:
        try:
            found = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(found, "callback"):
            return found
    return None


@dataclass
class Watch:
    """What the interpreter's callbacks tell of one run. A place is `path:line` of the kernel's own code."""

    look_for_nan: bool = False
    raised: list[tuple[BaseException, str | None]] = field(default_factory=list)
    waiting: dict[int, tuple[str, str | None]] = field(default_factory=dict)  # by thread: callback and place
    first_nan: str | None = None
    last_event: float = field(default_factory=time.monotonic)

    def call(self, function: Callable[..., Any], place: str | None, *args: Any, **kwargs: Any) -> Any:
        """Run one callback."""
        name, thread = _name(function), threading.get_ident()
        self.last_event = time.monotonic()
        if name in _WAITS:
            self.waiting[thread] = name, place
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self.raised.append((error, place))
            raise
        finally:
            self.waiting.pop(thread, None)
            self.last_event = time.monotonic()
        if self.look_for_nan and self.first_nan is None and name == "get" and _holds_nan(result):
            self.first_nan = place
        return result

    def idle(self) -> float:
        """Seconds for which a kernel that waits has done nothing else; 0 while none waits."""
        return time.monotonic() - self.last_event if self.waiting else 0.0

    def waits_for(self) -> tuple[str, str | None]:
        """What it waits for, and the line that waits."""
        name, place = next(iter(self.waiting.values()), ("semaphore_wait", None))
        return "a copy that nothing has started" if name == "dma_wait" else "a semaphore that nothing signals", place


def _name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", "")


def _holds_nan(result: Any) -> bool:
    arrays = result if isinstance(result, tuple) else (result,)
    return any(np.issubdtype(np.asarray(array).dtype, np.inexact) and np.isnan(array).any() for array in arrays)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """The callbacks of all programs that are traced and run inside tell `watch`."""
    interpreter = module()
    if interpreter is None:
        yield
        return
    _know_any(interpreter)
    original = interpreter.callback
    interpreter.callback = _Watched(original, watch)  # type: ignore[attr-defined]  # seen above
    warnings = _WarningsToLog()
    logging.getLogger().addHandler(warnings)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(warnings)
        interpreter.callback = original  # type: ignore[attr-defined]  # seen above


def _know_any(interpreter: ModuleType) -> None:
    """`pl.ANY` is the memory that 0.5.3 knows by an older name only; without it no copy by hand could be interpreted."""
    spaces = getattr(interpreter, "TPU_MEMORY_SPACE_IDXS", {})
    public = getattr(sys.modules.get("jax.experimental.pallas"), "ANY", None)
    older = next((number for space, number in spaces.items() if getattr(space, "value", None) == "any"), None)
    if public is not None and older is not None:
        spaces.setdefault(public, older)


class _WarningsToLog(logging.Handler):
    """Races are warned of from 0.12 on and printed before; here they lie in the cell's log either way."""

    def emit(self, record: logging.LogRecord) -> None:
        if "race" in record.getMessage().lower():
            sys.stdout.write(f"{record.getMessage()}\n")


class _Watched:
    """`jax._src.callback` with callbacks that tell; the interpreter places them with the kernel's line as context."""

    def __init__(self, original: Any, watch: Watch) -> None:
        self._original, self._watch = original, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def io_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """As jax's, with `function` wrapped."""
        told = functools.partial(self._watch.call, function, _place_now())
        return self._original.io_callback(told, *args, **kwargs)


def _place_now() -> str | None:
    """The line of the user's code whose operation jax handles now."""
    try:
        from jax._src import source_info_util

        said = source_info_util.summarize(source_info_util.current())
    except (ImportError, AttributeError, TypeError):  # a release that tells it in another way
        return None
    return place_in(said)


def place_in(said: str) -> str | None:
    """`path:line` in jax's own words for a place, `path:line:column (function)`; None for a line that is nobody's."""
    found = re.match(r"(.+\.py):(\d+)(?::\d+)?(?: \(|$)", said)
    if not found or is_machinery(found[1]) or is_library(found[1]):
        return None
    return f"{found[1]}:{found[2]}"


def run(call: Callable[[], Any], watch: Watch, name: str) -> Any:
    """Run an interpreted program; what it raises is the kernel's fault with its line, or LimitError.

    It runs in a thread of its own, since a kernel that waits for ever cannot be ended in any other way.
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    np.random.seed(0)  # noqa: NPY002  # the detector's: which entry of the clocks a copy shares is drawn from there
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    _wait_for(thread, watch)
    if errors:
        _forget_failure()
        raise _understood(errors[0], watch, name) from errors[0]
    return results[0]


def _wait_for(thread: threading.Thread, watch: Watch) -> None:
    """Until it has ended. Raises EndlessWaitError; says so in the cell's log long before."""
    said = False
    while thread.is_alive():
        thread.join(0.5)
        idle, (what, place) = watch.idle(), watch.waits_for()
        if idle > SAY_AFTER and not said:
            sys.stdout.write(f"the kernel waits for {what}, at {place or 'an unknown line'}\n")
            sys.stdout.flush()  # a shorter time limit may end it before we do
            said = True
        if idle > GIVE_UP_AFTER:
            message = f"the kernel waits for {what}; nothing else has happened for {GIVE_UP_AFTER:.0f} seconds"
            raise EndlessWaitError(message, place)


def _forget_failure() -> None:
    """What a failed run leaves behind, which a later good one would report as its own (0.6.1 to 0.8.3)."""
    interpreter = module()
    for name in ("reset_tpu_interpret_mode_state", "_clear_shared_memory"):
        if (reset := getattr(interpreter, name, None)) is not None:
            reset()
            break
    try:
        from jax._src import dispatch

        dispatch.runtime_tokens.clear()
    except (ImportError, AttributeError):  # a release that orders its callbacks in another way
        return


def _understood(error: BaseException, watch: Watch, name: str) -> BaseException:
    """The first exception of a callback, which XLA hides in its own: with its place, or as the interpreter's limit."""
    if not watch.raised:
        return error
    cause, place = watch.raised[0]
    if written := _write_out_of_bounds(cause):
        return _raised_at(place, IndexError(readable(written)))
    if not _is_the_kernels(cause):
        return LimitError(limit(name, cause))
    kind = type(cause) if type(cause).__module__ == builtins.__name__ else RuntimeError
    return _raised_at(place, kind(readable(str(cause))))


def _raised_at(place: str | None, error: BaseException) -> BaseException:
    """The exception with a traceback that ends in the kernel's line, as if Python had run the kernel and raised there."""
    if place is None:
        return error
    path, _, line = place.rpartition(":")
    try:
        exec(compile("\n" * (int(line) - 1) + "raise error", path, "exec"), {"error": error})  # noqa: S102  # our words
    except BaseException as raised:
        return raised
    raise AssertionError(path)


def _write_out_of_bounds(error: BaseException) -> str | None:
    """What 0.10.1 to 0.11.0 merely assert and other releases say: a write that leaves its buffer."""
    if not isinstance(error, AssertionError) or error.__traceback__ is None:
        return None
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    known = frame.f_locals
    if not {"in_bounds_shape", "value", "key", "rnge", "buff"} <= known.keys():
        return None
    if known["in_bounds_shape"] == getattr(known["value"], "shape", None):
        return None
    return f"Out-of-bounds write of (0 {known['key'][0]} 0): writing [{known['rnge']}] but buffer has shape {known['buff'].shape}"


def _is_the_kernels(error: BaseException) -> bool:
    """Whether an exception accuses the kernel: by its words, or since the kernel's own code raised it."""
    if isinstance(error, NotImplementedError | AssertionError | KeyError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    inner = frames[-1].filename if frames else ""
    return bool(_OF_THE_KERNEL.search(str(error))) or not (is_library(inner) or is_machinery(inner))


def limit(name: str, error: BaseException) -> str:
    """The sentence of an interpreter's own limit."""
    said = (str(error).strip().splitlines() or ["no reason given"])[0][:200]
    return f"the {name} of jax {_release()} cannot run it: {type(error).__name__}: {said}"


_SLICE = re.compile(r"slice\((\d+), (\d+), (\d+|None)\)")
_BUFFER = re.compile(r"\((?:\d+ )+([a-z_]+) \d+\)")


def readable(text: str) -> str:
    """The interpreter's words with ranges as people write them, and without its numbers for buffers."""
    text = text.strip().rstrip(".").rstrip()
    sliced = _SLICE.sub(lambda found: f"{found[1]}:{found[2]}" + _step(found[3]), text)
    plain = _BUFFER.sub(lambda found: memory_name(found[1]), sliced).replace("bufer", "buffer")
    return re.sub(r"\[\((.*?),?\)\]", r"[\1]", plain)


def _step(step: str) -> str:
    return "" if step in ("1", "None") else f":{step}"


def memory_name(space: str) -> str:
    """A memory space as people write it; kernels' arguments without a block live in HBM."""
    return "HBM" if space in ("any", "hbm") else space.upper().replace("_MEM", "")


def races_found() -> bool | None:
    """Whether the detector saw a race in the last kernel; None where a release keeps its answer elsewhere."""
    state = getattr(module(), "races", None)
    return None if state is None else bool(state.races_found)


def short(place: str | None) -> str | None:
    """A place as people name it: its path from the import path's entry that holds it."""
    if place is None:
        return None
    path, _, line = place.rpartition(":")
    return f"{short_path(path)}:{line}"
