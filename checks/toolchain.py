"""Do the pins' jax and libtpu fit together? Asked with a kernel that nothing can be wrong with.

When a kernel under watch fails to lower or to compile, a trivial one that fails as well says that the pins are at
fault, whatever the error's text is.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import Any

from . import compiler
from .faults import NotHereError

_SHAPE = (8, 128)  # one tile of 32-bit values, on every generation


def fits(target: str) -> dict[str, Any]:
    """Whether a plain program and a trivial kernel compile for a `tpu:` target, and the versions concerned.

    `fits` is None where the target cannot be described at all.
    """
    found: dict[str, Any] = {"generation": target.removeprefix("tpu:"), **versions()}
    try:
        with compiler.compiling_for(target) as sharding:
            for name, program in (("a plain addition", _plain), ("a kernel that copies one tile", _kernel)):
                found["program"] = name
                _compile(program, sharding)
    except NotHereError as reason:
        return {**found, "fits": None, "error": str(reason)}
    except Exception as error:
        return {**found, "fits": False, "error": f"{type(error).__name__}: {error}"[:2000]}
    return {**found, "fits": True, "error": None}


def versions() -> dict[str, str | None]:
    """Versions of jax, jaxlib and libtpu, and `wants`: the libtpu that this jax's own metadata asks for."""
    named = {name: _version(name) for name in ("jax", "jaxlib", "libtpu")}
    return {**named, "wants": _wanted_libtpu()}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _wanted_libtpu() -> str | None:
    """The version specifier of `jax[tpu]` on libtpu, for example `==0.0.42.*`."""
    try:
        requirements = importlib.metadata.requires("jax") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (re.match(r"libtpu\s*\(?([=<>~!][^;)]*)", line) for line in requirements)
    return next((match[1].strip() for match in found if match), None)


def _compile(program: Any, sharding: Any) -> None:
    import jax
    import jax.numpy as jnp

    shape = jax.ShapeDtypeStruct(_SHAPE, jnp.float32, sharding=sharding)
    jax.jit(program).trace(shape).lower(lowering_platforms=("tpu",)).compile()


def _plain(x: Any) -> Any:
    return x + 1


def _kernel(x: Any) -> Any:
    import jax
    from jax.experimental import pallas as pl

    def copy(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    return pl.pallas_call(copy, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
