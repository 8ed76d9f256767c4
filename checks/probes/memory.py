"""Does it keep memory from call to call? The steady scenario: jitted once, called with the same shapes.

Equal blocks of calls; after each, the calls are waited for, the cyclic collector runs, and every counter is read.
The collector is off inside a block, so that its moods do not show.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from .. import execution, profile
from ..emit import Observed
from ..samplers import samplers
from ..subject import Subject

BLOCKS = 8  # the first fills caches and is dropped by the judge
BUDGET = 0.4  # seconds of calls in all blocks together
MOST_CALLS = 200  # per block


def probe(subject: Subject) -> Observed:
    import jax

    positional, keywords = subject.inputs()
    run = execution.plainly(subject)
    with run.active():
        arrays = jax.device_put(positional)
        jitted = jax.jit(subject.function())

        def call() -> None:
            jax.block_until_ready(jitted(*arrays, **keywords))

        call()
        seconds = _seconds_of(call)
        calls = max(1, min(MOST_CALLS, int(BUDGET / BLOCKS / max(seconds, 1e-6))))
        series, sites = _blocks(call, calls)
    return Observed(
        "observed",
        data={
            "scenario": "steady",
            "mode": run.mode,
            "calls_per_block": calls,
            "blocks": BLOCKS,
            "call_seconds": seconds,
            "sites": sites,
        },
        series=series,
    )


def _seconds_of(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _blocks(call: Callable[[], None], calls: int) -> tuple[dict[str, list[float]], list[dict[str, Any]]]:
    """One reading of each counter before the first block and after each; and where what stayed was allocated."""
    read = samplers()
    series: dict[str, list[float]] = {name: [] for name in read}
    before: profile.Profile | None = None
    # What is alive now is jax's and the checks' own: the collector need not walk it again, nor is it counted.
    gc.collect()
    gc.freeze()
    _sample(read, series)
    for block in range(BLOCKS):
        gc.disable()
        try:
            for _ in range(calls):
                call()
        finally:
            gc.enable()
        _sample(read, series)
        if block == 0:
            before = profile.take()
    assert before is not None
    sites = profile.growth(before, profile.take()) if _grew(series) else []
    return series, sites


def _sample(read: dict[str, Callable[[], float]], series: dict[str, list[float]]) -> None:
    import jax

    jax.effects_barrier()
    gc.collect()
    for name, sampler in read.items():
        series[name].append(float(sampler()))


def _grew(series: dict[str, list[float]]) -> bool:
    """Whether arrays, executables or device memory grew after the first block: only they have an allocating line."""
    watched = ("live_arrays", "live_executables", "device_bytes")
    return any(series[name][-1] > series[name][1] for name in watched if name in series)
