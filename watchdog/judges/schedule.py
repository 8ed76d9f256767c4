"""schedule: the compiled program's VLIW bundles, spills and transfers: exact counts of a listing, none of them a time.

Bundles are compared as they run, with trips and conditions as the grid decides them, where both sides know them
exactly; else as they are listed. How far a compiler drifts from release to release by itself decides how much of a
change between releases is called; a change of the kernel under the same compiler is held against a closer bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from watchdog.judges.suspects import blamed, suspect
from watchdog.judges.view import View, observed, quantity, records
from watchdog.judges.wording import bytes_text, number_text, one_line, percent_text, sentence
from watchdog.model import Amount, Figure, Observation, Status, Suspect, Verdict

OWN_SHARE = 0.10  # of a change in the kernel under the same compiler
DRIFT_SHARE = 1 / 3  # of one that came with another compiler: six sound kernels drifted by up to 30 % in seven releases
LEAST = {"executed_bundles": 64, "bundles": 16}
SPILLS_LEAST = 8
SPILLS_DRIFT = 32  # and between compilers: from one libtpu to the next sound kernels went from none to 8
TRAFFIC_SHARE, TRAFFIC_LEAST = 0.10, 64 * 1024
_COMPILERS = ("jax", "jaxlib", "libtpu")
_UNITS = {"executed_bundles": "bundles as they run", "bundles": "bundles"}
_SUBJECTS = {"more": "more bundles", "less": "fewer bundles"}


@dataclass(frozen=True)
class Change:
    """A count under the baseline and under the candidate."""

    signal: str
    old: float
    new: float

    @property
    def text(self) -> str:
        return f"{number_text(self.old)} → {number_text(self.new)} {_UNITS[self.signal]}"


def judge(view: View) -> list[Verdict]:
    """A verdict on the bundles; further ones where spills or the traffic with HBM moved by an amount that matters."""
    bundles = listed(view.candidate)
    gaps = _gaps(view)
    if bundles is None or gaps:
        return [_incomplete(view, bundles, gaps)]
    if reason := view.nothing_to_compare():
        return [view.verdict(Status.SKIPPED, reason, figure=Figure.exact(bundles, "bundles"))]
    if listed(view.before) is None:
        return [_alone(view, bundles)]
    if is_identical(view):
        return [_identical(view)]
    change = _change(view.candidate, view.before)
    return [*([_bundles(view, change)] if change else []), *_spills(view), *_traffic(view)]


def is_identical(view: View) -> bool:
    """Whether every bundle of every program that computes is the baseline's."""
    new, old = view.data.get("fingerprint"), view.before.data.get("fingerprint") if view.before else None
    return isinstance(new, str) and new == old


def executed(observation: Observation | None) -> float | None:
    """Bundles as they run; None where their number is not known exactly."""
    seen = observed(observation)
    return _exact(seen.data.get("executed_bundles")) if seen else None


def listed(observation: Observation | None) -> float | None:
    """Bundles of the programs that compute; of all programs where they are not told one by one."""
    return _count(observation, "bundles")


def _exact(value: Any) -> float | None:
    if not isinstance(value, Mapping):
        return None
    low, high = quantity(value, "low"), quantity(value, "high")
    return low if low == high else None


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
    runs = executed(view.candidate)
    figure = Figure.exact(bundles if runs is None else runs, "bundles")
    signal = "bundles" if runs is None else "executed_bundles"
    if view.is_baseline:
        text = f"{number_text(figure.value)} {_UNITS[signal]}; this is the baseline"
        return view.verdict(Status.PASS, text, signal=signal, figure=figure)
    reason = f"nothing to compare with: no bundles were counted under {view.against}"
    return view.verdict(Status.SKIPPED, reason, figure=figure)


def _identical(view: View) -> Verdict:
    runs = executed(view.candidate)
    figure = Figure.exact((listed(view.candidate) or 0.0) if runs is None else runs, "bundles")
    signal = "bundles" if runs is None else "executed_bundles"
    text = f"the identical schedule: bundle for bundle that of {view.against}"
    return view.verdict(Status.PASS, text, signal=signal, figure=figure)


