"""Attention as the plain formula: the truth to compare with, in float64 where JAX has it enabled.

It holds the whole score matrix, so it is for small cases.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def attention(query: Any, key: Any, value: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """softmax(scale * query key^T) value over [batch, heads, length, head_dim]; scale is 1 / sqrt(head_dim) when None.

    The result has the arguments' own type; give float64 arrays for float64 arithmetic.
    """
    group = query.shape[1] // key.shape[1]
    key, value = jnp.repeat(key, group, axis=1), jnp.repeat(value, group, axis=1)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * jnp.einsum("bhqd,bhkd->bhqk", query, key, precision="highest")
    if causal:
        scores = jnp.where(jnp.tri(*scores.shape[2:], dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), value, precision="highest")
