"""memory: does each further call keep something (scenario `steady`).

Counters that are exactly still on a sound kernel are judged by counting; the host's heap by the median of the block
increments with a sign rule. A slope is never fitted: one resized table makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from watchdog.judges import statistics
from watchdog.judges.places import is_library
from watchdog.judges.statistics import Series
from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View, observed, quantity, records
from watchdog.judges.wording import bytes_text, number_text, one_line, sentence
from watchdog.model import Amount, Figure, Observation, Status, Verdict

SCENARIO = "steady"
LEAST_GROWING = 3  # blocks that must grow before a counter leaks
EVEN = 0.25  # spread of the increments, as a share of their median, up to which growth is even
ALPHA = 0.05  # chance of the sign rule alone, before the floor and the spread are asked
SPREADS = 3  # medians of noise stay below this many spreads
NEARLY = 0.9  # of the heaviest line's bytes, from which another line is as good an answer
HIDES = 2**20  # bytes per call; where only more than this would be seen, nothing was decided


class Shape(Enum):
    """How a series behaved over the blocks after the first."""

    STILL = "still"
    LEAKS = "leaks"
    SETTLED = "settled"  # grew, and then stopped
    UNSURE = "unsure"
    SHORT = "short"  # too few blocks to tell


@dataclass(frozen=True)
class Signal:
    """One thing that may grow: its unit, whether its counts are exact, and the least growth that matters.

    `least` is per call; `least_per_block` is what the check's own bookkeeping may cost.
    """

    name: str
    label: str
    unit: str
    exact: bool = True
    least: float = 0.0
    least_per_block: float = 0.0
    on_device: bool = False


# The worst first: a verdict names the first of these that grows.
SIGNALS = (
    Signal("device_bytes", "device memory", "B/call", on_device=True),
    Signal("live_array_bytes", "array memory", "B/call", on_device=True),
    Signal("live_arrays", "live arrays", "arrays/call", on_device=True),
    Signal("live_executables", "live executables", "executables/call"),
    Signal("heap_bytes", "host heap", "B/call", exact=False, least=1024, least_per_block=2**14),
    Signal("fds", "file descriptors", "descriptors/call"),
    Signal("threads", "threads", "threads/call"),
    Signal("objects", "Python objects", "objects/call", least=10),
    Signal("rss_bytes", "resident memory", "B/call", exact=False, least=4096, least_per_block=2**16),
)


@dataclass(frozen=True)
class Growth:
    """What one signal did, per call; `detectable` is the smallest growth per call that would have been called a leak."""

    signal: Signal
    shape: Shape
    rate: Figure
    detectable: float | None


def judge(view: View) -> list[Verdict]:
    """One verdict for the scenario, naming the worst signal."""
    growths = measure(view.candidate)
    if not growths:
        return [_undecided(view, "no counter was read", None)]
    leaking = [growth for growth in growths if growth.shape is Shape.LEAKS]
    if leaking:
        return [_leak(view, leaking)]
    unsure = [growth for growth in growths if growth.shape is Shape.UNSURE]
    if unsure:
        return [_undecided(view, f"{unsure[0].signal.label} grew unevenly: {_rate(unsure[0])}", unsure[0])]
    if all(growth.shape is Shape.SHORT for growth in growths):
        return [_undecided(view, "too few blocks were run to tell growth from warm-up", None)]
    return [_still(view, growths)]


def measure(observation: Observation) -> list[Growth]:
    """The growth of every signal that was read, in the order of `SIGNALS`."""
    calls = quantity(observation.data, "calls_per_block") or 0
    if calls < 1:
        return []
    present = [signal for signal in SIGNALS if len(observation.series.get(signal.name, ())) > 1]
    if any(signal.name == "heap_bytes" for signal in present):
        # Resident memory also grows when what was allocated long ago is touched; the heap tells allocations alone.
        present = [signal for signal in present if signal.name != "rss_bytes"]
    return [growth(signal, _after_warm_up(observation, signal.name), calls) for signal in present]


def _after_warm_up(observation: Observation, name: str) -> Series:
    """The readings from the first block's end on; one that was taken before the first block is left out."""
    blocks = int(quantity(observation.data, "blocks") or 0)
    readings = observation.series[name]
    return statistics.finite(readings[-blocks:] if blocks > 0 else readings)


