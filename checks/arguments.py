"""Argument specifications such as `bf16[2,8,128] normal(0, 5)`: shapes for the compiler, arrays for the rest.

The grammar is documented in docs/configuration.md, where the program checks it before a plan is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_SPEC = re.compile(r"\s*(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:\s+(?P<fill>\w+)(?:\s*\((?P<numbers>[^)]*)\))?)?\s*")
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
    numbers: tuple[float, ...]


def parse(text: str) -> Specification:
    """Read one specification. Raises ValueError when it does not follow the grammar."""
    match = _SPEC.fullmatch(text)
    if match is None or match["dtype"] not in _SHORT:
        message = f"{text!r} is no argument specification; write dtype[shape], as in bf16[2,128]"
        raise ValueError(message)
    dtype = _dtype(_SHORT[match["dtype"]])
    shape = tuple(int(size) for size in match["shape"].split(",") if size.strip())
    numbers = tuple(float(number) for number in (match["numbers"] or "").split(",") if number.strip())
    if match["fill"] is None:
        return Specification(dtype, shape, *(("normal", (0.0, 1.0)) if _is_float(dtype) else ("randint", (0.0, 2.0))))
    return Specification(dtype, shape, match["fill"], numbers)


def make(specification: Specification, seed: int, index: int) -> np.ndarray[Any, Any]:
    """The array: argument `index` of a case with `seed`, independent of its neighbours."""
    shape, fill, numbers = specification.shape, specification.fill, specification.numbers
    draw = np.random.default_rng([seed, index])
    makers: dict[str, Callable[[], Any]] = {
        "zeros": lambda: np.zeros(shape),
        "ones": lambda: np.ones(shape),
        "constant": lambda: np.full(shape, numbers[0]),
        "arange": lambda: np.arange(np.prod(shape, dtype=int)).reshape(shape),
        "normal": lambda: draw.normal(numbers[0], numbers[1], shape),
        "uniform": lambda: draw.uniform(numbers[0], numbers[1], shape),
        "randint": lambda: draw.integers(int(numbers[0]), int(numbers[1]), shape),
    }
    if fill not in makers:
        message = f"unknown fill {fill!r}; one of {', '.join(makers)}"
        raise ValueError(message)
    return np.asarray(makers[fill]()).astype(specification.dtype)


def _dtype(name: str) -> np.dtype[Any]:
    if name in np.sctypeDict:
        return np.dtype(name)
    import ml_dtypes  # jax brings it

    custom: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return custom


def _is_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name
