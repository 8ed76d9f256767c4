"""Pallas calls: finding them in a program, and having them interpreted where there is no device for them.

Interpreting is done from outside, so that a kernel needs no switch for it. Every kernel, however it was called
(`pallas_call`, `kernel`, `core_map`) and wherever the name was imported from, ends in a primitive that is told whether to
interpret; the primitives are told here.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

_wanted: list[Any] = []  # the interpreter asked for now, innermost last

GENERIC = "generic interpreter"
TPU = "tpu interpreter"

_CALLS = ("pallas_call", "core_map", "mpmd_map")  # names of primitives that hold a kernel
_PRIMITIVES = (  # where they live, in all releases from 0.5.3 to 0.12.0; core_map_p and mpmd_map_p in some
    ("jax._src.pallas.pallas_call", "pallas_call_p"),
    ("jax._src.pallas.core", "core_map_p"),
    ("jax._src.pallas.mpmd", "mpmd_map_p"),
)
_MARK = "__wrapped_by_checks__"


def wrap_pallas_call() -> None:
    """Have every kernel called from now on obey `interpreted`. Called once, before a kernel is imported.

    Does nothing where Pallas cannot be imported; then the kernel's own import says so.
    """
    try:
        import jax.experimental.pallas as pl
    except ImportError:
        return
    primitives = [found for module, name in _PRIMITIVES if (found := _attribute(module, name)) is not None]
    for primitive in primitives:
        if not hasattr(primitive.bind, _MARK):
            primitive.bind = _obedient(primitive.bind)
    if not primitives and not hasattr(pl.pallas_call, _MARK):  # a release that keeps its primitives elsewhere
        pl.pallas_call = _obedient(pl.pallas_call)


def _attribute(module: str, name: str) -> Any:
    """None where this release has no such module or no such name in it."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _obedient(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, told to interpret while that is wanted."""

    @functools.wraps(call)
    def obedient(*args: Any, **kwargs: Any) -> Any:
        if _wanted:
            kwargs["interpret"] = _wanted[-1]
        return call(*args, **kwargs)

    setattr(obedient, _MARK, True)
    return obedient


@contextmanager
def interpreted(interpreter: Any) -> Iterator[None]:
    """Interpret all kernels traced inside, with `interpreter` (True, or the TPU interpreter's parameters).

    Traces made outside are forgotten on the way in and out: jax caches them by shapes, not by our wish.
    """
    import jax

    jax.clear_caches()
    _wanted.append(interpreter)
    try:
        with as_if_on_a_tpu():
            yield
    finally:
        _wanted.pop()
        jax.clear_caches()


_KINDS_ASKED_OF = (  # modules that hold, or have imported, the question which TPU this is
    "jax._src.tpu_info",
    "jax._src.pallas.mosaic.tpu_info",
    "jax._src.pallas.mosaic.core",
    "jax._src.pallas.mosaic.pipeline",
)
_ANSWERS: dict[str, Callable[[], Any]] = {
    "get_device_kind": lambda: "TPU v5 lite",
    "get_num_device_cores": lambda: 1,
    "get_default_device": lambda: SimpleNamespace(device_kind="TPU v5 lite", num_cores=1),  # up to 0.7.1
}


@contextmanager
def as_if_on_a_tpu() -> Iterator[None]:
    """Pallas is told that the device is a v5e. `emit_pipeline` and `get_tpu_info` refuse any but a TPU's kind."""
    replaced: list[tuple[Any, str, Any]] = []
    for name in _KINDS_ASKED_OF:
        module = sys.modules.get(name)
        for question, answer in _ANSWERS.items():
            if (original := getattr(module, question, None)) is not None:
                replaced.append((module, question, original))
                setattr(module, question, answer)
    try:
        yield
    finally:
        for module, question, original in replaced:
            setattr(module, question, original)


def calls(jaxpr: Any) -> list[Any]:
    """Every kernel call in a (closed) jaxpr, however deep."""
    found = []
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if equation.primitive.name in _CALLS:
            found.append(equation)
            continue
        for inner in _inner(equation.params):
            found += calls(inner)
    return found


def _inner(parameters: dict[str, Any]) -> Iterator[Any]:
    for value in parameters.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(getattr(item, "jaxpr", item), "eqns"):
                yield item


def is_tpu_kernel(jaxpr: Any, platform: str) -> bool:
    """Whether a program's kernels are for a TPU: all of them where the platform has no Pallas of its own (cpu)."""
    found = calls(jaxpr)
    if platform == "cpu":
        return bool(found)
    return any("mosaic.core" in type(value).__module__ for call in found for value in _compiler_parameters(call))


def _compiler_parameters(call: Any) -> list[Any]:
    given = call.params.get("compiler_params")
    return list(given.values()) if isinstance(given, dict) else [given]
