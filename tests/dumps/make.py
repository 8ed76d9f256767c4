"""Makes the stored dumps: `PYTHON make.py PROGRAM OUTPUT [GENERATION]`, with the Python of an environment of jax[tpu].

A dump is one text file: the files that the reader needs, each after a line `==== NAME`, without kernel bodies and
without paths. Of the compiler's own analysis only the totals are kept: they are the witness that tests compare with.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import SingleDeviceSharding

NEEDED = re.compile(
    r"\d+-(?:TLP-)?hlo\.txt|.*-\d+-(?:final_hlo-static-per-bundle-utilization|(?:schedule-analysis_)?final_bundles)\.txt"
)
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_LOG_DIR": "disabled",
}
FLAGS = (
    "--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
    "--xla_jf_dump_llo_pass_label_regex=(final_bundles|final_hlo-static-per-bundle-utilization) "
    "--xla_jf_dump_category_filter=codegen,program"
)
TOPOLOGIES = {
    "v3": "v3:2x2",
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}


def main(program: str, output: str, generation: str = "v5e") -> None:
    with tempfile.TemporaryDirectory() as folder:
        flags = FLAGS.format(folder=folder)
        subprocess.run(
            [sys.executable, __file__, "--compile", program, generation],
            env={**os.environ, **ENVIRONMENT, "LIBTPU_INIT_ARGS": flags},
            check=True,
        )
        Path(output).write_text("".join(packed(Path(folder))), encoding="utf-8")


def packed(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if NEEDED.fullmatch(path.name) and "continuation_tailcall" not in path.name:
            text = re.sub(r'"body": ?"[^"]*"', '"body": ""', path.read_text(encoding="utf-8"))
            text = re.sub(r'"/[^"]*/', '"', text)
            totals = "schedule-analysis" in path.name
            yield f"==== {path.name}\n" + ("".join(text.splitlines(keepends=True)[:4]) if totals else text)


def compile_for_tpu(program: Callable[..., Any], generation: str) -> None:
    tpu = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[generation]).devices[0]
    placed = SingleDeviceSharding(tpu)
    shapes = [jax.ShapeDtypeStruct(shape, "float32", sharding=placed) for shape in ((24, 32, 128), (32, 128))]
    with jax.default_device(tpu):
        jax.jit(program).trace(*shapes).lower(lowering_platforms=("tpu",)).compile()


def native(x: Any, y: Any) -> Any:
    """No kernel at all: fusions."""
    return jax.nn.softmax(x[0] @ y.T, axis=-1)


def kernel(x: Any, y: Any) -> Any:
    """A grid of 4 around a loop of 24: the compiler's pipeline makes 6 trips of the grid."""

    def body(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        def step(i: Any, total: Any) -> Any:
            return jnp.maximum(total * 0.5, x_ref[i])

        out_ref[...] = jax.lax.fori_loop(0, 24, step, y_ref[...])

    return pallas_call(body, x, y)


def masked(x: Any, y: Any) -> Any:
    """A grid of 4 by 6; where the second step is not beyond the first, a loop of (first + 2) trips.

    x is read in blocks of [1, 8, 128], one for each step, y is written once for each first step.
    """

    def body(x_ref: Any, _y_ref: Any, out_ref: Any) -> None:
        i, j = pl.program_id(0), pl.program_id(1)

        def start() -> None:
            out_ref[...] = jnp.zeros_like(out_ref)

        def add() -> None:
            out_ref[...] = jax.lax.fori_loop(0, i + 2, lambda _, total: total * 0.5 + x_ref[0], out_ref[...])

        pl.when(j == 0)(start)
        pl.when(j <= i)(add)

    block = pl.BlockSpec((8, 128), lambda i, _j: (i, 0))
    return pl.pallas_call(
        body,
        grid=(4, 6),
        in_specs=[pl.BlockSpec((1, 8, 128), lambda i, j: (j, i, 0)), block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((32, 128), "float32"),
        name="masked_sum",
    )(x, y)


def pipeline(x: Any, y: Any) -> Any:
    """A pipeline of the kernel's own over 6 by 4 blocks of [1, 8, 128] that stay in HBM, without those below j == i."""

    def body(x_ref: Any, out_ref: Any) -> None:
        def step(block_ref: Any, result_ref: Any) -> None:
            def negate() -> None:
                result_ref[...] = -block_ref[...]

            pl.when(pl.program_id(1) >= pl.program_id(0))(negate)

        block = pl.BlockSpec((1, 8, 128), lambda i, j: (i, j, 0))
        pltpu.emit_pipeline(step, grid=(6, 4), in_specs=[block], out_specs=[block])(x_ref, out_ref)

    anywhere = pl.BlockSpec(memory_space=getattr(pl, "ANY", None) or pltpu.ANY)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return y + pl.pallas_call(body, in_specs=[anywhere], out_specs=anywhere, out_shape=shape, name="negated")(x)[0]


def looked_up(x: Any, y: Any) -> Any:
    """How long a loop is stands in an array, so that the compiler cannot know it."""

    def body(trips_ref: Any, x_ref: Any, out_ref: Any) -> None:
        def repeat() -> None:
            trips = trips_ref[pl.program_id(0)]
            out_ref[...] = jax.lax.fori_loop(0, trips, lambda _, total: total * 0.5, x_ref[...])

        pl.when(trips_ref[pl.program_id(0)] > 0)(repeat)

    block = pl.BlockSpec((8, 128), lambda i, _trips: (i, 0))
    call = pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(4,), in_specs=[block], out_specs=block, scratch_shapes=[]
        ),
        out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype),
        name="looked_up",
    )
    return call(x[0, 0, :4].astype("int32"), y)


def spills(x: Any, y: Any) -> Any:
    """70 values alive at once, 64 registers to hold them, and no cheap way to compute them again."""

    def body(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        parts = [jnp.exp(x_ref[i % 24] * (i + 1.0)) for i in range(70)]
        total = sum(parts)
        result = y_ref[...]
        for part in parts:
            result = jnp.maximum(result * total, part)
        out_ref[...] = result

    return pallas_call(body, x, y)


def branches(x: Any, y: Any) -> Any:
    """A kernel in a loop in one branch, a fusion in the other."""

    def repeated() -> Any:
        return jax.lax.fori_loop(0, 7, lambda _, total: kernel(x, total), y)

    return jax.lax.cond(y[0, 0] > 0, repeated, lambda: jnp.tanh(y) * 2)


def pallas_call(body: Callable[..., None], x: Any, y: Any) -> Any:
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(4,),
        in_specs=[pl.BlockSpec((24, 8, 128), lambda i: (0, i, 0)), block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((32, 128), "float32"),
        name="halving_maximum",
    )(x, y)


if __name__ == "__main__":
    if sys.argv[1] == "--compile":
        compile_for_tpu(globals()[sys.argv[2]], sys.argv[3])
    else:
        main(*sys.argv[1:])
