"""Matrix products on blocks, accumulated in f32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

_ROWS_BY_COLUMNS = (((1,), (0,)), ((), ()))
_ROWS_BY_ROWS = (((1,), (1,)), ((), ()))


def product(left: Any, right: Any) -> Any:
    """Left [m, n] times right [n, p]; left is first rounded to right's type."""
    return _multiply(left.astype(right.dtype), right, _ROWS_BY_COLUMNS)


def product_transposed(left: Any, right: Any) -> Any:
    """Left [m, n] times right [p, n] transposed."""
    return _multiply(left, right, _ROWS_BY_ROWS)


def _multiply(left: Any, right: Any, dimensions: Any) -> Any:
    # f32 follows `jax.default_matmul_precision`, as native does. A product of two bf16 numbers is exact in f32,
    # and the compiler refuses more than the default for it.
    precision = None if left.dtype == jnp.float32 else jax.lax.Precision.DEFAULT
    return jax.lax.dot_general(left, right, dimensions, precision=precision, preferred_element_type=jnp.float32)
