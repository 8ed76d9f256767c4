"""The backward kernels: the weights are computed again from the log-sum-exp, never stored.

With P = exp(scores - lse), dP = dO V^T and delta = sum(dO * O) over the head:
dV = P^T dO, dS = P * (dP - delta), dQ = scale * dS K, dK = scale * dS^T Q.
Formula: Dao et al., "FlashAttention" (2022), algorithm 4. Names and shapes as in `forward`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from . import forward, windows
from .blocks import LANES
from .compat import VMEM, CompilerParams
from .plan import Plan
from .products import product, product_transposed


class Operands(NamedTuple):
    """What both kernels read."""

    query: Any  # [batch, heads, queries, head_dim]
    key: Any  # [batch, kv_heads, keys, head_dim]
    value: Any  # [batch, kv_heads, keys, head_dim]
    d_output: Any  # [batch, heads, queries, head_dim]
    lse: Any  # [batch, heads, 1, queries], f32
    delta: Any  # [batch, heads, 1, queries], f32


class QueryScratch(NamedTuple):
    """What the query kernel carries, in f32, from one block of keys to the next."""

    lse: Any  # [bq, 128]: the row turned into a column, the same number in every lane
    delta: Any  # [bq, 128], likewise
    d_query: Any  # [bq, d], not yet scaled


class KeyValue(NamedTuple):
    """The gradients of key and value, as results and, in f32, as sums carried from block to block."""

    d_key: Any
    d_value: Any


def backward(given: forward.Operands, results: forward.Results, d_output: Any, *, plan: Plan) -> tuple[Any, Any, Any]:
    """The gradients of query, key and value, each shaped and typed like its array."""
    delta = jnp.sum(d_output.astype(jnp.float32) * results.output.astype(jnp.float32), axis=-1)[:, :, None, :]
    operands = Operands(*given, d_output=d_output, lse=results.lse, delta=delta)
    return (_query_gradient(operands, plan), *_key_value_gradients(operands, plan))


def _query_gradient(operands: Operands, plan: Plan) -> Any:
    """One block of queries meets the blocks of keys in turn."""
    bq, head_dim = plan.blocks.query, operands.query.shape[-1]
    see = windows.by_query(operands.query, operands.key, plan)
    call = pl.pallas_call(
        partial(_query_kernel, plan=plan),
        name="flash_attention_backward_query",
        grid=see.grid,
        in_specs=[
            Operands(
                query=see.query, key=see.key_value, value=see.key_value, d_output=see.query, lse=see.row, delta=see.row
            )
        ],
        out_specs=see.query,
        out_shape=jax.ShapeDtypeStruct(operands.query.shape, operands.query.dtype),
        scratch_shapes=[
            QueryScratch(
                lse=VMEM((bq, LANES), jnp.float32),
                delta=VMEM((bq, LANES), jnp.float32),
                d_query=VMEM((bq, head_dim), jnp.float32),
            )
        ],
        compiler_params=CompilerParams(dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")),
    )
    return call(operands)


def _query_kernel(given: Operands, d_query: Any, scratch: QueryScratch, *, plan: Plan) -> None:
    i, j = pl.program_id(2), pl.program_id(3)

    def start() -> None:
        scratch.lse[...] = _column(given.lse[...])
        scratch.delta[...] = _column(given.delta[...])
        scratch.d_query[...] = jnp.zeros_like(scratch.d_query)

    def step(hide: Any) -> None:
        scores = hide(product_transposed(given.query[...], given.key[...]) * plan.scale)  # [bq, bk]
        weights = jnp.exp(scores - scratch.lse[:, :1])
        d_weights = product_transposed(given.d_output[...], given.value[...])
        d_scores = weights * (d_weights - scratch.delta[:, :1])
        scratch.d_query[...] += product(d_scores, given.key[...])

    def finish() -> None:
        d_query[...] = (plan.scale * scratch.d_query[...]).astype(d_query.dtype)

    pl.when(j == 0)(start)
    plan.mask.visit(i, j, step, query_axis=0)
    pl.when(j == pl.num_programs(3) - 1)(finish)


def _column(row: Any) -> Any:
    """A row [1, bq] turned into [bq, 128], the same number in every lane."""
    return jnp.broadcast_to(row, (LANES, row.shape[1])).T


def _key_value_gradients(operands: Operands, plan: Plan) -> KeyValue:
    """One block of keys meets the blocks of queries in turn, for each query head `g` that shares its key head."""
    batch, heads, queries, head_dim = operands.query.shape
    kv_heads, keys = operands.key.shape[1:3]
    group = heads // kv_heads
    bq, bk = plan.blocks.query, plan.blocks.key

    def query_place(b: Any, h: Any, j: Any, g: Any, i: Any) -> Any:
        return b, h * group + g, plan.mask.first_query_block(i, j), 0

    def row_place(b: Any, h: Any, j: Any, g: Any, i: Any) -> Any:
        return b, h * group + g, 0, plan.mask.first_query_block(i, j)

    query_block = pl.BlockSpec((None, None, bq, head_dim), query_place)
    kv_block = pl.BlockSpec((None, None, bk, head_dim), lambda b, h, j, _g, _i: (b, h, j, 0))
    row_block = pl.BlockSpec((None, None, 1, bq), row_place)
    call = pl.pallas_call(
        partial(_key_value_kernel, plan=plan),
        name="flash_attention_backward_key_value",
        grid=(batch, kv_heads, keys // bk, group, queries // bq),
        in_specs=[
            Operands(
                query=query_block, key=kv_block, value=kv_block, d_output=query_block, lse=row_block, delta=row_block
            )
        ],
        out_specs=[KeyValue(kv_block, kv_block)],
        out_shape=[KeyValue(*(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in operands[1:3]))],
        scratch_shapes=[KeyValue(VMEM((bk, head_dim), jnp.float32), VMEM((bk, head_dim), jnp.float32))],
        compiler_params=CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary", "arbitrary")
        ),
    )
    gradients: KeyValue = call(operands)[0]
    return gradients


def _key_value_kernel(given: Operands, results: KeyValue, sums: KeyValue, *, plan: Plan) -> None:
    # Scores stand transposed here, [bk, bq]: lse and delta are used as the rows they are, and no product needs a
    # transposed left side.
    j, g, i = pl.program_id(2), pl.program_id(3), pl.program_id(4)

    def start() -> None:
        sums.d_key[...] = jnp.zeros_like(sums.d_key)
        sums.d_value[...] = jnp.zeros_like(sums.d_value)

    def step(hide: Any) -> None:
        scores = hide(product_transposed(given.key[...], given.query[...]) * plan.scale)  # [bk, bq]
        weights = jnp.exp(scores - given.lse[...])
        d_weights = product_transposed(given.value[...], given.d_output[...])
        d_scores = weights * (d_weights - given.delta[...])
        sums.d_value[...] += product(weights, given.d_output[...])
        sums.d_key[...] += product(d_scores, given.query[...])

    def finish() -> None:
        results.d_key[...] = (plan.scale * sums.d_key[...]).astype(results.d_key.dtype)
        results.d_value[...] = sums.d_value[...].astype(results.d_value.dtype)

    pl.when((g == 0) & (i == 0))(start)
    plan.mask.visit(i, j, step, query_axis=1)
    pl.when((g == pl.num_programs(3) - 1) & (i == pl.num_programs(4) - 1))(finish)
