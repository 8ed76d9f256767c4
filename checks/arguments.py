"""Argument specifications such as `bf16[2,8,128] normal(0, 5)`: shapes for the compiler, arrays for the rest.

The grammar is documented in docs/configuration.md, where the program checks it before a plan is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_SPEC = re.compile(r"\s*(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:\s+(?P<fill>\w+)(?:\s*\((?P<numbers>[^)]*)\))?)?\s*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_SHORT = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    **{f"i{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
    "bool": "bool",
}


@dataclass(frozen=True)
class Specification:
    """One argument: what it looks like and how it is filled."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fill: str
    numbers: tuple[int | float, ...]  # whole numbers stay whole: not every i64 or u64 is a float


def parse(text: str) -> Specification:
    """Read one specification. Raises ValueError when it does not follow the grammar."""
    match = _SPEC.fullmatch(text)
    if match is None or match["dtype"] not in _SHORT:
        message = f"{text!r} is no argument specification; write dtype[shape], as in bf16[2,128]"
        raise ValueError(message)
    dtype = _dtype(_SHORT[match["dtype"]])
    shape = tuple(int(size) for size in match["shape"].split(",") if size.strip())
    if match["fill"] is None:
        return Specification(dtype, shape, *(("normal", (0, 1)) if _is_float(dtype) else ("randint", (0, 2))))
    numbers = tuple(_number(part.strip()) for part in (match["numbers"] or "").split(",") if part.strip())
    return Specification(dtype, shape, match["fill"], numbers)


def _number(text: str) -> int | float:
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def make(specification: Specification, seed: int, index: int) -> np.ndarray[Any, Any]:
    """The array: argument `index` of a case with `seed`, independent of its neighbours."""
    shape, numbers, is_float = specification.shape, specification.numbers, _is_float(specification.dtype)
    draw = np.random.default_rng([seed, index])
    makers: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
        "zeros": lambda: np.zeros(shape),
        "ones": lambda: np.ones(shape),
        "constant": lambda: np.full(shape, float(numbers[0]) if is_float else numbers[0]),
        "arange": lambda: np.arange(math.prod(shape)).reshape(shape),
        "normal": lambda: np.asarray(draw.normal(float(numbers[0]), float(numbers[1]), shape)),
        "uniform": lambda: np.asarray(_uniform(draw, float(numbers[0]), float(numbers[1]), shape)),
        "randint": lambda: np.asarray(draw.integers(int(numbers[0]), int(numbers[1]), shape)),
    }
    if specification.fill not in makers:
        message = f"unknown fill {specification.fill!r}; one of {', '.join(makers)}"
        raise ValueError(message)
    values = makers[specification.fill]()
    return (_within(values, specification.dtype) if is_float else values).astype(specification.dtype)


def _uniform(draw: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> Any:
    """Numbers of an interval whose width may be more than a float holds."""
    if math.isinf(high - low):
        return 2 * draw.uniform(low / 2, high / 2, shape)
    return draw.uniform(low, high, shape)


def _within(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """What lies beyond the dtype's largest number, as a normal distribution's tail may, becomes that number."""
    import ml_dtypes

    finfo: Callable[..., Any] = ml_dtypes.finfo
    limits = finfo(dtype)
    return np.asarray(np.clip(values, float(limits.min), float(limits.max)))


def _dtype(name: str) -> np.dtype[Any]:
    if name in np.sctypeDict:
        return np.dtype(name)
    import ml_dtypes  # jax brings it

    custom: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return custom


def _is_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name
