"""What a compiler or a generation does not have: memory, types, layouts."""

# ruff: noqa: ARG005 - an index map is given every axis of the grid

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .blocks import doubled

MIB = 2**20


def _parameters(**options: Any) -> Any:
    kind = getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams
    return kind(**options)


def large_scratch(x: Any) -> Any:
    """48 MiB of scratch, allowed by its author: v5e has that much VMEM, v3 and v4 do not. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any, large: Any) -> None:
        large[:128, :256] = x_ref[...] * 2
        o_ref[...] = large[:128, :256]

    return doubled(
        body,
        scratch_shapes=[pltpu.VMEM((12 * 1024, 1024), jnp.float32)],
        compiler_params=_parameters(vmem_limit_bytes=60 * MIB),
    )(x)


def scalars_without_end(x: Any) -> Any:
    """A table of 4 MiB in SMEM, which no generation has. i32[1024, 1024]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[0] = x_ref[0, 0]

    return pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec(memory_space=pltpu.SMEM),
        out_shape=jax.ShapeDtypeStruct((1,), jnp.int32),
    )(x)


def first_scalar(x: Any) -> Any:
    return x[0, :1]


def odd_block(x: Any) -> Any:
    """A block of 100 columns: neither a multiple of 128 nor the whole width. f32[256, 300]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((128, 100), lambda i, j: (i, j))
    return pl.pallas_call(
        body,
        grid=(2, 3),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct((256, 300), jnp.float32),
    )(x)


def odd_lanes(x: Any) -> Any:
    """A slice that begins at a lane which only the grid knows. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        first = pl.program_id(0) * 3
        o_ref[...] = jnp.concatenate([x_ref[:, pl.ds(first, 128)]] * 2, axis=1)

    return doubled(body)(x)


def odd_lanes_native(x: Any) -> Any:
    return jnp.tile(jnp.concatenate([x[:128, :128], x[128:, 3:131]]), (1, 2))


def odd_rows(x: Any) -> Any:
    """A slice that begins at a row which only the grid knows: no multiple of eight. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[pl.ds(pl.program_id(0) * 3, 128), :] * 2

    return doubled(body, in_specs=[pl.BlockSpec((256, 256), lambda i: (0, 0))])(x)


def odd_rows_native(x: Any) -> Any:
    return jnp.concatenate([x[:128], x[3:131]]) * 2


def eight_bit_floats(a: Any, b: Any) -> Any:
    """A product of float8 blocks, for which only the younger generations have a unit. f8e4m3fn[128, 128] twice."""

    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(a.shape, jnp.float32))(a, b)


def eight_bit_integers(a: Any, b: Any) -> Any:
    """A product of int8 blocks. i8[256, 256] twice."""

    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.int32)

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((256, 256), jnp.int32))(a, b)


def four_bit_integers(a: Any, b: Any) -> Any:
    """A product of int4 blocks, cast inside the kernel. i8[256, 256] twice."""

    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        few = (a_ref[...].astype(jnp.int4), b_ref[...].astype(jnp.int4))
        o_ref[...] = jnp.dot(*few, preferred_element_type=jnp.int32)

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((256, 256), jnp.int32))(a, b)


def product_in_f32(a: Any, b: Any) -> Any:
    return jnp.dot(a.astype(jnp.float32), b.astype(jnp.float32))


def product_in_i32(a: Any, b: Any) -> Any:
    return jnp.dot(a.astype(jnp.int32), b.astype(jnp.int32))


def cast_to_eight_bits(x: Any) -> Any:
    """A cast from float32 to float8. f32[128, 128]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...].astype(jnp.float8_e4m3fn)

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float8_e4m3fn))(x)


def cast_native(x: Any) -> Any:
    return x.astype(jnp.float8_e4m3fn)


def sorts(x: Any) -> Any:
    """A sort inside the kernel, which Mosaic does not lower. f32[256, 256]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sort(x_ref[...], axis=-1)

    return doubled(body)(x)


def sorted_rows(x: Any) -> Any:
    return jnp.sort(x, axis=-1)


def grows_in_vmem(x: Any) -> Any:
    """Blocks of 1 MiB: since libtpu 0.0.30 the compiler buffers them twice even where it is short. f32[2048, 1024]."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((256, 1024), lambda i: (i, 0))
    return doubled(
        body, grid=(8,), in_specs=[spec], out_specs=spec, out_shape=jax.ShapeDtypeStruct((2048, 1024), jnp.float32)
    )(x)
