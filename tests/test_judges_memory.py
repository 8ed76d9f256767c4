"""The memory judge, fed with scripted growth, noise, steps and sawtooths, and with what a second look found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from watchdog.judges import KernelFacts, judge_run
from watchdog.judges.costs import cost, cost_text
from watchdog.model import (
    Amount,
    Cell,
    Check,
    Environment,
    Figure,
    Observation,
    Outcome,
    Package,
    Service,
    Status,
    Suspect,
    Verdict,
)

OLD, NEW = "current", "next"
CALLS, BLOCKS = 100, 8
KIB = 1024
ENVIRONMENTS = (
    Environment(OLD, (), "sha256:1", "", "3.11.7", (Package("jax", "0.8.3"),)),
    Environment(NEW, (), "sha256:2", "", "3.11.7", (Package("jax", "0.9.2"),)),
)


def verdicts_of(*observations: Observation, service: Service | None = None) -> list[Verdict]:
    """The verdicts on the first observation's cell."""
    judged = judge_run(observations, ENVIRONMENTS, OLD, {"flash": KernelFacts(service=service)})
    return [verdict for verdict in judged if verdict.cell == observations[0].cell]


def verdict_of(*observations: Observation, service: Service | None = None) -> Verdict:
    """The one verdict on the first observation's cell."""
    (verdict,) = verdicts_of(*observations, service=service)
    return verdict


def evidence(**found: Any) -> dict[str, Any]:
    return {"evidence": found}


def cleared(calls: int, **grown: float) -> dict[str, Any]:
    """What so many calls left behind from one jax.clear_caches() to the next."""
    return {"cleared": {"calls": calls, "grown": grown}}


def site(where: str, size: float, kind: str = "buffer") -> dict[str, Any]:
    return {"kind": kind, "where": where, "bytes": size, "objects": 1, "share": 1.0, "frames": [where]}


def memory(
    pins: str = OLD,
    implementation: str = "custom",
    mode: str = "device",
    calls: int = CALLS,
    more: Mapping[str, Any] | None = None,
    **series: Sequence[float],
) -> Observation:
    """One scenario's observation; `more` are further keys of its data."""
    cell = Cell("flash", implementation, "small", pins, "host", Check.MEMORY, "steady")
    readings = {name.replace("__", "."): values for name, values in series.items()}
    blocks = max(map(len, readings.values()), default=0)
    data = {"mode": mode, "calls_per_block": calls, "blocks": blocks, **(more or {})}
    return Observation(cell, Outcome.OBSERVED, data=data, series=readings)


def climb(*added: float, start: float = 1000.0) -> list[float]:
    """Readings after each block, from what each block after the first added."""
    return [start, *(start + np.cumsum(added)).tolist()]


FLAT = climb(*[0] * 7)


def test_one_array_kept_per_call() -> None:
    """An exact counter that grows evenly is a leak with its rate, its line and the smallest leak that would show."""
    kept = memory(
        live_arrays=climb(*[CALLS] * 7),
        device_bytes=climb(*[16 * KIB * CALLS] * 7),
        heap_bytes=FLAT,
        more=evidence(
            sites=[site("other.py:3", 8), site("my_kernel.py:12", 9e6), site("compiled.py:1", 9e9, "executable")]
        ),
    )
    verdict = verdict_of(kept, memory(implementation="native", live_arrays=FLAT))
    assert (verdict.status, verdict.kind, verdict.signal) == (Status.REGRESSED, "leak", "device_bytes")
    assert (verdict.scenario, verdict.where, verdict.suspect) == ("steady", "my_kernel.py:12", Suspect.KERNEL)
    assert verdict.figure == Figure.exact(16 * KIB, "B/call")
    assert verdict.detectable == Amount(1 / CALLS, "B/call")
    assert verdict.summary.startswith("keeps 16 KiB of device memory per call, allocated at my_kernel.py:12")


