"""Time of one compiled call, blocked until ready. What would have to be interpreted is not timed."""

from __future__ import annotations

import time
from typing import Any

from .. import compiler
from ..emit import Observed
from ..faults import at
from ..subject import Subject

BUDGET = 0.2  # seconds of calls for one case
FEWEST, MOST = 5, 200  # rounds


def probe(subject: Subject, benchmark: Any) -> Observed:
    """`benchmark` is pytest-benchmark's fixture. Raises NotHereError for a TPU kernel on another platform."""
    import jax

    with compiler.compiling_for(subject.cell.target) as sharding:
        lowered = subject.lowered(subject.traced(sharding))
        began = time.perf_counter()
        with at("compile"):
            compiled = lowered.compile()
        compile_seconds = time.perf_counter() - began
        arguments = jax.device_put(subject.inputs())

        def call() -> None:
            positional, keywords = arguments
            jax.block_until_ready(compiled(*positional, **keywords))

        call()  # the first may still allocate
        benchmark.pedantic(call, rounds=_rounds(call), iterations=1)
    return Observed(
        "observed",
        data={
            "mode": "device",
            "rounds": len(benchmark.stats.stats.data),
            "iterations": benchmark.stats.iterations,
            "compile_seconds": compile_seconds,
            "platform": jax.devices()[0].platform,
            "device_kind": jax.devices()[0].device_kind,
        },
        series={"seconds": list(benchmark.stats.stats.data)},
    )


def _rounds(call: Any) -> int:
    began = time.perf_counter()
    call()
    return max(FEWEST, min(MOST, int(BUDGET / max(time.perf_counter() - began, 1e-6))))
