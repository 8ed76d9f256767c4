"""Kernels whose copies, semaphores or grid steps are not in the order that they need. All double f32[256, 256]."""

# mypy: disable-error-code="untyped-decorator"
# ruff: noqa: ARG005 - an index map is given every axis of the grid

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .blocks import SHAPE, doubled

ANY = pl.ANY if hasattr(pl, "ANY") else pltpu.TPUMemorySpace.ANY
_SIGNAL = pl.semaphore_signal if hasattr(pl, "semaphore_signal") else pltpu.semaphore_signal
_WAIT = pl.semaphore_wait if hasattr(pl, "semaphore_wait") else pltpu.semaphore_wait


def _parameters(*semantics: str) -> Any:
    kind = getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams
    return kind(dimension_semantics=semantics)


def steps_share_an_output(x: Any) -> Any:
    """Both steps of a parallel axis add to one block of the output."""

    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros(o_ref.shape, o_ref.dtype)

        o_ref[...] += x_ref[...]

    whole = pl.BlockSpec((256, 256), lambda i: (0, 0))
    return pl.pallas_call(
        body, grid=(2,), in_specs=[whole], out_specs=whole, out_shape=SHAPE, compiler_params=_parameters("parallel")
    )(x)


def second_copy_not_awaited(x: Any) -> Any:
    """Two copies come in; only the first is waited for before both are read."""

    def body(x_hbm: Any, o_ref: Any, buffer: Any, arrived: Any) -> None:
        first = pltpu.make_async_copy(x_hbm.at[pl.ds(0, 128)], buffer.at[pl.ds(0, 128)], arrived.at[0])
        second = pltpu.make_async_copy(x_hbm.at[pl.ds(128, 128)], buffer.at[pl.ds(128, 128)], arrived.at[1])
        first.start()
        second.start()
        first.wait()
        o_ref[...] = buffer[...] * 2
        second.wait()

    return pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=ANY)],
        out_shape=SHAPE,
        scratch_shapes=[pltpu.VMEM((256, 256), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )(x)


def waits_for_nobody(x: Any) -> Any:
    """It waits twice for what is signalled once."""

    def body(x_ref: Any, o_ref: Any, ready: Any) -> None:
        _SIGNAL(ready, 1)
        _WAIT(ready, 2)
        o_ref[...] = x_ref[...] * 2

    return doubled(body, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)


def buffer_reused_too_early(x: Any) -> Any:
    """The one buffer is overwritten while it is still being copied out."""

    def body(x_ref: Any, o_hbm: Any, buffer: Any, left: Any) -> None:
        copies = [pltpu.make_async_copy(buffer, o_hbm.at[pl.ds(128 * i, 128)], left.at[i]) for i in range(2)]
        for i, copy in enumerate(copies):
            buffer[...] = x_ref[pl.ds(128 * i, 128), :] * 2
            copy.start()
        for copy in copies:
            copy.wait()

    return pl.pallas_call(
        body,
        out_specs=pl.BlockSpec(memory_space=ANY),
        out_shape=SHAPE,
        scratch_shapes=[pltpu.VMEM((128, 256), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )(x)
