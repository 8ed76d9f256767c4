"""memory: does each further call keep something, in one way of using the kernel (a scenario).

`growth` says which counters grow. This file says what the growth is (leak, cache growth, collector, plateau), who
holds it, and whom to suspect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from watchdog.judges import compile as compiling
from watchdog.judges import evidence
from watchdog.judges.costs import cost, cost_text
from watchdog.judges.growth import Growth, Shape, Signal, after_warm_up, measure, per_call, survives_clearing
from watchdog.judges.places import is_library
from watchdog.judges.statistics import median_figure
from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View, observed, quantity
from watchdog.judges.wording import bytes_text, number_text, sentence
from watchdog.model import Amount, Figure, Observation, Service, Status, Verdict

LEAK, CACHE, COLLECTOR, PLATEAU = "leak", "cache growth", "collector", "plateau"
CLEARED = 0.3  # of the growth; where no more than that survives jax.clear_caches(), a cache held it
LEAST_CYCLES = 0.5  # buffers per call that wait for the collector
# What grows by less than this per call is no finding where it is a cache of jax's own, for that ends, and holds some
# megabytes by then; nor a doubt where it grew unevenly.
LEAST_LARGE = {"heap_bytes": 16384.0, "objects": 10.0, "blocks": 20.0, "rss_bytes": 65536.0}
# Tracing anew is what these scenarios do, and jax remembers something of every trace, whatever the function.
TRACES_ANEW = ("rebuild", "reload", "errors")
LEAST_TRACED = {"heap_bytes": 65536.0, "objects": 250.0, "blocks": 500.0, "rss_bytes": 262144.0}
HIDES = 2**20  # bytes per call; where only more than this would be seen, nothing was decided


def judge(view: View) -> list[Verdict]:
    """One verdict on growth, naming the worst signal, and one on the program's memory where it needs more."""
    program = compiling.moved(view)
    return [_growth(view), *([program] if program else [])]


def _growth(view: View) -> Verdict:
    growths = measure(view.candidate)
    if not growths:
        return _undecided(view, "no counter was read", None)
    leaking = [growth for growth in growths if growth.leaks]
    if leaking and _matters(view.candidate, leaking):
        return _leak(view, leaking)
    if (waiting := waits_for_the_collector(view.candidate)) is not None:
        return _collector(view, waiting)
    unsure = [one for one in growths if one.shape is Shape.UNSURE and _is_large(one, view.cell.scenario)]
    if unsure:
        return _undecided(view, f"{unsure[0].signal.label} grew unevenly: {_rate(unsure[0])}", unsure[0])
    if all(growth.shape is Shape.SHORT for growth in growths):
        return _undecided(view, "too few blocks were run to tell growth from warm-up", None)
    return _still(view, growths)


def _matters(observation: Observation, leaking: Sequence[Growth]) -> bool:
    """Whether it is a leak, or a cache that takes enough to be worth a word."""
    if _kind(observation.data, leaking) == LEAK:
        return True
    return any(_is_large(growth, observation.cell.scenario) for growth in leaking)


def _is_large(growth: Growth, scenario: str) -> bool:
    least = LEAST_TRACED if scenario in TRACES_ANEW else LEAST_LARGE
    return growth.rate.value >= least.get(growth.signal.name, 0.0)


def waits_for_the_collector(observation: Observation) -> Figure | None:
    """Device bytes per call that only the cyclic collector frees; None when fewer than one call in two leaves any."""
    calls = quantity(observation.data, "calls_per_block") or 0
    held = {name: _held(observation, name) for name in ("buffers", "buffer_bytes", "device_bytes")}
    count, size = held["buffers"], held["device_bytes"] if held["device_bytes"] is not None else held["buffer_bytes"]
    if not calls or count is None or size is None or float(np.median(count)) < LEAST_CYCLES * calls:
        return None
    return per_call(median_figure(size, "B/call"), calls)


def _held(observation: Observation, name: str) -> Any:
    """What each block left to the collector; None where it was not read."""
    if not observation.series.get(f"{name}.uncollected") or not observation.series.get(name):
        return None
    held = after_warm_up(observation, f"{name}.uncollected") - after_warm_up(observation, name)
    return held[1:] if held.size > 1 else None  # the first reading belongs to the block that is dropped


