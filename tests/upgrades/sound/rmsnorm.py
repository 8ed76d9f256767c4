"""Root-mean-square norm of rows with a gradient of its own: f32[rows, width], f32[1, width]."""

# mypy: disable-error-code="untyped-decorator"
# ruff: noqa: ARG005 - an index map is given every axis of the grid

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from .names import parameters

ROWS = 32
EPSILON = 1e-6


def _forward(x_ref: Any, w_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    o_ref[...] = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON) * w_ref[...]


def _backward(x_ref: Any, w_ref: Any, g_ref: Any, dx_ref: Any, dw_ref: Any) -> None:
    x, g = x_ref[...], g_ref[...]
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON)
    weighted = g * w_ref[...]
    dx_ref[...] = inverse * (weighted - x * inverse**2 * jnp.mean(weighted * x, axis=-1, keepdims=True))

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        dw_ref[...] = jnp.zeros(dw_ref.shape, jnp.float32)

    dw_ref[...] += jnp.sum(g * x * inverse, axis=0, keepdims=True)


def _specs(width: int) -> tuple[Any, Any]:
    return pl.BlockSpec((ROWS, width), lambda i: (i, 0)), pl.BlockSpec((1, width), lambda i: (0, 0))


@jax.custom_vjp
def custom(x: Any, w: Any) -> Any:
    rows, weight = _specs(x.shape[1])
    return pl.pallas_call(
        _forward,
        grid=(x.shape[0] // ROWS,),
        in_specs=[rows, weight],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=parameters("parallel"),
    )(x, w)


def _vjp(kept: Any, g: Any) -> Any:
    x, w = kept
    rows, weight = _specs(x.shape[1])
    return pl.pallas_call(
        _backward,
        grid=(x.shape[0] // ROWS,),
        in_specs=[rows, weight, rows],
        out_specs=[rows, weight],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(w.shape, w.dtype)],
        compiler_params=parameters("arbitrary"),
    )(x, w, g)


custom.defvjp(lambda x, w: (custom(x, w), (x, w)), _vjp)


def native(x: Any, w: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON) * w
