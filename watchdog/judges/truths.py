"""A truth that is wrong: native in float64 is what numbers are held against, and native itself can be at fault.

It shows across pins. Where native in float64 gives other numbers under these pins than under others, on the same inputs,
and an implementation that runs here agrees with those others, then native is the odd one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from watchdog.judges.view import View, observed, quantity, records
from watchdog.model import Observation

_APART = 8  # times the error that rounding explains: four projections of an error are seldom beyond it
_BY_NATIVE = "native"


def wrong_under(view: View, pins: str | None, floor: Mapping[str, float]) -> str | None:
    """Other pins by whose truth native is wrong under `pins`; None where nothing says so.

    `floor` is the rms error that rounding explains in each output, by name.
    """
    for witness in _witnesses(view, pins):
        for other in _elsewhere(view, witness):
            if _agree(witness, "projections", other, floor) and not _agree(witness, "truth_projections", other, floor):
                return other.cell.pins
    return None


def _witnesses(view: View, pins: str | None) -> Iterator[Observation]:
    """What other implementations than native gave under these pins."""
    for one in view.family:
        if one.cell.pins == pins and one.cell.implementation != _BY_NATIVE and _has_native_truth(one):
            yield one


def _elsewhere(view: View, witness: Observation) -> list[Observation]:
    """The same implementation under other pins, on the same inputs; the baseline first."""
    found = [
        one
        for one in view.family
        if one.cell.implementation == witness.cell.implementation
        and one.cell.pins != witness.cell.pins
        and _has_native_truth(one)
        and one.data.get("inputs") == witness.data.get("inputs")
    ]
    return sorted(found, key=lambda one: (one.cell.pins != view.baseline_pins, one.cell.pins))


def _has_native_truth(observation: Observation) -> bool:
    seen = observed(observation)
    return (
        seen is not None
        and str(seen.data.get("reference", "")).startswith(_BY_NATIVE)
        and isinstance(seen.data.get("inputs"), str)
    )


def _agree(here: Observation, key: str, other: Observation, floor: Mapping[str, float]) -> bool:
    """Whether what `key` names here is the truth there, in every output."""
    theirs = {str(output.get("name")): output for output in records(other.data, "outputs")}
    mine = records(here.data, "outputs")
    if not mine or any(str(output.get("name")) not in theirs for output in mine):
        return False
    return all(
        _close(output.get(key), theirs[name].get("truth_projections"), _APART * floor.get(name, 0.0))
        for output in mine
        for name in (str(output.get("name")),)
    )


def _close(one: Any, other: Any, bound: float) -> bool:
    if not isinstance(one, Sequence) or not isinstance(other, Sequence) or isinstance(one, str) or not one:
        return False
    if len(one) != len(other):
        return False
    pairs = [
        (quantity({"value": a}, "value"), quantity({"value": b}, "value")) for a, b in zip(one, other, strict=True)
    ]
    return all(a is not None and b is not None and abs(a - b) <= bound for a, b in pairs)