def _leak(view: View, leaking: list[Growth]) -> Verdict:
    worst = leaking[0]
    kind = _kind(view.data, leaking)
    place = next((found for growth in leaking if (found := evidence.where(view.data, growth))), None)
    holder = evidence.holder(view.data)
    if _may_be_the_interpreter(view, worst, place) and kind == LEAK:
        text = f"keeps {_rate(worst)}, but on the host, where the interpreter may be what keeps it"
        return _undecided(view, text, worst)
    before, native = _shows(view.before, worst.signal), _shows(view.control, worst.signal)
    who = suspect(view, before=was_there(view, found=before), native=native)
    parts = [
        f"keeps {_rate(worst)}" + (f", {_made(worst.signal)} at {place}" if place else ""),
        holder if kind == LEAK or not evidence.is_held_by_a_library(view.data) else None,
        _what_frees_it(view.data, kind),
        _others(leaking, measure(view.candidate)),
        _cost(view, leaking, kind),
        f"already under the baseline {view.against}" if before and not view.is_baseline else None,
        "the native implementation or the way it is called does the same" if native else None,
        blamed(view, who, before=before),
        _manners(view.data),
    ]
    return view.verdict(
        Status.REGRESSED,
        sentence(parts),
        signal=worst.signal.name,
        kind=kind,
        suspect=who,
        figure=worst.rate,
        detectable=_detectable(worst),
        where=place,
    )


def _kind(data: Mapping[str, Any], leaking: Sequence[Growth]) -> str:
    """By what survives jax.clear_caches(): asked of an exact counter where one leaks, for the heap is noisy."""
    exact = [growth for growth in leaking if growth.signal.exact]
    shares = [survives_clearing(data, growth) for growth in (exact or leaking)]
    known = [share for share in shares if share is not None]
    return CACHE if known and known[0] <= CLEARED else LEAK


def _what_frees_it(data: Mapping[str, Any], kind: str) -> str | None:
    if not isinstance(data.get("cleared"), Mapping):
        return None
    if kind == LEAK:
        return "neither the collector nor jax.clear_caches() frees it"
    return f"jax.clear_caches() frees it{evidence.bound(data)}"


def _collector(view: View, held: Figure) -> Verdict:
    before, native = _waits(view.before), _waits(view.control)
    who = suspect(view, before=was_there(view, found=before), native=native)
    place = evidence.site(view.data, "buffer")
    parts = [
        f"{bytes_text(held.value)} of device buffers per call are freed by the cyclic garbage collector alone"
        + (f", allocated at {place}" if place else ""),
        evidence.cycle(view.data),
        _high_water(view.data),
        f"already under the baseline {view.against}" if before and not view.is_baseline else None,
        "the native implementation or the way it is called does the same" if native else None,
        blamed(view, who, before=before),
    ]
    calls = quantity(view.data, "calls_per_block") or 1
    return view.verdict(
        Status.REGRESSED,
        sentence(parts),
        signal="buffer_bytes",
        kind=COLLECTOR,
        suspect=who,
        figure=held,
        detectable=Amount(1 / calls, "B/call"),
        where=place,
    )


def _high_water(data: Mapping[str, Any]) -> str | None:
    found = data.get("collector")
    marks = found.get("high_water") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(marks, Mapping):
        return None
    most = quantity(marks, "device_bytes") or quantity(marks, "buffer_bytes")
    calls = quantity(found, "calls")
    if most is None or calls is None:
        return None
    return f"at its own pace it let up to {bytes_text(most)} pile up within {number_text(calls)} calls"


def _still(view: View, growths: list[Growth]) -> Verdict:
    """Nothing grew: said with the weakest of the assurances, the one whose detectable leak is largest in bytes."""
    weakest = max(growths, key=lambda growth: (growth.signal.unit == "B/call", growth.detectable or 0.0))
    if not any(growth.signal.exact for growth in growths) and (weakest.detectable or HIDES) >= HIDES:
        return _undecided(view, "the noise hides anything smaller than 1 MiB per call", weakest)
    settled = [growth for growth in growths if growth.shape is Shape.SETTLED]
    cached = [growth for growth in growths if growth.leaks]
    improved = view.before is not None and leaks(view.before)
    parts = [
        f"nothing is kept over {_calls(view)}"
        if not cached
        else f"a cache of jax's takes {_rate(cached[0])}, which jax.clear_caches() frees",
        f"{view.against} leaked" if improved else None,
        f"{settled[0].signal.label} grew at first and then stopped" if settled else None,
        _assurance(weakest),
        _manners(view.data),
    ]
    return view.verdict(
        Status.IMPROVED if improved else Status.PASS,
        sentence(parts),
        kind="leak gone" if improved else CACHE if cached else PLATEAU if settled else None,
        figure=weakest.rate,
        detectable=_detectable(weakest),
    )