@pytest.mark.parametrize(
    ("sites", "named"),
    [
        ((("jax/_src/array.py:233", 9e6), ("my_kernel.py:12", 9e6)), "my_kernel.py:12"),
        ((("jax/_src/array.py:233", 9e6), ("my_kernel.py:12", 8.2e6), ("helper.py:3", 8.3e6)), "helper.py:3"),
        ((("jax/_src/array.py:233", 9e6), ("my_kernel.py:12", 8e6)), "jax/_src/array.py:233"),
        (
            (("/srv/lib/python3.11/site-packages/numpy/core.py:1", 5.0), ("numpy_kernel/ones.py:2", 5.0)),
            "numpy_kernel/ones.py:2",
        ),
        ((("jax/a.py:1", 5.0), ("jaxlib/b.py:2", 5.0)), "jaxlib/b.py:2"),
        ((("jax/a.py:1", 0.0), ("mine.py:2", 0.0)), "mine.py:2"),
    ],
)
def test_the_line_that_can_be_mended(sites: Sequence[tuple[str, float]], named: str) -> None:
    """Of lines that keep about as many bytes, the one outside jax is named; one that keeps far more is named anyway."""
    kept = memory(live_arrays=climb(*[CALLS] * 7), more=evidence(sites=[site(where, size) for where, size in sites]))
    assert verdict_of(kept).where == named


def test_still_series() -> None:
    """Nothing that grows passes, and says how small a leak would have been seen."""
    verdict = verdict_of(memory(live_arrays=FLAT, device_bytes=FLAT, heap_bytes=FLAT, fds=FLAT))
    assert (verdict.status, verdict.signal, verdict.kind) == (Status.PASS, None, None)
    assert verdict.detectable == Amount(1024, "B/call")


def test_suspect_of_a_leak() -> None:
    """A leak that came with the library, that native shows too, and that was always there."""
    leaks, still = climb(*[CALLS] * 7), FLAT
    came = verdict_of(memory(NEW, live_arrays=leaks), memory(OLD, live_arrays=still))
    shared = verdict_of(memory(OLD, live_arrays=leaks), memory(OLD, "native", live_arrays=leaks))
    always = verdict_of(memory(NEW, live_arrays=leaks), memory(OLD, live_arrays=leaks))
    assert [one.suspect for one in (came, shared, always)] == [Suspect.LIBRARY, Suspect.LIBRARY, Suspect.KERNEL]


def test_leak_that_is_gone() -> None:
    """A leak of the baseline that the candidate has no more is an improvement."""
    verdict = verdict_of(memory(NEW, live_arrays=FLAT), memory(OLD, live_arrays=climb(*[CALLS] * 7)))
    assert (verdict.status, verdict.kind) == (Status.IMPROVED, "leak gone")


@pytest.mark.parametrize(
    ("added", "status"),
    [
        ((60, 60, 60, 0, 0, 0, 0), Status.PASS),  # a warm-up that stops
        ((60, 30, 10, 2, 0, 0, 0), Status.PASS),
        ((0, 0, 0, 64, 0, 0, 0), Status.PASS),  # one step
        ((0, 0, 0, 0, 0, 0, 64), Status.PASS),
        ((60, 60, -120, 60, 60, -120, 60), Status.PASS),  # a collector's sawtooth
        ((1, -1, 1, -1, 1, -1, 0), Status.PASS),
        ((0, 1, 0, 0, 0, 1, 0), Status.INCONCLUSIVE),  # rare, perhaps real
        ((60, 60, 60, 60, 0, 1, 0), Status.PASS),  # a cache that was filled
        ((60, 60, 0, 0, 0, 0, 8), Status.INCONCLUSIVE),  # a warm-up that nearly stopped
        ((1, 0, 0, 1, 0, 0, 1), Status.REGRESSED),  # rare, and it goes on
        ((30, 30, 0, 30, 30, 0, 30), Status.REGRESSED),
        ((10, 90, 20, 80, 10, 90, 50), Status.REGRESSED),  # unevenly, and it goes on
        ((1, 1, 1, 1, 1, 1, 1), Status.REGRESSED),
        ((170, 160, 180, 150, 170, 165, 175), Status.REGRESSED),
    ],
)
def test_counting(added: tuple[float, ...], status: Status) -> None:
    """Counters leak when they grow in three blocks and go on; steps, warm-ups and sawtooths do not."""
    assert verdict_of(memory(live_arrays=climb(*added))).status is status