def _bundles(view: View, change: Change) -> Verdict:
    least = _least(view, change)
    text = f"{change.text}, {percent_text(change.new, change.old)} against {view.against}"
    common: dict[str, Any] = {
        "signal": change.signal,
        "figure": Figure.exact(change.new, "bundles"),
        "detectable": Amount(least, "bundles"),
    }
    if abs(change.new - change.old) <= least:
        return view.verdict(Status.PASS, sentence([text, _drift(change), _uncounted(view, change)]), **common)
    if change.new < change.old:
        return view.verdict(Status.IMPROVED, text, kind=_SUBJECTS["less"], **common)
    native = _native_grew(view)
    who = suspect(view, before=False, native=native)
    parts = [text, _largest_growth(view, change.signal), _whose(view, who, native), blamed(view, who, before=False)]
    return view.verdict(Status.REGRESSED, sentence(parts), kind=_SUBJECTS["more"], suspect=who, **common)


def _change(new: Observation | None, old: Observation | None) -> Change | None:
    """As they run where both sides know it, else as they are listed."""
    for signal, counted in (("executed_bundles", executed), ("bundles", listed)):
        after, before = counted(new), counted(old)
        if after is not None and before is not None:
            return Change(signal, before, after)
    return None


def _least(view: View, change: Change) -> float:
    """The smallest change in bundles that is called."""
    share = DRIFT_SHARE if _another_compiler(view) else OWN_SHARE
    return max(share * change.old, LEAST[change.signal])


def _another_compiler(view: View) -> bool:
    changes = view.changes
    return changes is None or any(change.name in _COMPILERS for change in changes)


def _drift(change: Change) -> str | None:
    """What is said of growth that would be called if the kernel had made it."""
    if change.new - change.old <= max(OWN_SHARE * change.old, LEAST[change.signal]):
        return None
    return f"within what compilers drift by from release to release ({DRIFT_SHARE:.0%})"


def _uncounted(view: View, change: Change) -> str | None:
    """Why bundles were compared as they are listed, where that has a reason."""
    if change.signal != "bundles" or "executed_bundles" not in view.data:
        return None
    notes = [str(note) for note in view.data.get("notes") or ()]
    return one_line(notes[0], 120) if notes else "how often they run was not counted under both"


def _whose(view: View, who: Suspect | None, native: bool | None) -> str | None:
    """Drift of the compiler told from a change in the kernel."""
    if native:
        return "the native implementation grew as well: drift of the compiler"
    if who is Suspect.LIBRARY and view.same_module:
        return "the very same module, compiled by another compiler"
    return None


def _native_grew(view: View) -> bool | None:
    change = _change(view.control, view.control_baseline)
    return None if change is None else change.new - change.old > _least(view, change)


def _spills(view: View) -> Iterator[Verdict]:
    """A verdict on register spills, only where they moved by an amount that matters."""
    new, old = _spill_count(view.candidate), _spill_count(view.before)
    if new is None or old is None or abs(new - old) < _least_spills(view, old):
        return
    change = f"{number_text(old)} → {number_text(new)} spill stores and fills, against {view.against}"
    figure = Figure.exact(new, "spills")
    if new < old:
        yield view.verdict(Status.IMPROVED, change, signal="spills", kind="fewer spills", figure=figure)
        return
    who = suspect(view, before=False, native=None)
    summary = sentence([change, blamed(view, who, before=False)])
    yield view.verdict(Status.REGRESSED, summary, signal="spills", kind="more spills", suspect=who, figure=figure)


def _least_spills(view: View, old: float) -> float:
    """The smallest change in spills that is called."""
    if _another_compiler(view):
        return max(DRIFT_SHARE * old, SPILLS_DRIFT)
    return max(OWN_SHARE * old, SPILLS_LEAST)


def _traffic(view: View) -> Iterator[Verdict]:
    """A verdict on the bytes that go to and from HBM, only where they moved by an amount that matters."""
    new, old = (_exact(one.data.get("dma_bytes")) if one else None for one in (view.candidate, view.before))
    if new is None or old is None or abs(new - old) <= max(TRAFFIC_SHARE * old, TRAFFIC_LEAST):
        return
    change = (
        f"moves {bytes_text(old)} → {bytes_text(new)} to and from HBM "
        f"({percent_text(new, old)} against {view.against}), by the transfers of its listing"
    )
    figure, least = Figure.exact(new, "B"), Amount(max(TRAFFIC_SHARE * old, TRAFFIC_LEAST), "B")
    if new < old:
        yield view.verdict(
            Status.IMPROVED, change, signal="traffic", kind="less traffic", figure=figure, detectable=least
        )
        return
    who = suspect(view, before=False, native=None)
    yield view.verdict(
        Status.REGRESSED,
        sentence([change, blamed(view, who, before=False)]),
        signal="traffic",
        kind="more traffic",
        suspect=who,
        figure=figure,
        detectable=least,
    )


