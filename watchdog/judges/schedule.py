"""schedule: the compiled kernel's VLIW bundles and spills, exact counts of a static listing; neither is a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchdog.judges.suspects import blamed, suspect
from watchdog.judges.view import View, observed, quantity, records
from watchdog.judges.wording import number_text, one_line, percent_text, sentence
from watchdog.model import Amount, Figure, Observation, Status, Verdict

BUNDLES_SHARE, BUNDLES_LEAST = 0.10, 8
SPILLS_SHARE, SPILLS_LEAST = 0.10, 8


def judge(view: View) -> list[Verdict]:
    """Regressed when bundles grew by more than 10 % and at least 8; a second verdict when spills moved by 10 % and 8."""
    bundles = _count(view.candidate, "bundles")
    gaps = _gaps(view)
    if bundles is None or gaps:
        return [_incomplete(view, bundles, gaps)]
    if reason := view.nothing_to_compare():
        return [view.verdict(Status.SKIPPED, reason, figure=Figure.exact(bundles, "bundles"))]
    old = _count(view.before, "bundles")
    if old is None:
        return [_alone(view, bundles)]
    return [_bundles(view, bundles, old), *_spills(view)]


def _gaps(view: View) -> str | None:
    """What is missing from the dumps that would be compared; None when they are whole."""
    for pins, observation in ((view.cell.pins, view.candidate), (view.against, view.before)):
        if observation is not None and observation.data.get("complete") is False:
            notes = observation.data.get("notes") or ["not every program was found in the dump"]
            return f"the schedule under {pins} is incomplete: {one_line('; '.join(map(str, notes)))}"
    return None


def _incomplete(view: View, bundles: float | None, gaps: str | None) -> Verdict:
    figure = None if bundles is None else Figure.exact(bundles, "bundles")
    return view.verdict(Status.INCONCLUSIVE, gaps or "no bundles were counted", kind="incomplete", figure=figure)


def _alone(view: View, bundles: float) -> Verdict:
    """The baseline's own cell, or one whose baseline counted nothing."""
    figure = Figure.exact(bundles, "bundles")
    if view.is_baseline:
        return view.verdict(Status.PASS, f"{number_text(bundles)} bundles; this is the baseline", figure=figure)
    reason = f"nothing to compare with: no bundles were counted under {view.against}"
    return view.verdict(Status.SKIPPED, reason, figure=figure)


def _bundles(view: View, new: float, old: float) -> Verdict:
    least = max(BUNDLES_SHARE * old, BUNDLES_LEAST)
    change = f"{number_text(old)} → {number_text(new)} bundles, {percent_text(new, old)} against {view.against}"
    figure, detectable = Figure.exact(new, "bundles"), Amount(least, "bundles")
    if abs(new - old) <= least:
        return view.verdict(Status.PASS, change, signal="bundles", figure=figure, detectable=detectable)
    if new < old:
        return view.verdict(
            Status.IMPROVED, change, signal="bundles", kind="fewer bundles", figure=figure, detectable=detectable
        )
    native = _native_grew(view)
    who = suspect(view, before=False, native=native)
    shared = "the native implementation grew as well" if native else None
    return view.verdict(
        Status.REGRESSED,
        sentence([change, _largest_growth(view), shared, blamed(view, who, before=False)]),
        signal="bundles",
        kind="more bundles",
        suspect=who,
        figure=figure,
        detectable=detectable,
    )


def _spills(view: View) -> list[Verdict]:
    """A verdict on register spills, only where they moved by an amount that matters."""
    new, old = _spill_count(view.candidate), _spill_count(view.before)
    if new is None or old is None or abs(new - old) < max(SPILLS_SHARE * old, SPILLS_LEAST):
        return []
    change = f"{number_text(old)} → {number_text(new)} spill stores and fills, against {view.against}"
    figure = Figure.exact(new, "spills")
    if new < old:
        return [view.verdict(Status.IMPROVED, change, signal="spills", kind="fewer spills", figure=figure)]
    who = suspect(view, before=False, native=None)
    summary = sentence([change, blamed(view, who, before=False)])
    return [
        view.verdict(Status.REGRESSED, summary, signal="spills", kind="more spills", suspect=who, figure=figure),
    ]


def _spill_count(observation: Observation | None) -> float | None:
    counts = [_count(observation, key) for key in ("spill_stores", "spill_fills")]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _count(observation: Observation | None, key: str) -> float | None:
    """A count over the programs that compute; over all programs where they are not listed one by one."""
    seen = observed(observation)
    if seen is None:
        return None
    programs = _computing(seen.data)
    if not programs:
        return quantity(seen.data, key)
    return sum(quantity(program, key) or 0.0 for program in programs)


def _computing(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The kernels, fusions and copies: what the compiler wraps around every program (`TLP`, `<late-…>`) is left out."""
    programs = records(data, "programs")
    return [one for one in programs if one.get("kind") != "top level" and not str(one.get("name", "")).startswith("<")]


def _native_grew(view: View) -> bool | None:
    after, before = _count(view.control, "bundles"), _count(view.control_baseline, "bundles")
    if after is None or before is None:
        return None
    return after - before > max(BUNDLES_SHARE * before, BUNDLES_LEAST)


def _largest_growth(view: View) -> str | None:
    """The program that grew most, among those that have the same name under both pins."""
    old = _by_name(view.before.data) if view.before else {}
    growths = [(new - old[name], name, new) for name, new in _by_name(view.data).items() if name in old]
    growth, name, new = max(growths, default=(0, "", 0))
    return f"most of it in {one_line(name, 60)} ({number_text(old[name])} → {number_text(new)})" if growth > 0 else None


def _by_name(data: Mapping[str, Any]) -> dict[str, float]:
    counted = ((str(program.get("name")), quantity(program, "bundles")) for program in _computing(data))
    return {name: bundles for name, bundles in counted if bundles is not None}
