"""Which scores count: block by block to skip work, and element by element where a block is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from .blocks import BlockSizes

# Finite, so that a score minus a maximum is never NaN. A row with nothing visible becomes a plain mean, not a NaN.
HIDDEN = -0.7 * float(jnp.finfo(jnp.float32).max)


@dataclass(frozen=True)
class Mask:
    """Hides keys after the query (causal) and keys that only pad the last block.

    `keys` counts the real keys. Block indices are `i` for queries and `j` for keys; they may be traced.
    """

    causal: bool
    keys: int
    blocks: BlockSizes

    def is_seen(self, i: Any, j: Any) -> Any:
        """Whether any score of the block is visible."""
        return not self.causal or j * self.blocks.key < (i + 1) * self.blocks.query

    def is_cut(self, i: Any, j: Any) -> Any:
        """Whether some score of the block may be hidden, so that its elements must be masked."""
        end = (j + 1) * self.blocks.key
        crosses_diagonal = self.causal and end > i * self.blocks.query + 1
        holds_padding = self.keys % self.blocks.key != 0 and end > self.keys
        return crosses_diagonal | holds_padding

    def last_key_block(self, i: Any, j: Any) -> Any:
        """Block `j`, or the last one that queries `i` see: a skipped block then fetches nothing new."""
        if not self.causal:
            return j
        return jnp.minimum(j, jax.lax.div((i + 1) * self.blocks.query - 1, self.blocks.key))

    def first_query_block(self, i: Any, j: Any) -> Any:
        """Block `i`, or the first one that sees keys `j`: a skipped block then fetches what is needed next."""
        if not self.causal:
            return i
        return jnp.maximum(i, jax.lax.div(j * self.blocks.key, self.blocks.query))

    def hide(self, scores: Any, i: Any, j: Any, *, query_axis: int) -> Any:
        """`scores` of one block with the hidden ones at HIDDEN; queries run along `query_axis`, keys along the other."""
        queries = i * self.blocks.query + jax.lax.broadcasted_iota(jnp.int32, scores.shape, query_axis)
        keys = j * self.blocks.key + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1 - query_axis)
        visible = keys < self.keys
        if self.causal:
            visible &= keys <= queries
        return jnp.where(visible, scores, HIDDEN)

    def visit(self, i: Any, j: Any, step: Any, *, query_axis: int) -> None:
        """Run `step(hide)` if any score of the block is visible; `hide` costs nothing where the block is not cut."""
        seen, cut = self.is_seen(i, j), self.is_cut(i, j)
        pl.when(seen & jnp.logical_not(cut))(lambda: step(lambda scores: scores))
        if self.causal or self.keys % self.blocks.key:
            pl.when(seen & cut)(lambda: step(lambda scores: self.hide(scores, i, j, query_axis=query_axis)))
