"""The blocks that one step of a kernel sees, where one block of queries meets the blocks of keys in turn."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax.experimental import pallas as pl

from .plan import Plan


class Windows(NamedTuple):
    """Block specifications over the grid (batch, heads, blocks of queries, blocks of keys)."""

    query: Any  # [bq, d], for arrays shaped like query
    key_value: Any  # [bk, d], for key and value
    row: Any  # [1, bq], one number for each query: [batch, heads, 1, queries]
    grid: tuple[int, int, int, int]


def by_query(query: Any, key: Any, plan: Plan) -> Windows:
    """The windows and the grid for `query` [batch, heads, queries, d] and `key` [batch, kv_heads, keys, d]."""
    batch, heads, queries, head_dim = query.shape
    kv_heads, keys = key.shape[1:3]
    bq, bk = plan.blocks.query, plan.blocks.key

    def kv_place(b: Any, h: Any, i: Any, j: Any) -> Any:
        return b, jax.lax.div(h, heads // kv_heads), plan.mask.last_key_block(i, j), 0

    return Windows(
        query=pl.BlockSpec((None, None, bq, head_dim), lambda b, h, i, _: (b, h, i, 0)),
        key_value=pl.BlockSpec((None, None, bk, head_dim), kv_place),
        row=pl.BlockSpec((None, None, 1, bq), lambda b, h, i, _: (b, h, 0, i)),
        grid=(batch, heads, queries // bq, keys // bk),
    )