def _spill_count(observation: Observation | None) -> float | None:
    counts = [_count(observation, key) for key in ("spill_stores", "spill_fills")]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _count(observation: Observation | None, key: str) -> float | None:
    seen = observed(observation)
    if seen is None:
        return None
    programs = _computing(seen.data)
    if not programs:
        return quantity(seen.data, key)
    return sum(quantity(program, key) or 0.0 for program in programs)


def _computing(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The kernels, fusions and copies: the top level and what the runtime adds to every program are left out."""
    return [
        one
        for one in records(data, "programs")
        if one.get("kind") not in ("top level", "runtime") and not str(one.get("name", "")).startswith("<")
    ]


def _largest_growth(view: View, signal: str) -> str | None:
    """The program that grew most, with its loop and its slot that grew most."""
    growths = [
        (after - before, str(new.get("name")), old, new)
        for old, new in _pairs(view)
        if (after := _bundles_of(new, signal)) is not None and (before := _bundles_of(old, signal)) is not None
    ]
    growth, name, old, new = max(growths, key=lambda one: one[:2], default=(0, "", {}, {}))
    if growth <= 0:
        return None
    counted = f"{number_text(_bundles_of(old, signal) or 0)} → {number_text(_bundles_of(new, signal) or 0)}"
    said = f"most of it in {one_line(name, 60)} ({counted} {'listed' if signal == 'bundles' else 'as they run'})"
    return sentence([said, _longer_loop(old, new), _busier_slot(old, new)])


def _pairs(view: View) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The programs of the baseline and of the candidate that are the same one: by name, or the only kernel of each.

    A kernel was called `main` up to libtpu 0.0.17, by its own name since.
    """
    before, after = (_computing(one.data) if one else [] for one in (view.before, view.candidate))
    names = {str(program.get("name")): program for program in before}
    pairs = [(names[name], program) for program in after if (name := str(program.get("name"))) in names]
    kernels = [[one for one in side if one.get("kind") == "kernel"] for side in (before, after)]
    if all(len(side) == 1 for side in kernels) and kernels[1][0].get("name") not in names:
        pairs.append((kernels[0][0], kernels[1][0]))
    return pairs


def _bundles_of(program: Mapping[str, Any], signal: str) -> float | None:
    """One program's bundles, as they run in all of its calls or as they are listed."""
    if signal == "bundles":
        return quantity(program, "bundles")
    runs, calls = _exact(program.get("executed_bundles")), _exact(program.get("calls"))
    return None if runs is None or calls is None else runs * calls


def _longer_loop(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The loop in whose own body bundles grew most, where both sides have the same nest of loops."""
    before, after = records(old, "loops"), records(new, "loops")
    if [one.get("depth") for one in before] != [one.get("depth") for one in after]:
        return None
    counted = [[_exact(one.get("executed_bundles")) or 0.0 for one in side] for side in (before, after)]
    growths = [(runs - ran, place) for place, (ran, runs) in enumerate(zip(*counted, strict=True))]
    growth, place = max(growths, key=lambda one: (one[0], -one[1]), default=(0.0, 0))
    if growth <= 0:
        return None
    bundles = " → ".join(number_text(quantity(one[place], "bundles") or 0) for one in (before, after))
    times = " → ".join(number_text(_exact(one[place].get("executions")) or 0) for one in (before, after))
    return f"in its loop {place + 1} of {len(after)}: {bundles} bundles, {times} trips in all"


def _busier_slot(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The slot with the largest growth in uses."""
    new_uses, old_uses = (_uses(one) for one in (new, old))
    growths = [(new_uses[slot] - old_uses[slot], slot) for slot in new_uses if slot in old_uses]
    growth, slot = max(growths, default=(0.0, ""))
    if growth <= 0:
        return None
    return (
        f"the slot {one_line(slot, 20)} is used most more often "
        f"({number_text(old_uses[slot])} → {number_text(new_uses[slot])} listed)"
    )


def _uses(program: Mapping[str, Any]) -> dict[str, float]:
    slots = program.get("slots")
    if not isinstance(slots, Mapping):
        return {}
    found = {str(name): quantity(slot, "used") for name, slot in slots.items() if isinstance(slot, Mapping)}
    return {name: used for name, used in found.items() if used is not None}
