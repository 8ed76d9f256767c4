"""Names and arguments that some release took away, or that older ones do not know yet. All double f32[256, 256]."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .blocks import ROWS, SHAPE, double, doubled, rows


def any_of_tpu(x: Any) -> Any:
    """`pltpu.ANY`: it went to `pl.ANY`."""

    def body(x_hbm: Any, o_ref: Any, buffer: Any, arrived: Any) -> None:
        copy = pltpu.make_async_copy(x_hbm, buffer, arrived)
        copy.start()
        copy.wait()
        o_ref[...] = buffer[...] * 2

    return pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=pltpu.ANY)],
        out_shape=SHAPE,
        scratch_shapes=[pltpu.VMEM((256, 256), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x)


def tpu_memory_space(x: Any) -> Any:
    """`pltpu.TPUMemorySpace`: it was renamed."""
    spec = pl.BlockSpec(ROWS, rows, memory_space=pltpu.TPUMemorySpace.VMEM)
    return doubled(double, in_specs=[spec])(x)


def swapped_block_arguments(x: Any) -> Any:
    """`pl.BlockSpec(index_map, block_shape)`: the order that was right until 0.4.30."""
    spec = pl.BlockSpec(rows, ROWS)
    return doubled(double, in_specs=[spec])(x)


def parameters_as_a_dictionary(x: Any) -> Any:
    """`compiler_params` as a dictionary for Mosaic."""
    return doubled(double, compiler_params={"mosaic": {"dimension_semantics": ("parallel",)}})(x)


def unblocked(x: Any) -> Any:
    """`indexing_mode=pl.unblocked`: an element's index instead of a block's."""
    spec = pl.BlockSpec(ROWS, lambda i: (i * 128, 0), indexing_mode=pl.unblocked)
    return doubled(double, in_specs=[spec])(x)


def semaphores_of_tpu(x: Any) -> Any:
    """`pltpu.semaphore_signal` and `pltpu.semaphore_wait`: they went to `pl`."""

    def body(x_ref: Any, o_ref: Any, ready: Any) -> None:
        pltpu.semaphore_signal(ready, 1)
        pltpu.semaphore_wait(ready, 1)
        o_ref[...] = x_ref[...] * 2

    return doubled(body, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)


def reciprocal_of_pallas(x: Any) -> Any:
    """`pl.reciprocal`: it goes to `pltpu`, and no release has taken it away so far."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * pl.reciprocal(jnp.full(ROWS, 0.5, jnp.float32))

    return doubled(body)(x)


def loop_of_pallas(x: Any) -> Any:
    """`pl.loop`: younger than jax 0.5.3."""

    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.loop(0, 4)
        def _(i: Any) -> None:
            some = pl.ds(pl.multiple_of(i * 32, 32), 32)
            o_ref[some, :] = x_ref[some, :] * 2

    return doubled(body)(x)


def today(x: Any) -> Any:
    """`pltpu.CompilerParams`: younger than jax 0.5.3."""
    return doubled(double, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))(x)
