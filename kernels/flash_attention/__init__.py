"""Attention over `[batch, heads, length, head_dim]` arrays, in several implementations with one signature.

    attention(query, key, value, *, causal=False, scale=None) -> array shaped like query

`pallas_tpu` is the hand-written TPU kernel, `native` what XLA offers, `reference` the plain formula, and `upstream`
adapts the kernel that ships with JAX. Key and value may have fewer heads than query (grouped-query attention) and
another length. Causal aligns positions at the start: query i sees keys 0 to i.
"""
