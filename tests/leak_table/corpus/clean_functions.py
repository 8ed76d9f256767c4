"""What programs do with jax and that keeps nothing: library functions that need a constant or a body to be called.

The bodies of loops are functions of the module. One made anew at each call is compiled anew at each eager call, and
jax's caches keep it: no clean code.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def running_sum(x: Any) -> Any:
    return lax.scan(_add_row, x[0], x)


def _add_row(total: Any, row: Any) -> tuple[Any, Any]:
    return total + row, total


def halve_until_small(x: Any) -> Any:
    return lax.while_loop(_is_large, _half, x)


def _is_large(x: Any) -> Any:
    return jnp.max(jnp.abs(x)) > 1.0


def _half(x: Any) -> Any:
    return x / 2


def repeat(x: Any) -> Any:
    return lax.fori_loop(0, 8, _step, x)


def _step(_: Any, x: Any) -> Any:
    return x * 0.5 + 1.0


def either(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)


def one_of_three(x: Any) -> Any:
    return lax.switch(jnp.int32(1), (jnp.sin, jnp.cos, jnp.tanh), x)


def row_by_row(x: Any) -> Any:
    return lax.map(jnp.tanh, x)


def prefix_products(x: Any) -> Any:
    return lax.associative_scan(jnp.multiply, x)


def convolve(image: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(image, kernel, (1, 1), "SAME")


def pool(image: Any) -> Any:
    return lax.reduce_window(image, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def largest(x: Any) -> Any:
    return lax.top_k(x, 4)


def slice_at(x: Any, start: Any) -> Any:
    return lax.dynamic_slice(x, (start[0], start[1]), (8, 8))


def update_at(x: Any, part: Any) -> Any:
    return lax.dynamic_update_slice(x, part, (4, 4))


def gather(x: Any, rows: Any) -> Any:
    return jnp.take(x, rows, axis=0)


def scatter_add(x: Any, rows: Any) -> Any:
    return jnp.zeros_like(x).at[rows].add(x)


def segments(x: Any, names: Any) -> Any:
    return jax.ops.segment_sum(x, names, num_segments=16)


def contract(a: Any, b: Any) -> Any:
    return jnp.einsum("bij,bjk->bik", a, b)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * lax.rsqrt(x.var(axis=-1, keepdims=True) + 1e-6)


def normal_numbers(seed: Any) -> Any:
    return jax.random.normal(jax.random.PRNGKey(seed[0]), (64, 64))


def shuffle(x: Any, seed: Any) -> Any:
    return jax.random.permutation(jax.random.PRNGKey(seed[0]), x)


def draw(logits: Any, seed: Any) -> Any:
    return jax.random.categorical(jax.random.PRNGKey(seed[0]), logits)


_dot_each = jax.vmap(jnp.dot)


def over_a_batch(a: Any, b: Any) -> Any:
    return _dot_each(a, b)


def _waves(x: Any) -> Any:
    return jnp.sin(jnp.cos(x))


_waves_again = jax.checkpoint(_waves)


def rematerialised(x: Any) -> Any:
    return _waves_again(x)


def _mean_error(weights: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ weights) - 1.0) ** 2)


_gradient = jax.grad(_mean_error)


def mean_error_gradient(weights: Any, x: Any) -> Any:
    return _gradient(weights, x)


def attend(query: Any, key: Any, value: Any) -> Any:
    scores = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", query, key), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", scores, value)


@jax.custom_vjp  # type: ignore[untyped-decorator]  # jax is not installed where types are checked
def clipped(x: Any) -> Any:
    return jnp.clip(x, -1.0, 1.0)


def _clipped_forward(x: Any) -> tuple[Any, Any]:
    return clipped(x), x


def _clipped_backward(x: Any, given: Any) -> tuple[Any]:
    return (jnp.where(jnp.abs(x) <= 1.0, given, 0.0),)


clipped.defvjp(_clipped_forward, _clipped_backward)
