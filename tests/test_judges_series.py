"""The judges of series: statistics, memory and timing, fed with scripted growth, noise, steps and sawtooths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from watchdog.judges import judge_run, statistics
from watchdog.model import (
    Amount,
    Cell,
    Check,
    Environment,
    Figure,
    Observation,
    Outcome,
    Package,
    Status,
    Suspect,
    Verdict,
)

OLD, NEW = "current", "next"
CALLS, BLOCKS = 30, 8
KIB = 1024
ENVIRONMENTS = (
    Environment(OLD, (), "sha256:1", "", "3.11.7", (Package("jax", "0.8.3"),)),
    Environment(NEW, (), "sha256:2", "", "3.11.7", (Package("jax", "0.9.2"),)),
)


def verdict_of(*observations: Observation, baseline: str | None = OLD) -> Verdict:
    """The one verdict on the first observation's cell."""
    verdicts = judge_run(observations, ENVIRONMENTS, baseline, {})
    (verdict,) = [verdict for verdict in verdicts if verdict.cell == observations[0].cell]
    return verdict


def memory(
    pins: str = OLD,
    implementation: str = "custom",
    mode: str = "device",
    sites: Sequence[Any] = (),
    **series: Sequence[float],
) -> Observation:
    cell = Cell("flash", implementation, "small", pins, "host", Check.MEMORY)
    data = {"scenario": "steady", "mode": mode, "calls_per_block": CALLS, "blocks": BLOCKS, "sites": list(sites)}
    return Observation(cell, Outcome.OBSERVED, data=data, series=series)


def timing(seconds: Sequence[float], pins: str = NEW, implementation: str = "custom") -> Observation:
    cell = Cell("flash", implementation, "small", pins, "host", Check.TIMING)
    return Observation(cell, Outcome.OBSERVED, data={"mode": "device"}, series={"seconds": seconds})


def artefacts(pins: str, fingerprint: str) -> list[Observation]:
    """The lowered and the compiled program of the timed cell."""
    cells = [Cell("flash", "custom", "small", pins, "host", check) for check in (Check.LOWER, Check.COMPILE)]
    return [Observation(cell, Outcome.OBSERVED, data={"fingerprint": fingerprint, "code_bytes": 9}) for cell in cells]


def climb(*added: float, start: float = 1000.0) -> list[float]:
    """Readings after each block, from what each block after the first added."""
    return [start, *(start + np.cumsum(added)).tolist()]


FLAT = climb(*[0] * 7)


def test_median_of_few_values_is_unsure_of_everything() -> None:
    """With too few values for the confidence the interval is the whole range."""
    assert statistics.median_figure(np.array([3.0, 1.0, 2.0]), "s") == Figure(2.0, 1.0, 3.0, "s")


@pytest.mark.parametrize("size", [8, 15, 40, 400, 5000])
def test_median_interval_holds_the_truth(size: int) -> None:
    """On skewed noise the 99 % interval misses the true median in about 1 % of series."""
    random = np.random.default_rng(size)
    draws = [statistics.median_figure(random.lognormal(0, 1, size), "s") for _ in range(400)]
    missed = sum(not one.low <= 1.0 <= one.high for one in draws)
    assert missed <= 12
    assert size < 40 or np.mean([one.high - one.low for one in draws]) < 2


def test_sign_count() -> None:
    """Five blocks must all grow before chance is ruled out at 5 %; four can never do; of eight, seven do."""
    assert [statistics.sign_count(size, 0.05) for size in (4, 5, 8, 20)] == [None, 5, 7, 15]


def test_empty_median_is_refused() -> None:
    """There is no median of nothing."""
    with pytest.raises(ValueError, match="at least one value"):
        statistics.median_figure(np.array([]), "s")


def test_one_array_kept_per_call() -> None:
    """An exact counter that grows evenly is a leak with its rate, its line and the smallest leak that would show."""
    kept = memory(
        live_arrays=climb(*[CALLS] * 7),
        device_bytes=climb(*[16 * KIB * CALLS] * 7),
        heap_bytes=FLAT,
        sites=[
            {"where": "other.py:3", "bytes": 8, "objects": 1},
            {"where": "my_kernel.py:12", "bytes": 9e6, "objects": 9},
        ],
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
    kept = memory(
        live_arrays=climb(*[CALLS] * 7), sites=[{"where": where, "bytes": size, "objects": 1} for where, size in sites]
    )
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
        ((1, 0, 0, 1, 0, 0, 1), Status.INCONCLUSIVE),  # rare, perhaps real
        ((30, 30, 0, 30, 30, 0, 30), Status.INCONCLUSIVE),
        ((10, 90, 20, 80, 10, 90, 50), Status.INCONCLUSIVE),  # every block, but unevenly
        ((1, 1, 1, 1, 1, 1, 1), Status.REGRESSED),
        ((170, 160, 180, 150, 170, 165, 175), Status.REGRESSED),
    ],
)
def test_counting(added: tuple[float, ...], status: Status) -> None:
    """Counters leak when every block adds about the same; steps, warm-ups and sawtooths do not."""
    assert verdict_of(memory(live_arrays=climb(*added))).status is status


def test_first_block_is_warm_up() -> None:
    """What the first block adds is never counted, whether or not a reading was taken before it."""
    before_and_after_each = [0.0, *climb(*[0] * 7)]
    assert len(before_and_after_each) == BLOCKS + 1
    verdict = verdict_of(memory(live_arrays=before_and_after_each))
    assert (verdict.status, verdict.kind) == (Status.PASS, None)