def _manners(data: Mapping[str, Any]) -> str | None:
    """What else it does that its callers should know."""
    parts = [
        "it changes the settings of Python's garbage collector" if data.get("changes_collector") is True else None,
        "it frees its inputs, so every request got fresh ones" if data.get("frees_inputs") is True else None,
    ]
    return sentence(parts) or None


def _undecided(view: View, text: str, growth: Growth | None) -> Verdict:
    return view.verdict(
        Status.INCONCLUSIVE,
        f"{text}; over {_calls(view)}",
        signal=growth.signal.name if growth else None,
        kind="unsure",
        figure=growth.rate if growth else None,
        detectable=_detectable(growth) if growth else None,
    )


def _may_be_the_interpreter(view: View, worst: Growth, place: str | None) -> bool:
    """Whether the kernel ran interpreted and only the host grew, at no line of the user's: then its books may grow."""
    interpreted = view.data.get("mode") not in (None, "device")
    return interpreted and not worst.signal.on_device and (place is None or is_library(place))


def leaks(observation: Observation) -> bool:
    """Whether an observation shows a leak, or a cache that matters."""
    leaking = [growth for growth in measure(observation) if growth.leaks]
    return bool(leaking) and _matters(observation, leaking)


def _shows(observation: Observation | None, signal: Signal) -> bool | None:
    """Whether the same signal leaks there; None where it was not observed."""
    seen = observed(observation)
    growths = measure(seen) if seen else []
    return any(growth.leaks and growth.signal == signal for growth in growths) if growths else None


def _waits(observation: Observation | None) -> bool | None:
    seen = observed(observation)
    return None if seen is None else waits_for_the_collector(seen) is not None


def _cost(view: View, leaking: Sequence[Growth], kind: str) -> str | None:
    """What the leak costs; a cache that stops before memory is full costs its size."""
    bytes_kept = [growth for growth in leaking if growth.signal.unit == "B/call" and growth.rate.value > 0]
    memory = view.data.get("device_memory")
    if not bytes_kept or not isinstance(memory, Mapping):
        return None
    rate, service = bytes_kept[0].rate.value, view.facts.service
    room = _room(memory, service)
    if room is None:
        return None
    found = cost(rate, room, service)
    entries = max((quantity(cache, "limit") or 0.0 for cache in evidence.caches(view.data)), default=0.0)
    if kind == CACHE and 0 < entries < found.calls:
        return f"about {bytes_text(entries * rate)} in all by then"
    return cost_text(found, service)


def _room(memory: Mapping[str, Any], service: Service | None) -> float | None:
    """Free bytes: of the device that the service has, where it is said, else of what was observed.

    What this process holds of the host's memory says nothing about another machine's device.
    """
    limit, used = quantity(memory, "limit"), quantity(memory, "used") or 0.0
    if service is not None and service.device_memory is not None:
        return service.device_memory - (used if memory.get("of") == "device" else 0.0)
    return None if limit is None else limit - used


def _detectable(growth: Growth) -> Amount | None:
    return None if growth.detectable is None else Amount(growth.detectable, growth.signal.unit)


def _assurance(growth: Growth) -> str | None:
    if growth.detectable is None:
        return None
    return f"{_amount(growth.detectable, growth.signal)} per call would have been seen"


def _made(signal: Signal) -> str:
    return {"live_executables": "compiled", "fds": "opened", "threads": "started"}.get(signal.name, "allocated")


def _others(leaking: Sequence[Growth], growths: Sequence[Growth]) -> str | None:
    """The signals that agree, and the one people look at first where it does not."""
    agree = [_rate(one) for one in leaking[1:5]]
    heap = next((one for one in growths if one.signal.name == "heap_bytes"), None)
    flat = "the host's heap stays flat" if heap is not None and heap.shape is Shape.STILL else None
    return sentence([f"also {', '.join(agree)}" if agree else None, flat]) or None


def _rate(growth: Growth) -> str:
    return f"{_amount(growth.rate.value, growth.signal)} per call"


def _amount(value: float, signal: Signal) -> str:
    """An amount in words: `16 KiB of device memory`, `2 arrays`."""
    if signal.unit == "B/call":
        return f"{bytes_text(value)} of {signal.label}"
    number = number_text(value)
    return f"{number} {signal.label.removesuffix('s') if number == '1' else signal.label}"


def _calls(view: View) -> str:
    per_block, blocks = quantity(view.data, "calls_per_block"), quantity(view.data, "blocks")
    if per_block is None or blocks is None:
        return "an unknown number of calls"
    return f"{number_text(per_block * blocks)} calls"