def growth(signal: Signal, readings: Series, calls: float) -> Growth:
    """How `signal` behaved, from one reading per block of `calls` calls."""
    added = statistics.increments(readings)
    if added.size == 0:
        return Growth(signal, Shape.SHORT, Figure.exact(0.0, signal.unit), None)
    least = max(signal.least * calls, signal.least_per_block)
    if signal.exact:
        rate = Figure(float(added.mean()), float(added.min()), float(added.max()), signal.unit)
        return Growth(signal, _counted(readings, added, least), _per_call(rate, calls), 1 / calls)
    rate = _per_call(statistics.median_figure(added, signal.unit), calls)
    shift = _needed_shift(added, least)
    if shift is None:
        return Growth(signal, Shape.SHORT, rate, None)
    return Growth(signal, _weighed(added, least), rate, _seen(added, shift, calls))


def _counted(readings: Series, added: Series, least: float) -> Shape:
    """The rule for exact counters: still, or growing evenly in at least three blocks, or settled, or unsure."""
    grew = int(np.count_nonzero(added > 0))
    if grew == 0 or float(added.sum()) < least * added.size or _returns(readings):
        return Shape.STILL if added.size >= LEAST_GROWING else Shape.SHORT
    if added.size < LEAST_GROWING:
        return Shape.SHORT
    if grew >= LEAST_GROWING and _is_even(added):
        return Shape.LEAKS
    return Shape.SETTLED if _stopped(added) else Shape.UNSURE


def _returns(readings: Series) -> bool:
    """Whether the counter falls back: a later low is no higher than an earlier one, as with a collector's sawtooth."""
    half = readings.size // 2
    fell = bool(np.any(np.diff(readings) < 0))
    return fell and float(readings[half:].min()) <= float(readings[:half].min())


def _is_even(added: Series) -> bool:
    """Whether every block added about the same: none fell or stood still, and the spread is small."""
    return bool(np.all(added > 0)) and statistics.spread(added) <= EVEN * float(np.median(added))


def _stopped(added: Series) -> bool:
    """Whether growth ended: it was one step, or the stillness since is longer than any stillness between growths."""
    places = np.flatnonzero(added)
    if places.size == 1:
        return True
    since = added.size - 1 - int(places[-1])
    return since >= 2 and since > int(np.max(np.diff(places))) - 1  # noqa: PLR2004 - one still block is chance


