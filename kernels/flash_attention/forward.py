"""The forward kernel: one block of queries meets the blocks of keys in turn (online softmax).

Lengths are multiples of the blocks here. Within the kernel, with bq and bk the block lengths and d the head size:
query and output [bq, d], key and value [bk, d], scores [bq, bk], lse [1, bq].
Formula: Dao et al., "FlashAttention" (2022), algorithm 1; Milakov and Gimelshein (2018) for the online softmax.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from . import windows
from .blocks import LANES
from .compat import VMEM, CompilerParams
from .mask import HIDDEN
from .plan import Plan
from .products import product, product_transposed


class Operands(NamedTuple):
    """What the kernel reads."""

    query: Any  # [batch, heads, queries, head_dim]
    key: Any  # [batch, kv_heads, keys, head_dim]
    value: Any  # [batch, kv_heads, keys, head_dim]


class Results(NamedTuple):
    """What the kernel writes."""

    output: Any  # [batch, heads, queries, head_dim], query's type
    lse: Any  # [batch, heads, 1, queries], f32: the log-sum-exp of each query's scores


class Scratch(NamedTuple):
    """What the kernel carries, in f32, from one block of keys to the next."""

    maximum: Any  # [bq, 128], the same number in every lane: the largest score so far
    total: Any  # [bq, 128], the same number in every lane: the sum of exp(score - maximum)
    weighted: Any  # [bq, d]: the sum of exp(score - maximum) * value


def forward(operands: Operands, *, plan: Plan) -> Results:
    """The attention of whole blocks, and the log-sum-exp that the backward pass needs."""
    batch, heads, queries, head_dim = operands.query.shape
    bq = plan.blocks.query
    see = windows.by_query(operands.query, operands.key, plan)
    call = pl.pallas_call(
        partial(_kernel, plan=plan),
        name="flash_attention_forward",
        grid=see.grid,
        in_specs=[Operands(query=see.query, key=see.key_value, value=see.key_value)],
        out_specs=[Results(output=see.query, lse=see.row)],
        out_shape=[
            Results(
                output=jax.ShapeDtypeStruct(operands.query.shape, operands.query.dtype),
                lse=jax.ShapeDtypeStruct((batch, heads, 1, queries), jnp.float32),
            )
        ],
        scratch_shapes=[
            Scratch(
                maximum=VMEM((bq, LANES), jnp.float32),
                total=VMEM((bq, LANES), jnp.float32),
                weighted=VMEM((bq, head_dim), jnp.float32),
            )
        ],
        compiler_params=CompilerParams(dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")),
    )
    results: Results = call(operands)[0]
    return results


def _kernel(given: Operands, results: Results, scratch: Scratch, *, plan: Plan) -> None:
    i, j = pl.program_id(2), pl.program_id(3)
    maximum, total, weighted = scratch

    def start() -> None:
        maximum[...] = jnp.full_like(maximum, HIDDEN)
        total[...] = jnp.zeros_like(total)
        weighted[...] = jnp.zeros_like(weighted)

    def step(hide: Any) -> None:
        scores = hide(product_transposed(given.query[...], given.key[...]) * plan.scale)  # [bq, bk]
        old = maximum[...]
        new = jnp.maximum(old, jnp.max(scores, axis=1, keepdims=True))  # [bq, 128]
        weights = jnp.exp(scores - new[:, :1])
        shrink = jnp.exp(old - new)
        maximum[...] = new
        total[...] = shrink * total[...] + jnp.sum(weights, axis=1, keepdims=True)
        weighted[...] = shrink[:, :1] * weighted[...] + product(weights, given.value[...])

    def finish() -> None:
        # The largest score of a row adds exp(0) = 1 to its total, so there is no division by zero.
        results.output[...] = (weighted[...] / total[:, :1]).astype(results.output.dtype)
        results.lse[...] = (maximum[...] + jnp.log(total[...])).T[:1]  # [128, bq] -> [1, bq]

    pl.when(j == 0)(start)
    plan.mask.visit(i, j, step, query_axis=0)
    pl.when(j == pl.num_programs(3) - 1)(finish)
