"""Causal flash attention, forward: f32 or bf16 [heads, length, 128]; blocks above the diagonal are not computed."""

# mypy: disable-error-code="untyped-decorator"
# ruff: noqa: ARG005, PLR0917 - an index map is given every axis of the grid; a kernel is given its references by position

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .names import parameters

BLOCK = 128


def _body(
    scale: float, q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, largest: Any, total: Any, weighted: Any
) -> None:
    row, column = pl.program_id(1), pl.program_id(2)

    @pl.when(column == 0)
    def _() -> None:
        largest[...] = jnp.full(largest.shape, -1e30, jnp.float32)
        total[...] = jnp.zeros(total.shape, jnp.float32)
        weighted[...] = jnp.zeros(weighted.shape, jnp.float32)

    @pl.when(column <= row)
    def _() -> None:
        scores = jax.lax.dot_general(q_ref[0], k_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        rows = row * BLOCK + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 0)
        columns = column * BLOCK + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1)
        scores = jnp.where(columns <= rows, scores * scale, -1e30)
        before = largest[:, :1]
        now = jnp.maximum(before, jnp.max(scores, axis=-1, keepdims=True))
        weights = jnp.exp(scores - now)
        shrink = jnp.exp(before - now)
        total[...] = total[...] * shrink + jnp.sum(weights, axis=-1, keepdims=True)
        values = jax.lax.dot_general(
            weights.astype(v_ref.dtype), v_ref[0], (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )
        weighted[...] = weighted[...] * shrink + values
        largest[...] = jnp.broadcast_to(now, largest.shape)

    @pl.when(column == pl.num_programs(2) - 1)
    def _() -> None:
        o_ref[0] = (weighted[...] / total[...]).astype(o_ref.dtype)


def custom(q: Any, k: Any, v: Any) -> Any:
    heads, length, width = q.shape
    queries = pl.BlockSpec((1, BLOCK, width), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((1, BLOCK, width), lambda h, i, j: (h, j, 0))
    return pl.pallas_call(
        functools.partial(_body, width**-0.5),
        grid=(heads, length // BLOCK, length // BLOCK),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((BLOCK, 128), jnp.float32)] * 2 + [pltpu.VMEM((BLOCK, width), jnp.float32)],
        compiler_params=parameters("parallel", "parallel", "arbitrary"),
    )(q, k, v)


def native(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    i = jnp.arange(q.shape[1])
    weights = jax.nn.softmax(jnp.where(i[None] <= i[:, None], scores, -jnp.inf), axis=-1)
    return jnp.einsum("hqk,hkd->hqd", weights.astype(v.dtype), v, preferred_element_type=jnp.float32).astype(q.dtype)