def _weighed(added: Series, least: float) -> Shape:
    """The rule for noisy bytes: do sign and floor say that it grows, does it go on, and is the spread small enough."""
    median = float(np.median(added))
    if _shift_for_growth(added, least) > 0:
        return Shape.STILL
    if 2 * float(np.median(added[added.size // 2 :])) < median:
        return Shape.SETTLED
    return Shape.LEAKS if median >= SPREADS * statistics.spread(added) else Shape.UNSURE


def _needed_shift(added: Series, least: float) -> float | None:
    """How much more each block would have had to add to be called a leak; None with too few blocks for the sign rule.

    A shift of all increments leaves their spread as it is.
    """
    if statistics.sign_count(added.size, ALPHA) is None:
        return None
    return max(_shift_for_growth(added, least), SPREADS * statistics.spread(added) - float(np.median(added)))


def _shift_for_growth(added: Series, least: float) -> float:
    """How much more each block would have had to add for sign and floor to say that it grows; 0 or less if they do."""
    positive = statistics.sign_count(added.size, ALPHA) or added.size
    return max(float(-np.sort(added)[::-1][positive - 1]), least - float(np.median(added)))


def _seen(added: Series, needed: float, calls: float) -> float:
    """The smallest leak per call that these increments, without their own drift, would have shown."""
    return max(needed + max(float(np.median(added)), 0.0), 0.0) / calls


def _per_call(figure: Figure, calls: float) -> Figure:
    return Figure(figure.value / calls, figure.low / calls, figure.high / calls, figure.unit)


def _leak(view: View, leaking: list[Growth]) -> Verdict:
    worst = leaking[0]
    if _may_be_the_interpreter(view, leaking):
        text = f"keeps {_rate(worst)}, but on the host, where the interpreter may be what keeps it"
        return _undecided(view, text, worst)
    before, native = _leaks(view.before), _leaks(view.control)
    who = suspect(view, before=was_there(view, found=before), native=native)
    kind = "cache growth" if worst.signal.name == "live_executables" else "leak"
    site = _site(view)
    parts = [
        f"keeps {_rate(worst)}" + (f", allocated at {site}" if site else ""),
        _others(leaking),
        f"already under the baseline {view.against}" if before else None,
        "the native implementation or the way it is called does the same" if native else None,
        "a cache that has not filled up yet looks the same"
        if kind == "cache growth" or not worst.signal.on_device
        else None,
        blamed(view, who, before=before),
    ]
    return view.verdict(
        Status.REGRESSED,
        sentence(parts),
        scenario=_scenario(view),
        signal=worst.signal.name,
        kind=kind,
        suspect=who,
        figure=worst.rate,
        detectable=_detectable(worst),
        where=site,
    )


def _still(view: View, growths: list[Growth]) -> Verdict:
    """Nothing grew: said with the weakest of the assurances, the one whose detectable leak is largest in bytes."""
    weakest = max(growths, key=lambda growth: (growth.signal.unit == "B/call", growth.detectable or 0.0))
    if not any(growth.signal.exact for growth in growths) and (weakest.detectable or HIDES) >= HIDES:
        return _undecided(view, "the noise hides anything smaller than 1 MiB per call", weakest)
    settled = [growth for growth in growths if growth.shape is Shape.SETTLED]
    improved = bool(_leaks(view.before))
    parts = [
        f"nothing is kept over {_calls(view)}",
        f"{view.against} leaked" if improved else None,
        f"{settled[0].signal.label} grew at first and then stopped" if settled else None,
        _assurance(weakest),
    ]
    return view.verdict(
        Status.IMPROVED if improved else Status.PASS,
        sentence(parts),
        scenario=_scenario(view),
        kind="leak gone" if improved else "plateau" if settled else None,
        figure=weakest.rate,
        detectable=_detectable(weakest),
    )


def _undecided(view: View, text: str, growth: Growth | None) -> Verdict:
    return view.verdict(
        Status.INCONCLUSIVE,
        f"{text}; over {_calls(view)}",
        scenario=_scenario(view),
        signal=growth.signal.name if growth else None,
        kind="unsure",
        figure=growth.rate if growth else None,
        detectable=_detectable(growth) if growth else None,
    )


def _may_be_the_interpreter(view: View, leaking: list[Growth]) -> bool:
    """Whether the kernel ran interpreted and only the host grew: then the interpreter's own books may be what grows."""
    interpreted = view.data.get("mode") not in (None, "device")
    return interpreted and not any(growth.signal.on_device for growth in leaking)


def _leaks(observation: Observation | None) -> bool | None:
    seen = observed(observation)
    growths = measure(seen) if seen else []
    return any(growth.shape is Shape.LEAKS for growth in growths) if growths else None


def _detectable(growth: Growth) -> Amount | None:
    return None if growth.detectable is None else Amount(growth.detectable, growth.signal.unit)


def _assurance(growth: Growth) -> str | None:
    if growth.detectable is None:
        return None
    return f"{_amount(growth.detectable, growth.signal)} per call would have been seen"


def _others(leaking: list[Growth]) -> str | None:
    return f"also {', '.join(_rate(one) for one in leaking[1:4])}" if len(leaking) > 1 else None


def _rate(growth: Growth) -> str:
    return f"{_amount(growth.rate.value, growth.signal)} per call"


def _amount(value: float, signal: Signal) -> str:
    """An amount in words: `16 KiB of device memory`, `2 arrays`."""
    if signal.unit == "B/call":
        return f"{bytes_text(value)} of {signal.label}"
    plural = signal.unit.removesuffix("/call")
    return f"{number_text(value)} {plural.removesuffix('s') if value == 1 else plural}"


def _calls(view: View) -> str:
    per_block, blocks = quantity(view.data, "calls_per_block"), quantity(view.data, "blocks")
    if per_block is None or blocks is None:
        return "an unknown number of calls"
    return f"{number_text(per_block * blocks)} calls"


def _scenario(view: View) -> str:
    return str(view.data.get("scenario") or SCENARIO)


def _site(view: View) -> str | None:
    """The line that allocated most of what stayed; among about equals, one that is not a library's: it can be mended."""
    sites = [site for site in records(view.data, "sites") if site.get("where")]
    most = max(map(_weight, sites), default=(0.0, 0.0))
    near = [site for site in sites if _weight(site) >= (NEARLY * most[0], NEARLY * most[1])]
    chosen = max(near, key=_merit, default=None)
    return one_line(str(chosen["where"]), 120) if chosen else None


def _merit(site: Mapping[str, object]) -> tuple[bool, tuple[float, float], str]:
    where = str(site["where"])
    return not is_library(where), _weight(site), where


def _weight(site: Mapping[str, object]) -> tuple[float, float]:
    return quantity(site, "bytes") or 0.0, quantity(site, "objects") or 0.0
