"""The float64 truth, and how far an output is from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

_PROJECTIONS = 4
_SIGNS = 20  # the seed of the signs, the same in every process


def leaves(outputs: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an output by readable name, on the host."""
    import jax

    flat, _ = jax.tree_util.tree_flatten_with_path(outputs)
    return {"/".join(map(_step, path)) or "output": np.asarray(leaf) for path, leaf in flat}


def _step(entry: Any) -> str:
    """One step into a tree, as people would write it: a key, an index or a field's name."""
    return next((str(getattr(entry, name)) for name in ("key", "idx", "name") if hasattr(entry, name)), str(entry))


def in_float64(function: Callable[..., Any], inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a function with its floating-point inputs widened to float64. For a process that does nothing after."""
    import jax

    jax.config.update("jax_enable_x64", True)  # jax's own signature
    jax.clear_caches()
    return function(*(jax.tree_util.tree_map(widen, value) for value in inputs), **keywords)


def widen(leaf: Any) -> Any:
    """A floating-point leaf in float64, any other as it is."""
    import jax.numpy as jnp

    array = jnp.asarray(leaf)
    return array.astype("float64") if jnp.issubdtype(array.dtype, jnp.floating) else array


def wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Any array in a type that holds its values and NaN: double precision, complex where it is."""
    return array.astype(np.complex128 if np.issubdtype(array.dtype, np.complexfloating) else np.float64)


def differences(here: Any, there: Any) -> list[dict[str, Any]]:
    """One entry per output: how far two outputs of the same structure are apart, and NaN that only one of them has.

    Where either is no number nothing is subtracted.
    """
    others = leaves(there)
    return [_difference(name, wide(one), wide(others[name])) for name, one in leaves(here).items()]


def _difference(name: str, here: np.ndarray[Any, Any], there: np.ndarray[Any, Any]) -> dict[str, Any]:
    both = np.isfinite(here) & np.isfinite(there)
    apart = np.abs(here[both] - there[both])
    return {
        "name": name,
        "max_abs": float(apart.max(initial=0.0)),
        "rms": float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0,
        "nan_here": int(np.count_nonzero(np.isnan(here) & ~np.isnan(there))),
        "nan_there": int(np.count_nonzero(np.isnan(there) & ~np.isnan(here))),
    }


def errors(outputs: Any, truth: Any) -> list[dict[str, Any]]:
    """One entry per output: maximum and root-mean-square absolute error, the truth's own rms, NaN and Inf counts.

    NaN and Inf are counted only where the truth is finite, and are left out of the errors.
    Raises ValueError when the outputs' structure or shapes differ from the truth's.
    """
    got, expected = leaves(outputs), leaves(truth)
    if got.keys() != expected.keys():
        message = f"it returns {sorted(got)}, the reference {sorted(expected)}"
        raise ValueError(message)
    return [_error(name, got[name], expected[name]) for name in got]


def _error(name: str, got: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> dict[str, Any]:
    if got.shape != truth.shape:
        message = f"{name} has shape {got.shape}, the reference's has {truth.shape}"
        raise ValueError(message)
    wide, right = got.astype(np.float64), truth.astype(np.float64)
    expected = np.isfinite(right)
    both = expected & np.isfinite(wide)
    difference = np.abs(wide[both] - right[both])
    scale = right[expected]
    return {
        "name": name,
        "shape": list(got.shape),
        "dtype": str(got.dtype),
        "max_abs": float(difference.max(initial=0.0)),
        "rms": float(np.sqrt(np.mean(difference**2))) if difference.size else 0.0,
        "scale": float(np.sqrt(np.mean(scale**2))) if scale.size else 0.0,
        "nan": int(np.count_nonzero(np.isnan(wide) & expected)),
        "inf": int(np.count_nonzero(np.isinf(wide) & expected)),
        "projections": projections(wide),
        "truth_projections": projections(right),
    }


def projections(array: np.ndarray[Any, Any]) -> list[float]:
    """A few numbers by which arrays of other processes are compared: sums with random signs, over the root of the size.

    Two arrays that differ by an error of some root mean square have projections that differ by about as much.
    """
    draw = np.random.default_rng(_SIGNS)
    flat, root = np.ravel(array), max(1.0, array.size**0.5)
    with np.errstate(invalid="ignore"):  # no number here is no number there
        return [float(np.sum(flat * draw.choice([-1.0, 1.0], flat.size))) / root for _ in range(_PROJECTIONS)]


def digest(inputs: Any) -> str:
    """A hash of arrays, to know whether two processes were given the same."""
    found = hashlib.sha256()
    for name, array in sorted(leaves(inputs).items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
