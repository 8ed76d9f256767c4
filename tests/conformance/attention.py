"""Asks every attention implementation for its numbers, inside a pinned environment; needs jax and numpy only.

    python attention.py KERNELS numerics    # interpreted on the CPU, against float64
    python attention.py KERNELS compiles    # by the TPU compiler, no TPU needed
    python attention.py KERNELS refuses     # what is said to arrays that do not fit

Prints one JSON object a line. A failure is a traceback and a non-zero exit code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_WORKER_ID="0",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    TPU_LOG_DIR="disabled",
)

import jax
import numpy as np
from jax.experimental import pallas as pl


@dataclass(frozen=True)
class Case:
    """One input; its name says why it is here."""

    name: str
    query: tuple[int, int, int, int]
    key: tuple[int, int, int, int]
    dtype: str = "float32"
    causal: bool = False
    scale: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {"causal": self.causal, "scale": self.scale}

    def arrays(self) -> list[Any]:
        """Query, key, value and the output's cotangent, as float32 numbers that the case's type holds exactly."""
        random = np.random.default_rng(0)
        shapes = (self.query, self.key, self.key, self.query)
        return [jax.numpy.asarray(random.standard_normal(shape), self.dtype) for shape in shapes]


NUMERICS = (
    Case("full", (1, 1, 128, 128), (1, 1, 384, 128)),
    Case("causal_grouped_bf16", (1, 2, 384, 64), (1, 1, 384, 64), "bfloat16", causal=True),
    Case("one_query", (1, 2, 1, 128), (1, 1, 300, 128)),
    Case("more_keys_than_causal_sees", (1, 1, 300, 64), (1, 1, 500, 64), causal=True),
    Case("query_block_larger_than_key_block", (1, 1, 512, 32), (1, 1, 300, 32), "bfloat16", causal=True),
    Case("query_block_smaller_and_large_scores", (1, 1, 384, 32), (1, 1, 256, 32), causal=True, scale=8.0),
)

COMPILES = (
    Case("small", (1, 2, 256, 128), (1, 2, 256, 128), causal=True),
    Case("grouped_bf16", (1, 4, 256, 128), (1, 2, 256, 128), "bfloat16", causal=True),
    Case("prefill_2k", (1, 8, 2048, 128), (1, 8, 2048, 128), "bfloat16", causal=True),
    Case("wide_heads", (1, 1, 1024, 256), (1, 1, 1024, 256)),
    Case("odd", (1, 2, 300, 80), (1, 1, 77, 80)),
)

REFUSED = (
    Case("heads", (1, 3, 8, 64), (1, 2, 8, 64)),
    Case("head_dim", (1, 2, 8, 64), (1, 2, 8, 32)),
    Case("batch", (2, 2, 8, 64), (1, 2, 8, 64)),
    Case("empty", (1, 2, 8, 64), (1, 2, 0, 64)),
    Case("dtype", (1, 2, 8, 64), (1, 2, 8, 64), "float16"),
)


def main(kernels: str, question: str) -> None:
    sys.path.insert(0, kernels)
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # the interpreter prints the races it finds
        for line in {"numerics": numerics, "compiles": compiles, "refuses": refuses}[question]():
            print(json.dumps({"jax": jax.__version__, **line}), file=answers, flush=True)


def implementation(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = importlib.import_module(f"flash_attention.{name}").attention
    return found


def numerics() -> Iterator[dict[str, Any]]:
    """The error of output and gradients against float64, a line for each case and implementation."""
    for case in NUMERICS:
        truth = _truth(case)
        yield _errors("native", case, truth)
        with _interpreted() as mode:
            line = _errors("pallas_tpu", case, truth)
        yield {**line, "mode": mode, "races": _races_found(mode)}


def _errors(name: str, case: Case, truth: list[Any]) -> dict[str, Any]:
    results = _results(name, case, case.arrays())
    relative = [_relative_error(result, true) for result, true in zip(results, truth, strict=True)]
    return {
        "implementation": name,
        "case": case.name,
        "dtypes": [str(result.dtype) for result in results],
        "errors": dict(zip(("output", "d_query", "d_key", "d_value"), relative, strict=True)),
    }


def _truth(case: Case) -> list[Any]:
    arrays = [np.asarray(array, np.float64) for array in case.arrays()]
    jax.config.update("jax_enable_x64", True)
    try:
        return _results("reference", case, arrays)
    finally:
        jax.config.update("jax_enable_x64", False)


def _results(name: str, case: Case, arrays: list[Any]) -> list[Any]:
    function = jax.jit(functools.partial(_output_and_gradients, implementation(name), case))
    return [np.asarray(result) for result in function(*arrays)]


def _output_and_gradients(function: Callable[..., Any], case: Case, *arrays: Any) -> Any:
    *primals, cotangent = arrays
    output, pull_back = jax.vjp(functools.partial(function, **case.options), *primals)
    return (output, *pull_back(cotangent))


def _relative_error(result: Any, truth: Any) -> float:
    """Root mean square of the error, in units of the truth's own; infinite when a number is not finite."""
    error = result.astype(np.float64) - truth
    if not np.isfinite(error).all():
        return float("inf")
    return float(np.sqrt(np.mean(error**2) / np.mean(truth**2)))