def test_first_block_is_warm_up() -> None:
    """What the first block adds is never counted, whether or not a reading was taken before it."""
    before_and_after_each = [0.0, *climb(*[0] * 7)]
    assert len(before_and_after_each) == BLOCKS + 1
    verdict = verdict_of(memory(live_arrays=before_and_after_each, more={"blocks": BLOCKS}))
    assert (verdict.status, verdict.kind) == (Status.PASS, None)


def test_one_object_per_call_is_a_leak() -> None:
    """A counter that is exactly still on sound kernels needs no floor to speak of; one object per block is its noise."""
    few, one = (verdict_of(memory(objects=climb(*[added] * 7))) for added in (4, CALLS))
    assert [few.status, one.status] == [Status.PASS, Status.REGRESSED]
    assert one.figure == Figure.exact(1.0, "objects/call")


def test_bookkeeping_of_single_calls() -> None:
    """With one call per block, a few KiB per block of the host's heap are the check's own."""
    observation = memory(live_arrays=FLAT, heap_bytes=climb(*[5000] * 7, start=1e8))
    one_call = replace(observation, data={**observation.data, "calls_per_block": 1})
    assert verdict_of(one_call).status is Status.PASS


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_blocks(blocks: int) -> None:
    """One or two blocks after the first cannot tell growth from warm-up."""
    assert verdict_of(memory(live_arrays=climb(*[CALLS] * blocks))).status is Status.INCONCLUSIVE


def test_nothing_was_read() -> None:
    """A cell without series decides nothing."""
    assert verdict_of(memory()).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("added", "status"),
    [
        ([40e3 * CALLS + noise for noise in (0, 9e3, -8e3, 4e3, -3e3, 5e3, 1e3)], Status.REGRESSED),
        ([500.0, 700, 300, 200, 100, 90, 80], Status.PASS),  # warm-up below the floor
        ([0, 0, 4e6, 0, 0, 0, 0], Status.PASS),  # a table is resized: what makes a slope
        ([4e6, 2e6, 1e6, 4e5, 2e5, 1e5, 6e4], Status.PASS),  # warm-up that is ending
        ([1e5, 9e6, 5e5, 2e6, 1e5, 8e6, 2e6], Status.INCONCLUSIVE),  # grows, too widely spread to be sure
        ([-5e5, 5e5, -5e5, 5e5, -5e5, 5e5, -5e5], Status.PASS),
    ],
)
def test_heap(added: list[float], status: Status) -> None:
    """The heap leaks by the median and the sign of its increments, never by a slope."""
    assert verdict_of(memory(live_arrays=FLAT, heap_bytes=climb(*added, start=1e8))).status is status


def test_noise_so_large_that_nothing_may_be_found() -> None:
    """A real leak of 2 KiB per call under noise of megabytes is not claimed; what would have shown is said."""
    random = np.random.default_rng(1)
    claimed = 0
    for _ in range(300):
        added = 2 * KIB * CALLS + random.normal(0, 8e6, BLOCKS - 1)
        verdict = verdict_of(memory(live_arrays=FLAT, heap_bytes=climb(*added, start=1e9)))
        claimed += verdict.status is Status.REGRESSED
        assert verdict.detectable is not None
        assert verdict.detectable.value > 2 * KIB
    assert claimed <= 3


def test_heap_noise_alone_decides_nothing() -> None:
    """Where the heap is all there is and its noise hides a mebibyte per call, nothing was answered."""
    added = [9e8, -9e8, 9e8, -9e8, 9e8, -9e8, 9e8]
    verdict = verdict_of(memory(heap_bytes=climb(*added, start=1e10)))
    assert (verdict.status, verdict.signal) == (Status.INCONCLUSIVE, "heap_bytes")


