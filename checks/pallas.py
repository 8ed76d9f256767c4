"""Pallas calls: finding them in a program, and having them interpreted where there is no device for them.

Interpreting is done from outside, so that a kernel needs no switch for it: `pallas_call` is wrapped before any
kernel is imported, and the wrapper asks for an interpreter while one is wanted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_wanted: list[Any] = []  # the interpreter asked for now, innermost last

GENERIC = "generic interpreter"
TPU = "tpu interpreter"


def wrap_pallas_call() -> None:
    """Have every `pallas_call` made from now on obey `interpreted`. Called once, before a kernel is imported.

    Does nothing where Pallas cannot be imported; then the kernel's own import says so.
    """
    try:
        import jax.experimental.pallas as pl
    except ImportError:
        return
    original = pl.pallas_call
    if hasattr(original, "__wrapped_by_checks__"):
        return

    @functools.wraps(original)
    def pallas_call(*args: Any, **kwargs: Any) -> Any:
        if _wanted:
            kwargs["interpret"] = _wanted[-1]
        return original(*args, **kwargs)

    pallas_call.__wrapped_by_checks__ = True  # type: ignore[attr-defined]  # a mark, so that it is wrapped once
    pl.pallas_call = pallas_call


@contextmanager
def interpreted(interpreter: Any) -> Iterator[None]:
    """Interpret all Pallas calls traced inside, with `interpreter` (True, or the TPU interpreter's parameters).

    Traces made outside are forgotten on the way in and out: jax caches them by shapes, not by our wish.
    """
    import jax

    jax.clear_caches()
    _wanted.append(interpreter)
    try:
        yield
    finally:
        _wanted.pop()
        jax.clear_caches()


def strict_interpreter(**more: Any) -> tuple[Any, str | None]:
    """The TPU interpreter's strictest parameters, or None and the reason why this release has none.

    Strict is: copies happen only when waited for, fresh memory holds NaN, reading out of bounds raises.
    `more` may ask for `detect_races` and `cores`.
    """
    try:
        from jax.experimental.pallas import tpu as pltpu
    except ImportError as error:
        return None, f"the TPU interpreter cannot be imported: {error}"
    parameters = getattr(pltpu, "InterpretParams", None) or getattr(pltpu, "TPUInterpretParams", None)
    if parameters is None:
        import jax

        return None, f"jax {jax.__version__} has no TPU interpreter"
    known = _fields(parameters)
    wanted = {"dma_execution_mode": "on_wait", "uninitialized_memory": "nan", "out_of_bounds_reads": "raise"}
    cores = more.pop("cores", None)
    if cores is not None:
        names = ("num_cores_or_threads", "num_cores_or_threads_per_device", "num_cores_per_device")
        wanted |= dict.fromkeys([name for name in names if name in known][:1], cores)
    return parameters(**{name: value for name, value in {**wanted, **more}.items() if name in known}), None


def _fields(parameters: Callable[..., Any]) -> set[str]:
    import inspect

    return set(inspect.signature(parameters).parameters)


def calls(jaxpr: Any) -> list[Any]:
    """Every pallas_call in a (closed) jaxpr, however deep."""
    found = []
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if equation.primitive.name == "pallas_call":
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
    """Whether a program's Pallas calls are for a TPU: all of them where the platform has no Pallas of its own (cpu)."""
    found = calls(jaxpr)
    if platform == "cpu":
        return bool(found)
    return any("mosaic.core" in type(value).__module__ for call in found for value in _compiler_parameters(call))


def _compiler_parameters(call: Any) -> list[Any]:
    given = call.params.get("compiler_params")
    return list(given.values()) if isinstance(given, dict) else [given]
