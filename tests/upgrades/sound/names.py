"""The names that moved between releases, as this one spells them."""

from __future__ import annotations

from typing import Any

from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def parameters(*semantics: str) -> Any:
    """Compiler parameters with these dimension semantics."""
    kind = getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams
    return kind(dimension_semantics=semantics)


ANY = pl.ANY if hasattr(pl, "ANY") else pltpu.TPUMemorySpace.ANY
