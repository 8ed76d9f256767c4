"""Attention as XLA offers it: `jax.nn.dot_product_attention`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def attention(query: Any, key: Any, value: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """softmax(scale * query key^T) value over [batch, heads, length, head_dim]; scale is 1 / sqrt(head_dim) when None.

    Raises ValueError, from JAX, for shapes that do not fit together.
    """
    output = jax.nn.dot_product_attention(
        _length_first(query), _length_first(key), _length_first(value), scale=scale, is_causal=causal
    )
    return _length_first(output)


def _length_first(array: Any) -> Any:
    """Swap heads and length: JAX's function takes [batch, length, heads, head_dim]."""
    return jnp.swapaxes(array, 1, 2)