def test_few_objects_per_call_are_no_finding() -> None:
    """One Python object per call is kept by sound releases too; fifty are a leak."""
    few, many = (verdict_of(memory(objects=climb(*[count * CALLS] * 7))) for count in (1, 57))
    assert [few.status, many.status] == [Status.PASS, Status.REGRESSED]


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


def test_executables_are_cache_growth() -> None:
    """One more executable per call is named as growth of a cache, since caches may be bounded."""
    verdict = verdict_of(memory(live_arrays=FLAT, live_executables=climb(*[CALLS] * 7)))
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, "cache growth")


def test_the_interpreters_own_books() -> None:
    """Host growth under an interpreter is not held against the kernel; arrays that stay are."""
    grown = climb(*[40e3 * CALLS] * 7)
    host = verdict_of(memory(mode="tpu interpreter", live_arrays=FLAT, heap_bytes=grown))
    arrays = verdict_of(memory(mode="tpu interpreter", live_arrays=grown, heap_bytes=grown))
    assert [host.status, arrays.status] == [Status.INCONCLUSIVE, Status.REGRESSED]


def rounds(mean: float, seed: int, size: int = 40) -> list[float]:
    """Rounds with 2 % noise and a tail."""
    random = np.random.default_rng(seed)
    noise = 1 + np.abs(random.normal(0, 0.02, size)) + 0.2 * (random.random(size) > 0.95)
    return [float(seconds) for seconds in mean * noise]


def test_much_slower() -> None:
    """Three times slower while native stayed is regressed, and the library it came with is suspected."""
    controls = (timing(rounds(0.01, 3), NEW, "native"), timing(rounds(0.01, 4), OLD, "native"))
    verdict = verdict_of(timing(rounds(0.3, 1)), timing(rounds(0.1, 2), OLD), *controls)
    assert (verdict.status, verdict.kind, verdict.suspect) == (Status.REGRESSED, "slower", Suspect.LIBRARY)
    assert verdict.figure is not None
    assert verdict.figure.low < 3 < verdict.figure.high


def test_much_slower_and_so_is_native() -> None:
    """When native moved alike the machine is suspected and nothing is decided."""
    controls = (timing(rounds(0.025, 3), NEW, "native"), timing(rounds(0.01, 4), OLD, "native"))
    verdict = verdict_of(timing(rounds(0.3, 1)), timing(rounds(0.1, 2), OLD), *controls)
    assert (verdict.status, verdict.suspect) == (Status.INCONCLUSIVE, Suspect.MACHINE)


@pytest.mark.parametrize("slow", [0.3, 0.03])
def test_identical_program_with_another_time(slow: float) -> None:
    """The very same program that takes another time, longer or shorter, points at the machine."""
    cells = (timing(rounds(slow, 1)), timing(rounds(0.1, 2), OLD), *artefacts(OLD, "a"), *artefacts(NEW, "a"))
    verdict = verdict_of(*cells)
    assert (verdict.status, verdict.suspect) == (Status.INCONCLUSIVE, Suspect.MACHINE)


def test_much_faster() -> None:
    """Three times faster is an improvement."""
    verdict = verdict_of(timing(rounds(0.1, 1)), timing(rounds(0.3, 2), OLD))
    assert (verdict.status, verdict.kind) == (Status.IMPROVED, "faster")


def test_slower_than_one_process_can_tell() -> None:
    """What asv saw between two runs of the same code, 71 and 111 ms, is never called slower."""
    verdict = verdict_of(timing(rounds(0.111, 1)), timing(rounds(0.071, 2), OLD))
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.detectable is not None
    assert verdict.detectable.value > 1.6


def test_same_code_raises_no_alarm() -> None:
    """Two thousand A/A comparisons with 10 % between processes: no regression and no improvement."""
    random = np.random.default_rng(7)
    alarms = 0
    for seed in range(2000):
        sides = [rounds(0.1 * random.lognormal(0, 0.10), 2 * seed + side, 15) for side in (0, 1)]
        verdict = verdict_of(timing(sides[0]), timing(sides[1], OLD))
        alarms += verdict.status in (Status.REGRESSED, Status.IMPROVED)
    assert alarms <= 2


def test_time_of_the_baseline_itself() -> None:
    """The baseline's own cell passes with its time in seconds."""
    verdict = verdict_of(timing([0.1] * 9, OLD))
    assert (verdict.status, verdict.figure) == (Status.PASS, Figure.exact(0.1, "s"))


def test_few_rounds_of_the_baseline_are_a_time() -> None:
    """A slow call is timed in few rounds; under the baseline that still is its time."""
    assert verdict_of(timing([0.5, 0.4, 0.6], OLD)).figure == Figure(0.5, 0.4, 0.6, "s")


@pytest.mark.parametrize("baseline", [None, OLD])
def test_time_with_nothing_to_compare(baseline: str | None) -> None:
    """A time alone is no verdict: skipped, and its figure is kept."""
    verdict = verdict_of(timing([0.1] * 9), baseline=baseline)
    assert (verdict.status, verdict.figure) == (Status.SKIPPED, Figure.exact(0.1, "s"))


@pytest.mark.parametrize("seconds", [[], [0.1] * 4, [0.0] * 20, [float("nan")] * 20])
def test_rounds_that_cannot_be_used(seconds: list[float]) -> None:
    """Too few usable rounds decide nothing."""
    assert verdict_of(timing(seconds), timing([0.1] * 9, OLD)).status is Status.INCONCLUSIVE
