"""An adapter for the flash attention that ships with JAX, `jax.experimental.pallas.ops.tpu.flash_attention`.

The function comes from the caller. This module does not import it, so a release where it cannot be imported is seen
as just that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def adapt(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which names its scale `sm_scale` and does not divide by sqrt(head_dim), with our signature.

    The result raises ValueError when key has fewer heads than query: `function` has no grouped-query attention.
    """

    def attention(query: Any, key: Any, value: Any, *, causal: bool = False, scale: float | None = None) -> Any:
        if query.shape[1] != key.shape[1]:
            msg = (
                "JAX's flash attention needs as many key heads as query heads, "
                f"and was given {key.shape[1]} and {query.shape[1]}"
            )
            raise ValueError(msg)
        sm_scale = query.shape[-1] ** -0.5 if scale is None else scale
        return function(query, key, value, causal=causal, sm_scale=sm_scale)

    return attention