def test_detectable_is_what_would_have_been_called() -> None:
    """A leak just beyond the detectable size is called, one just below is not."""
    noise = np.array([3e4, -2e4, 1e4, -3e4, 2e4, -1e4, 0.0])
    quiet = verdict_of(memory(live_arrays=FLAT, heap_bytes=climb(*noise, start=1e8)))
    assert quiet.detectable is not None
    for share, status in ((1.01, Status.REGRESSED), (0.8, Status.PASS)):
        leak = noise + share * quiet.detectable.value * CALLS
        verdict = verdict_of(memory(live_arrays=FLAT, heap_bytes=climb(*leak, start=1e8)))
        assert (verdict.status is Status.REGRESSED) is (status is Status.REGRESSED)


def test_what_clearing_caches_frees_is_cache_growth() -> None:
    """One executable per call that jax.clear_caches() gives back is a cache's; one that stays is a leak."""
    grown = climb(*[CALLS] * 7)
    cache = verdict_of(memory(more=cleared(200, live_executables=0), live_executables=grown))
    leak = verdict_of(memory(more=cleared(200, live_executables=200), live_executables=grown))
    unknown = verdict_of(memory(live_executables=grown))
    assert [one.kind for one in (cache, leak, unknown)] == ["cache growth", "leak", "leak"]
    assert {one.status for one in (cache, leak, unknown)} == {Status.REGRESSED}
    assert "jax.clear_caches() frees it" in cache.summary
    assert "neither the collector nor jax.clear_caches() frees it" in leak.summary


def test_a_cache_says_where_it_ends() -> None:
    """The limits of the caches that grew bound the whole; their size is told rather than an out-of-memory."""
    caches = [{"name": "lowering", "where": None, "library": True, "entries": 90, "limit": 2048}]
    found = memory(
        live_executables=climb(*[CALLS] * 7),
        heap_bytes=climb(*[CALLS * 2**20] * 7),
        more=cleared(200, live_executables=0)
        | evidence(caches=caches)
        | {"device_memory": {"limit": 16 * 2**30, "used": 0}},
    )
    summary = verdict_of(found).summary
    assert "at 2,048 entries" in summary
    assert "about 2 GiB in all by then" in summary


def test_a_cache_that_takes_little_is_no_finding() -> None:
    """jax's own books grow by an object and some KiB per call in sound releases; that passes, and is said."""
    found = memory(objects=climb(*[CALLS] * 7), more=cleared(200, objects=0))
    verdict = verdict_of(found)
    assert (verdict.status, verdict.kind) == (Status.PASS, "cache growth")
    assert "1 Python object per call" in verdict.summary


def test_what_only_the_collector_frees() -> None:
    """Buffers that wait for the cyclic collector are told with the high-water mark and the class of the cycles."""
    held = [CALLS * 16 * KIB + 1000.0] * BLOCKS
    found = memory(
        buffers=FLAT,
        buffer_bytes=[1000.0] * BLOCKS,
        buffers__uncollected=[CALLS + 1000.0] * BLOCKS,
        buffer_bytes__uncollected=held,
        more=evidence(cycle_of="mine.Session", sites=[site("mine.py:3", 9.0)])
        | {"collector": {"calls": 400, "high_water": {"buffer_bytes": 5 * 2**20}}},
    )
    verdict = verdict_of(found)
    assert (verdict.status, verdict.kind, verdict.where) == (Status.REGRESSED, "collector", "mine.py:3")
    assert verdict.figure == Figure.exact(16 * KIB, "B/call")
    assert "reference cycles of mine.Session objects" in verdict.summary
    assert "up to 5 MiB pile up within 400 calls" in verdict.summary


def test_a_few_buffers_that_wait_are_no_finding() -> None:
    """One cycle in many calls is what exceptions and tracing leave."""
    found = memory(buffers=FLAT, buffer_bytes=FLAT, buffers__uncollected=climb(*[0] * 7, start=1010.0))
    assert verdict_of(found).status is Status.PASS


