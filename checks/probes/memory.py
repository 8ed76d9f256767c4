"""Does it keep memory from request to request?

The first look is a series of equal blocks. Where something seems to grow, the check goes on until it can say what the
growth is: longer, with jax's caches cleared, with the collector at its own pace. Then it looks for the line and the
holder (`evidence`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from .. import artefacts, evidence, execution, suspicion
from ..emit import Observed
from ..faults import NotHereError, StageError
from ..scenarios import Requests, Service, serving
from ..subject import Subject
from ..watching import Watch

BLOCKS = 12  # the first fills caches and is dropped by the judge
MORE = 6  # blocks after a suspicion
LEAST = 7  # blocks, however slow; after them, what grew in every one is plain enough
PLAIN_SECONDS = 1.0  # of a look that is not cut short: what it costs to go on is little
WARM_UP = 10  # requests, the first of which compiles
WARM_UP_SECONDS = 1.0
FAST_SECONDS = 2.5  # of calls in the first look of a fast kernel
SIZES = (500, 200, 100)  # calls in a block of a fast kernel: whole shares of 1,000, and whole hundreds
FIRST_LOOK, LONGER = 0.6, 0.2  # of the budget of a slow kernel; the rest is for what follows a suspicion


def probe(subject: Subject) -> Observed:
    import jax

    positional, keywords = subject.inputs()
    settings = _collector()
    run = _execution(subject)
    with run.active():
        service = Service(subject, subject.function(), jax.device_put(positional), keywords)
        with serving(subject.cell.scenario, service) as requests:
            watch, data = _watched(requests, subject.plan.memory_budget, settings)
            data["program"] = None if requests.program is None else artefacts.memory(requests.program())
            data |= requests.facts
    data |= {"mode": run.mode, "device_memory": _memory_here()}
    return Observed("observed", data=data, series=watch.all_readings())


def _execution(subject: Subject) -> execution.Execution:
    """How it is run here. What needs concrete values cannot be jitted, and is watched as it stands only.

    Raises NotHereError for such an implementation in any scenario but `eager`.
    """
    try:
        return execution.plainly(subject)
    except StageError as error:
        if error.stage != "trace" or not _needs_values(error.cause):
            raise
        if subject.cell.scenario != "eager":
            message = "cannot be jitted, for it needs the values of its arguments; the scenario eager watches it"
            raise NotHereError(message) from error
        return execution.Execution(execution.DEVICE)


def _needs_values(error: BaseException) -> bool:
    return any("Concretization" in kind.__name__ or kind.__name__.startswith("Tracer") for kind in type(error).__mro__)


def _watched(requests: Requests, budget: float, settings: tuple[Any, ...]) -> tuple[Watch, dict[str, Any]]:
    """The first look, and what follows from a suspicion; `settings` are the collector's, from before any request."""
    seconds = _warmed_up(requests.call)
    requests.settle()
    changed = _collector() != settings
    calls = _calls_per_block(seconds, budget)
    slow = calls * BLOCKS * seconds > 2 * FAST_SECONDS
    blocks = BLOCKS if calls > 1 else max(LEAST, min(BLOCKS, int(FIRST_LOOK * budget / seconds)))
    watch = Watch(requests, BLOCKS + MORE + 2)
    trail = evidence.Trail()
    with _frozen():
        own = watch.own_growth()
        watch.sample()
        watch.block(calls)
        trail.begin()
        while watch.samples <= blocks and not (watch.seconds > PLAIN_SECONDS and suspicion.is_plain(watch, LEAST)):
            watch.block(calls)
        data: dict[str, Any] = {
            "calls_per_block": calls,
            "call_seconds": watch.calls_seconds / (calls * (watch.samples - 1)),
            "sampling_seconds": watch.sampling_seconds / watch.samples,
            "own_growth": own,
            "unreadable": list(watch.unreadable),
            "changes_collector": changed,
        }
        suspects = suspicion.suspects(watch, calls)
        data["suspects"] = suspects
        if suspects:
            _go_on(watch, calls, LONGER * budget if slow else FAST_SECONDS / 3)
            trail.follow()
            data |= _told_apart(watch, calls if slow else 2 * calls, suspects)
            if suspicion.waits(suspects):
                trail.follow_cycles(watch, calls)
            trail.retrace(requests, suspects, data["call_seconds"])
            data["evidence"] = trail.found
    data["blocks"] = watch.samples - 1
    return watch, data


def _warmed_up(call: Callable[[], None]) -> float:
    """Some requests, the first of which compiles; the seconds that one takes afterwards."""
    call()
    began = time.perf_counter()
    done = 0
    while done < WARM_UP and time.perf_counter() - began < WARM_UP_SECONDS:
        call()
        done += 1
    return (time.perf_counter() - began) / done


def _calls_per_block(seconds: float, budget: float) -> int:
    """As many as a leak at every hundredth call needs, while the time lasts; more where they cost little."""
    for calls in SIZES:
        if calls * BLOCKS * seconds <= min(FAST_SECONDS, budget):
            return calls
    return max(1, min(SIZES[-1], int(FIRST_LOOK * budget / BLOCKS / seconds)))


@contextmanager
def _frozen() -> Iterator[None]:
    """What is alive now is jax's and the checks' own: the collector need not walk it again at every sample."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _go_on(watch: Watch, calls: int, seconds: float) -> None:
    """Further blocks of the same kind: what fills up and stops has more time to stop."""
    per_block = watch.seconds / max(1, watch.samples - 1)
    for _ in range(max(2, min(MORE, int(seconds / max(per_block, 1e-9))))):
        watch.block(calls)


def _told_apart(watch: Watch, calls: int, suspects: list[str]) -> dict[str, Any]:
    """What stays from one clearing of jax's caches to the next, and what piles up with the collector at its own pace."""
    data: dict[str, Any] = {"cleared": _over_cleared_caches(watch, calls)}
    if suspicion.waits(suspects):
        data["collector"] = _at_its_own_pace(watch, 2 * calls)
    return data


def _over_cleared_caches(watch: Watch, calls: int) -> dict[str, Any]:
    """What these calls leave behind when jax's caches are cleared before and after them."""
    before = _cleared(watch)
    watch.serve(calls)
    after = _cleared(watch)
    return {"calls": calls, "grown": {name: after[name] - before[name] for name in after}}


def _cleared(watch: Watch) -> dict[str, float]:
    import jax

    watch.requests.settle()
    jax.clear_caches()
    return watch.read()[1]


def _at_its_own_pace(watch: Watch, calls: int) -> dict[str, Any]:
    """The most that is held when nobody calls the collector: it runs when Python thinks fit, as in service."""
    low = watch.read()[1]
    high = dict(low)
    for _ in range(calls):
        watch.requests.call()
        for name, value in watch.glance().items():
            high[name] = max(high[name], value)
    watch.requests.settle()
    return {"calls": calls, "high_water": {name: high[name] - low[name] for name in high if high[name] > low[name]}}


def _collector() -> tuple[Any, ...]:
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _memory_here() -> dict[str, Any]:
    """Bytes that the device has and that are in use; of this machine's own memory where the device does not tell."""
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return {"of": "device", "limit": stats["bytes_limit"], "used": stats["bytes_in_use"]}
    return {"of": "host", "limit": psutil.virtual_memory().total, "used": psutil.Process().memory_info().rss}
