"""What the TPU kernel accepts, and a sentence for what it does not."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

_DTYPES = (jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float32))


def check_arguments(query: Any, key: Any, value: Any) -> None:
    """Raise ValueError, naming the shapes or types at fault, for arrays that the kernel cannot take."""
    problem = _shape_problem(query.shape, key.shape, value.shape) or _dtype_problem(query, key, value)
    if problem:
        raise ValueError(problem)


def _shape_problem(query: Any, key: Any, value: Any) -> str | None:
    shapes = f"query {query}, key {key}, value {value}"
    if any(len(shape) != 4 for shape in (query, key, value)):  # noqa: PLR2004 - the four axes named in the sentence
        return f"attention takes arrays [batch, heads, length, head_dim], and was given {shapes}"
    if 0 in (*query, *key, *value):
        return f"attention takes arrays with no empty axis, and was given {shapes}"
    if key != value:
        return f"key and value must have the same shape: {shapes}"
    if (query[0], query[3]) != (key[0], key[3]):
        return f"query and key must agree in batch and head_dim: {shapes}"
    if query[1] % key[1]:
        return f"the {query[1]} query heads must be a multiple of the {key[1]} key heads: {shapes}"
    return None


def _dtype_problem(query: Any, key: Any, value: Any) -> str | None:
    dtypes = {array.dtype for array in (query, key, value)}
    if len(dtypes) > 1 or query.dtype not in _DTYPES:
        return (
            "query, key and value must be all bfloat16 or all float32, and are "
            f"{query.dtype}, {key.dtype} and {value.dtype}"
        )
    return None