def test_the_holder_is_named() -> None:
    """Who keeps it alive stands in the sentence; of a cache in jax only the cache is told."""
    holder = {"of": "Array", "name": "_kept", "where": "mine.py:4", "chain": ["Array", "list"], "library": False}
    leak = verdict_of(memory(buffers=climb(*[CALLS] * 7), more=evidence(holder=holder)))
    in_jax = evidence(holder={**holder, "library": True}) | cleared(200, buffers=0)
    cache = verdict_of(memory(buffers=climb(*[CALLS] * 7), more=in_jax))
    assert "kept alive by _kept in mine.py:4" in leak.summary
    assert "_kept" not in cache.summary


@pytest.mark.parametrize(
    ("signal", "more", "where"),
    [
        ("fds", evidence(lines=[{"signal": "fds", "where": "mine.py:7", "per_call": 1.0}]), "mine.py:7"),
        ("fds", evidence(lines=[{"signal": "fds", "where": "mine.py:7", "per_call": 0.2}]), None),
        ("fds", evidence(lines=[{"signal": "threads", "where": "mine.py:7", "per_call": 1.0}]), None),
        ("objects", evidence(allocations=[{"where": "mine.py:8", "bytes": 400.0, "blocks": 2.0}]), "mine.py:8"),
        ("objects", evidence(allocations=[{"where": "jax/core.py:8", "bytes": 400.0, "blocks": 2.0}]), None),
        ("live_executables", evidence(sites=[site("mine.py:9", 0.0, "executable")]), "mine.py:9"),
    ],
)
def test_the_line_of_other_counters(signal: str, more: dict[str, Any], where: str | None) -> None:
    """A line is named when it accounts for half of the growth, and is the user's."""
    seen = memory(more=more)
    assert verdict_of(replace(seen, series={signal: climb(*[CALLS] * 7)})).where == where


def test_samplings_own_growth_is_taken_off() -> None:
    """What one sample keeps by itself is no growth of the kernel's."""
    own = {"own_growth": {"objects": 200.0}}
    assert verdict_of(memory(objects=climb(*[200] * 7), more=own)).status is Status.PASS
    grown = verdict_of(memory(objects=climb(*[200 + CALLS] * 7), more=own))
    assert grown.figure == Figure.exact(1.0, "objects/call")


def heap(per_call: float, blocks: int = 11, calls: int = 500) -> list[float]:
    """A heap under jax 0.8.3 and before: 144 bytes of each call stay until 1,000 calls are full; and a leak on top."""
    return [3e7 + 144 * ((block * calls + 137) % 1000) + per_call * block * calls for block in range(blocks)]


@pytest.mark.parametrize("calls", [500, 200])
def test_the_sawtooth_of_older_releases_is_no_leak(calls: int) -> None:
    """Readings are compared over whole periods, so that 64 bytes per call show beside a sawtooth of 144."""
    sound = verdict_of(memory(calls=calls, heap_bytes=heap(0, calls=calls), live_arrays=FLAT))
    leak = verdict_of(memory(calls=calls, heap_bytes=heap(64, calls=calls), live_arrays=FLAT))
    assert (sound.status, leak.status) == (Status.PASS, Status.REGRESSED)
    assert sound.detectable is not None
    assert sound.detectable.value < 64
    assert leak.figure is not None
    assert leak.figure.value == pytest.approx(64, rel=0.02)


def test_several_programs_by_turns_have_a_longer_period() -> None:
    """Four lengths are four programs: what each keeps falls back after four thousand calls, and is no leak before."""
    rising = [3e7 + 160 * 500 * block for block in range(11)]
    one = verdict_of(memory(calls=500, heap_bytes=rising, live_arrays=FLAT))
    four = verdict_of(memory(calls=500, heap_bytes=rising, live_arrays=FLAT, more={"lengths": [64, 48, 32, 16]}))
    assert [one.status, four.status] == [Status.REGRESSED, Status.PASS]
    assert four.detectable is not None
    assert four.detectable.value >= KIB


def test_few_calls_say_nothing_of_pythons_memory() -> None:
    """Tracing moves thousands of Python's memory blocks: below two periods they are not judged."""
    grown = climb(*[50 * 20] * 7)
    few = verdict_of(memory(calls=20, blocks=grown, live_arrays=FLAT))
    many = verdict_of(memory(calls=500, blocks=climb(*[50 * 500] * 7), live_arrays=FLAT))
    assert [few.status, many.status] == [Status.PASS, Status.REGRESSED]


