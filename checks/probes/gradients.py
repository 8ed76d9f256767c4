"""How far are its gradients from the float64 truth? The vector-Jacobian product with a random cotangent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import pallas
from ..differentiation import defines_none, differentiated
from ..emit import Observed
from ..faults import NotHereError, at
from ..subject import Subject
from .numerics import Function, compare

_COTANGENT_STREAM = 1_000_000  # random streams of cotangents begin beyond those of any argument


def probe(subject: Subject) -> Observed:
    """Raises NotHereError for an implementation that defines no gradient."""
    import jax

    positional, keywords = subject.inputs()
    arguments = differentiated(subject, positional)
    with pallas.as_if_on_a_tpu(), at("trace"):
        outputs = jax.eval_shape(subject.function(), *positional, **keywords)
    cotangents = _cotangents(subject, outputs)
    try:
        return compare(subject, lambda function: _vjp(function, arguments, cotangents))
    except Exception as error:
        if isinstance(error, NotHereError) or not defines_none(error):
            raise
        said = (str(error).splitlines() or ["Pallas cannot derive its body"])[0][:200]
        message = f"has no gradient: {said}; give it a custom_vjp, or say differentiate = [] where none is meant"
        raise NotHereError(message) from error


def _cotangents(subject: Subject, outputs: Any) -> list[np.ndarray[Any, Any] | None]:
    """One random array per floating-point output, in the output's own precision; None for the others."""
    import jax
    import jax.numpy as jnp

    def cotangent(index: int, leaf: Any) -> np.ndarray[Any, Any] | None:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return None
        draw = np.random.default_rng([subject.case.seed, _COTANGENT_STREAM + index])
        return np.asarray(draw.normal(size=leaf.shape).astype(leaf.dtype))

    return [cotangent(index, leaf) for index, leaf in enumerate(jax.tree_util.tree_leaves(outputs))]


def _vjp(
    function: Function, arguments: tuple[int, ...], cotangents: list[np.ndarray[Any, Any] | None]
) -> Callable[..., dict[str, Any]]:
    """The function's vector-Jacobian product, by argument."""
    import jax
    import jax.numpy as jnp

    def weighted(*positional: Any, **keywords: Any) -> Any:
        """A scalar whose gradient with respect to each output is exactly its cotangent."""
        leaves = jax.tree_util.tree_leaves(function(*positional, **keywords))
        products = [
            jnp.sum(leaf.astype(_wide(leaf)) * jnp.asarray(cotangent).astype(_wide(leaf)))
            for leaf, cotangent in zip(leaves, cotangents, strict=True)
            if cotangent is not None
        ]
        return sum(products)

    def vjp(*positional: Any, **keywords: Any) -> dict[str, Any]:
        gradients = jax.grad(weighted, argnums=arguments)(*positional, **keywords)
        return {f"argument {n}": gradient for n, gradient in zip(arguments, gradients, strict=True)}

    return vjp


def _wide(leaf: Any) -> str:
    return "float64" if str(leaf.dtype) == "float64" else "float32"
