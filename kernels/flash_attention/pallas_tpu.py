"""Flash attention for TPU, forward and backward, as Pallas kernels.

No score matrix is stored in main memory. Beside its arguments and output, the backward pass keeps one f32 number for
each query (the log-sum-exp of its scores). Sums are kept in f32; bf16 arrays are multiplied as bf16.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .arguments import check_arguments
from .backward import backward
from .blocks import BlockSizes, round_up
from .forward import Operands, forward
from .mask import Mask
from .plan import Plan


def attention(query: Any, key: Any, value: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """softmax(scale * query key^T) value, shaped and typed like query.

    Args:
        query: [batch, heads, queries, head_dim], bfloat16 or float32.
        key: [batch, kv_heads, keys, head_dim]; heads is a multiple of kv_heads.
        value: the same shape as key.
        causal: query i sees only keys 0 to i.
        scale: a Python number; 1 / sqrt(head_dim) when None.

    Raises:
        ValueError: the shapes or types do not fit together.
    """
    check_arguments(query, key, value)
    queries, head_dim = query.shape[2:]
    if causal:  # later keys are seen by nobody
        key, value = key[:, :, :queries], value[:, :, :queries]
    keys = key.shape[2]
    blocks = BlockSizes.choose(query_length=queries, key_length=keys, head_dim=head_dim)
    plan = Plan(
        scale=head_dim**-0.5 if scale is None else float(scale),
        mask=Mask(causal=bool(causal), keys=keys, blocks=blocks),
    )
    padded = _padded(query, blocks.query), _padded(key, blocks.key), _padded(value, blocks.key)
    return _attention(*padded, plan)[:, :, :queries]


def _padded(array: Any, block: int) -> Any:
    """`array` with zeros after its end along the length, so that whole blocks fill it."""
    length = array.shape[2]
    missing = round_up(length, block) - length
    return jnp.pad(array, ((0, 0), (0, 0), (0, missing), (0, 0))) if missing else array


def _output(query: Any, key: Any, value: Any, plan: Plan) -> Any:
    return forward(Operands(query, key, value), plan=plan).output


def _output_and_residuals(query: Any, key: Any, value: Any, plan: Plan) -> Any:
    operands = Operands(query, key, value)
    results = forward(operands, plan=plan)
    return results.output, (operands, results)


def _gradients(plan: Plan, residuals: Any, d_output: Any) -> Any:
    operands, results = residuals
    return backward(operands, results, d_output, plan=plan)


_attention = jax.custom_vjp(_output, nondiff_argnums=(3,))
_attention.defvjp(_output_and_residuals, _gradients)