@contextlib.contextmanager
def _interpreted() -> Iterator[str]:
    """Interpret TPU kernels: strictly, with two simulated cores, where this JAX can, otherwise plainly."""
    try:
        from jax.experimental.pallas import tpu as pltpu  # noqa: PLC0415 - may be missing: that is asked here
    except ModuleNotFoundError:
        with _plainly_interpreted():
            yield "generic interpreter"
        return
    parameters = inspect.signature(pltpu.InterpretParams).parameters
    cores = {name: 2 for name in parameters if name.startswith("num_cores")}  # the name changes between releases
    pltpu.reset_tpu_interpret_mode_state()
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True, **cores)):
        yield "tpu interpreter"


@contextlib.contextmanager
def _plainly_interpreted() -> Iterator[None]:
    original = pl.pallas_call
    pl.pallas_call = functools.partial(original, interpret=True)
    try:
        yield
    finally:
        pl.pallas_call = original


def _races_found(mode: str) -> bool | None:
    if mode == "generic interpreter":
        return None
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call  # noqa: PLC0415 - not importable everywhere

    return bool(interpret_pallas_call.races.races_found)


def compiles() -> Iterator[dict[str, Any]]:
    """What the TPU compiler makes of the kernel, a line for each generation and case; the gradient holds both passes."""
    from jax.experimental import topologies  # noqa: PLC0415 - loads libtpu

    for generation in ("v5e", "v6e"):
        device = topologies.get_topology_desc(platform="tpu", topology_name=f"{generation}:2x2").devices[0]
        for case in COMPILES:
            compiled = _compile(case, device)
            yield {
                "case": case.name,
                "target": generation,
                "kernels": compiled.as_text().count('custom_call_target="tpu_custom_call"'),
                "temp_bytes": compiled.memory_analysis().temp_size_in_bytes,
                "score_bytes": 4 * math.prod(case.query[:3]) * case.key[2],
            }


def _compile(case: Case, device: Any) -> Any:
    sharding = jax.sharding.SingleDeviceSharding(device)
    arrays = [jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding) for array in case.arrays()]
    function = functools.partial(_output_and_gradients, implementation("pallas_tpu"), case)
    with jax.default_device(device):
        return jax.jit(function).trace(*arrays).lower(lowering_platforms=("tpu",)).compile()


def refuses() -> Iterator[dict[str, Any]]:
    """The sentence with which the kernel refuses each case; null when it takes it."""
    for case in REFUSED:
        query, key, value, _ = case.arrays()
        try:
            implementation("pallas_tpu")(query, key, value)
        except ValueError as error:
            yield {"case": case.name, "sentence": str(error)}
        else:
            yield {"case": case.name, "sentence": None}


if __name__ == "__main__":
    main(*sys.argv[1:])
