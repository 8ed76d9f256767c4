"""Kernels that compile everywhere and compute something else."""

# mypy: disable-error-code="untyped-decorator"
# ruff: noqa: ARG005 - an index map is given every axis of the grid

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .blocks import SHAPE, doubled, rows


def accumulates_in_bf16(a: Any, b: Any) -> Any:
    """The sum over 16 blocks of k is kept in bfloat16. bf16[128, 2048] × bf16[2048, 128] → f32[128, 128]."""

    def body(a_ref: Any, b_ref: Any, o_ref: Any, total: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] = jnp.zeros(total.shape, total.dtype)

        product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)
        total[...] = (total[...].astype(jnp.float32) + product).astype(total.dtype)
        o_ref[...] = total[...].astype(jnp.float32)

    return pl.pallas_call(
        body,
        grid=(16,),
        in_specs=[pl.BlockSpec((128, 128), lambda k: (0, k)), pl.BlockSpec((128, 128), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((128, 128), lambda k: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.bfloat16)],
    )(a, b)


def product(a: Any, b: Any) -> Any:
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def accumulator_not_reset(x: Any) -> Any:
    """Sums of 128 columns twice; the second block of rows adds to the first one's sum. f32[256, 256] → f32[256, 128]."""

    def body(x_ref: Any, o_ref: Any, total: Any) -> None:
        i, k = pl.program_id(0), pl.program_id(1)

        @pl.when((i == 0) & (k == 0))
        def _() -> None:
            total[...] = jnp.zeros(total.shape, total.dtype)

        total[...] += x_ref[...]
        o_ref[...] = total[...]

    return pl.pallas_call(
        body,
        grid=(2, 2),
        in_specs=[pl.BlockSpec((128, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((128, 128), lambda i, k: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((256, 128), jnp.float32),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )(x)


def halves_added(x: Any) -> Any:
    return x[:, :128] + x[:, 128:]


def last_row_forgotten(x: Any) -> Any:
    """One row of each block stays zero. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        row = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        o_ref[...] = jnp.where(row < 127, x_ref[...] * 2, 0.0)

    return doubled(body)(x)


def unmasked_softmax(x: Any) -> Any:
    """Softmax whose exponential overflows, since no maximum is subtracted. f32[256, 256] around 100."""

    def body(x_ref: Any, o_ref: Any) -> None:
        powers = jnp.exp(x_ref[...])
        o_ref[...] = powers / jnp.sum(powers, axis=-1, keepdims=True)

    return doubled(body)(x)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=-1)


@jax.custom_vjp
def half_a_gradient(x: Any) -> Any:
    """Squares f32[256, 256]; its gradient forgets the factor 2."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * x_ref[...]

    return doubled(body)(x)


half_a_gradient.defvjp(lambda x: (half_a_gradient(x), x), lambda x, g: (x * g,))


def squared(x: Any) -> Any:
    return x * x


def reads_what_nobody_wrote(x: Any) -> Any:
    """Scratch that is never set. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any, bias: Any) -> None:
        o_ref[...] = x_ref[...] * 2 + bias[...] * 0

    return doubled(body, scratch_shapes=[pltpu.VMEM((128, 256), jnp.float32)])(x)


def writes_past_the_end(x: Any) -> Any:
    """The second block of rows is written eight rows too low. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        i = pl.program_id(0)
        o_ref[pl.ds(i * 136, 128), :] = x_ref[...] * 2

    return pl.pallas_call(
        body,
        grid=(2,),
        in_specs=[pl.BlockSpec((128, 256), rows)],
        out_specs=pl.BlockSpec((256, 256), lambda i: (0, 0)),
        out_shape=SHAPE,
    )(x)
