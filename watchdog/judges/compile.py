"""compile: does the target's compiler accept it, and how much device memory does the program need.

The byte counts come from the compiler and are exact. Flops and compile seconds are never judged: the former are no
time, and one reading of the latter proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchdog.judges import statistics
from watchdog.judges.suspects import blamed, suspect
from watchdog.judges.view import View, observed, quantity
from watchdog.judges.wording import bytes_text, percent_text, sentence
from watchdog.model import Amount, Check, Figure, Observation, Status, Verdict

RELEVANT_SHARE = 0.05
RELEVANT_BYTES = 2**20
_SIGNALS = {
    "temp_bytes": "temporary memory",
    "total_bytes": "memory (temporary, output and code)",
    "peak_bytes": "device memory at its peak",  # of a memory scenario, where the device tells
}


def judge(view: View) -> list[Verdict]:
    """Regressed when temporary or total bytes grew by more than 5 % and 1 MiB, improved when they shrank so."""
    return [moved(view) or _pass(view, _changes(view))]


def moved(view: View) -> Verdict | None:
    """The verdict on a program that needs more or less memory than the baseline's; None when nothing relevant moved.

    The program is the cell's own: what the compile check compiled, or what a memory scenario calls.
    """
    relevant = [change for change in _changes(view) if _is_relevant(change[1], change[2])]
    grown = [change for change in relevant if change[2] > change[1]]
    if grown:
        return _more(view, *grown[0])
    return _less(view, *relevant[0]) if relevant else None


def _changes(view: View) -> list[tuple[str, float, float]]:
    """Each signal with the baseline's and the candidate's bytes, where both are known."""
    return [(signal, *pair) for signal in _SIGNALS if (pair := _pair(view.candidate, view.before, signal))]


def threshold(old: float) -> float:
    """The smallest change in bytes that matters, beside `old` bytes: 5 %, and 1 MiB at least."""
    return max(RELEVANT_SHARE * old, RELEVANT_BYTES)


def _more(view: View, signal: str, old: float, new: float) -> Verdict:
    native = _grew(view.control, view.control_baseline, signal)
    who = suspect(view, before=False, native=native)
    shared = "the native implementation needs more as well" if native else None
    return view.verdict(
        Status.REGRESSED,
        sentence([f"needs more {_change_text(view, signal, old, new)}", shared, blamed(view, who, before=False)]),
        signal=signal,
        kind="more memory",
        suspect=who,
        figure=Figure.exact(new - old, "B"),
        detectable=Amount(threshold(old), "B"),
    )


def _less(view: View, signal: str, old: float, new: float) -> Verdict:
    return view.verdict(
        Status.IMPROVED,
        f"needs less {_change_text(view, signal, old, new)}",
        signal=signal,
        kind="less memory",
        figure=Figure.exact(new - old, "B"),
        detectable=Amount(threshold(old), "B"),
    )


def _pass(view: View, moved: list[tuple[str, float, float]]) -> Verdict:
    """It compiles, and nothing that matters moved; the figure is the total in bytes."""
    total, temporary = _bytes(view.data, "total_bytes"), _bytes(view.data, "temp_bytes")
    parts = [
        "compiles",
        None
        if total is None or temporary is None
        else f"{bytes_text(total)} in all, {bytes_text(temporary)} temporary",
        "this is the baseline"
        if view.is_baseline
        else "the identical program"
        if view.same_artefacts
        else _drift(view, moved),
        view.nothing_to_compare(),
    ]
    return view.verdict(
        Status.PASS,
        sentence(parts),
        figure=None if total is None else Figure.exact(total, "B"),
        detectable=Amount(threshold(moved[-1][1]), "B") if moved else None,
    )


def _drift(view: View, moved: list[tuple[str, float, float]]) -> str | None:
    changes = [f"{_SIGNALS[signal]} {percent_text(new, old)}" for signal, old, new in moved if new != old]
    return f"against {view.against}: {', '.join(changes)}" if changes else None


def _change_text(view: View, signal: str, old: float, new: float) -> str:
    return (
        f"{_SIGNALS[signal]} for {view.cell.target} than under {view.against}: "
        f"{bytes_text(old)} → {bytes_text(new)} ({percent_text(new, old)})"
    )


def _is_relevant(old: float, new: float) -> bool:
    return abs(new - old) > threshold(old)


def _grew(new: Observation | None, old: Observation | None, signal: str) -> bool | None:
    pair = _pair(new, old, signal)
    return None if pair is None else pair[1] > pair[0] and _is_relevant(*pair)


def _pair(new: Observation | None, old: Observation | None, signal: str) -> tuple[float, float] | None:
    """Baseline's and candidate's bytes; None unless both are known."""
    after, before = observed(new), observed(old)
    if after is None or before is None:
        return None
    values = _bytes(_program(before), signal), _bytes(_program(after), signal)
    return None if values[0] is None or values[1] is None else (values[0], values[1])


def _program(observation: Observation) -> Mapping[str, Any]:
    """The byte counts of the cell's program: a memory scenario keeps them apart, and has none when it calls no program."""
    if observation.cell.check is Check.COMPILE:
        return observation.data
    program = observation.data.get("program")
    peaks = statistics.finite(observation.series.get("device_peak_bytes", ()))
    peak = {"peak_bytes": float(peaks.max())} if peaks.size else {}
    return {**(program if isinstance(program, Mapping) else {}), **peak}


def _bytes(data: Mapping[str, Any], signal: str) -> float | None:
    """A signal's bytes; the total leaves the arguments out, for they are the caller's."""
    if signal != "total_bytes":
        return quantity(data, signal)
    parts = [quantity(data, key) for key in ("temp_bytes", "output_bytes", "code_bytes")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
