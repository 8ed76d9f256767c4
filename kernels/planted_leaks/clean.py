"""The work that every planted leak does as well, and that keeps nothing."""

from __future__ import annotations

from typing import Any

import jax


@jax.jit  # type: ignore[untyped-decorator]  # jax is not installed where types are checked
def _doubled(x: Any) -> Any:
    return x * 2


def double(x: Any) -> Any:
    """Twice `x`, compiled once for each shape."""
    return _doubled(x)
