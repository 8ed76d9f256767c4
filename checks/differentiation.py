"""Whether an implementation has a gradient, and with respect to which arguments."""

from __future__ import annotations

import traceback
from typing import Any

from .faults import NotHereError
from .subject import Subject

# jax's own words for a function that nobody made differentiable; any other error is the gradient's own fault.
_SAID_BY_JAX = (
    "does not support reverse-mode autodiff",
    "Reverse-mode differentiation does not work",
    "do not support JVP",
    "No JVP defined",
    "Differentiation rule for",
)
# Pallas tries to derive the body by itself. With a grid or scratch memory that ends in a bare AssertionError.
_DERIVED_BY_PALLAS = "_pallas_call_jvp_rule"


def differentiated(subject: Subject, positional: tuple[Any, ...]) -> tuple[int, ...]:
    """The numbers of the arguments that have a gradient. Raises NotHereError when none has."""
    import jax
    import jax.numpy as jnp

    chosen = subject.plan.kernel.differentiate
    if chosen is not None:
        numbers = tuple(chosen)
    else:
        numbers = tuple(
            n
            for n, value in enumerate(positional)
            if all(jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating) for leaf in jax.tree_util.tree_leaves(value))
        )
    if not numbers:
        message = "none of its arguments is differentiated"
        raise NotHereError(message)
    return numbers


def defines_none(error: Exception) -> bool:
    """Whether an error of differentiating says that the function defines no gradient, and not that its gradient fails."""
    frames = traceback.extract_tb(error.__traceback__)
    derived = any(frame.name == _DERIVED_BY_PALLAS for frame in frames)
    return derived or any(text in str(error) for text in _SAID_BY_JAX)