@pytest.mark.parametrize(("scenario", "status"), [("eager", Status.REGRESSED), ("rebuild", Status.PASS)])
def test_what_jax_remembers_of_a_trace_is_its_price(scenario: str, status: Status) -> None:
    """Sixty objects per call in jax's caches are a finding of a plain call, and expected where each call traces anew."""
    found = memory(objects=climb(*[60 * CALLS] * 7), more=cleared(200, objects=0))
    moved = replace(found, cell=replace(found.cell, scenario=scenario))
    assert verdict_of(moved).status is status


def test_a_short_series_claims_nothing_small() -> None:
    """Over fewer calls than two periods the sawtooth looks like a leak of 144 bytes: the floor is 1 KiB there."""
    verdict = verdict_of(memory(calls=20, heap_bytes=[3e7 + 144 * 20 * block for block in range(11)], live_arrays=FLAT))
    assert verdict.status is Status.PASS
    assert verdict.detectable is not None
    assert verdict.detectable.value >= KIB


def test_more_memory_of_the_program_is_a_verdict_of_its_own() -> None:
    """A donated chain that needs 64 MiB of temporaries where it needed none regressed, however still its counters."""
    old, new = ({"program": {"temp_bytes": temp, "output_bytes": 0, "code_bytes": 0}} for temp in (196, 67_108_864))
    growth, program = verdicts_of(memory(NEW, more=new, buffers=FLAT), memory(OLD, more=old, buffers=FLAT))
    assert (growth.status, program.status) == (Status.PASS, Status.REGRESSED)
    assert (program.kind, program.signal, program.suspect) == ("more memory", "temp_bytes", Suspect.LIBRARY)


def test_a_higher_peak_on_the_device_is_more_memory() -> None:
    """The peak that the device reports is compared like the program's bytes."""
    old, new = ([start] * BLOCKS for start in (1e9, 1.2e9))
    found = verdicts_of(memory(NEW, device_peak_bytes=new, buffers=FLAT), memory(OLD, device_peak_bytes=old))
    assert [(one.status, one.signal) for one in found] == [(Status.PASS, None), (Status.REGRESSED, "peak_bytes")]


def test_the_cost_without_a_service_is_in_calls() -> None:
    """16 KiB per call fill 1 GiB in 65,536 calls."""
    found = cost(16 * KIB, 2**30, None)
    assert (found.calls, found.hours, found.money_a_week) == (65_536, None, None)
    assert cost_text(found, None) == "1 GiB are full after 65,536 calls"


def test_the_cost_of_a_service() -> None:
    """At 10 calls a second 36 GB are full in an hour of 1 MB per call; 6 minutes of restart are a tenth more."""
    service = Service(10.0, 36 * 10**9, 2.0, "EUR", 6.0)
    found = cost(1e6, 36e9, service)
    assert (found.calls, found.hours) == (36_000, 1.0)
    assert found.restarts_a_week == pytest.approx(168 / 1.1)
    assert found.overrun == pytest.approx(0.1)
    assert found.money_a_week == pytest.approx(0.1 * 2.0 * 168)
    leak = memory(
        calls=100,
        buffer_bytes=climb(*[100 * 1e6] * 7),
        buffers=climb(*[100] * 7),
        more={"device_memory": {"limit": 8e9, "used": 0.0}},
    )
    summary = verdict_of(leak, service=service).summary
    assert "153 restarts a week, an overrun of 10.00%, 33.6 EUR a week" in summary


def test_the_interpreters_own_books() -> None:
    """Host growth under an interpreter is not held against the kernel; arrays that stay are."""
    grown = climb(*[40e3 * CALLS] * 7)
    host = verdict_of(memory(mode="tpu interpreter", live_arrays=FLAT, heap_bytes=grown))
    arrays = verdict_of(memory(mode="tpu interpreter", live_arrays=grown, heap_bytes=grown))
    assert [host.status, arrays.status] == [Status.INCONCLUSIVE, Status.REGRESSED]
