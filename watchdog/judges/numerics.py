"""numerics and gradients: is the result as accurate as its type and the native implementation allow.

Errors are root mean squares relative to the reference's own root mean square (`scale`); docs/judging.md derives the
factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watchdog.judges import truths
from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View, observed, quantity, records
from watchdog.judges.wording import one_line, pins_text, sentence
from watchdog.model import Amount, Figure, Observation, Status, Suspect, Verdict

UNIT = "relative rms error"
ROUNDINGS = 2  # machine epsilons of the result's type that a sound kernel may lose
NATIVE_FACTOR = 4  # how many times native's error is still as good as native
PEAK = 32  # how far one element may stand above the root mean square bound
SHORTEST_SUM = 1024  # the length of sums is not observed; this much is always granted
WORSE, MUCH_WORSE = 2, 10  # times the baseline's error: worth a word, and regressed
DISAGREE = "interpreters disagree"

_EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e3m4": 2.0**-4,
    "float8_e4m3": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float4_e2m1": 2.0**-1,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
_SHORT_NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Error:
    """One output's error beside what is allowed; all in the output's own unit except `relative`."""

    name: str
    rms: float
    peak: float
    scale: float
    allowed: float  # of rms
    allowed_peak: float
    floor: float  # rms that the output's type alone explains
    coarse: float  # the same with bfloat16 inside
    invalid: int = 0  # NaN and infinities

    @property
    def relative(self) -> float:
        return self.rms / self.scale if self.scale else self.rms

    @property
    def bound(self) -> float:
        """The allowed rms error, relative like `relative`."""
        return self.allowed / self.scale if self.scale else self.allowed

    @property
    def excess(self) -> float:
        """How many times over what is allowed; above 1 the output is wrong, infinite when it is not a number."""
        if self.invalid:
            return math.inf
        return max(_over(self.rms, self.allowed), _over(self.peak, self.allowed_peak))


def judge(view: View) -> list[Verdict]:
    """One verdict for the output that is furthest from what is allowed."""
    beside = None if view.is_native else view.control
    errors = measure(view.candidate, view.facts.tolerance, beside)
    if not errors:
        return [view.verdict(Status.INCONCLUSIVE, "no error was measured", kind="not measured")]
    worst = max(errors, key=lambda error: (error.excess, error.relative, error.name))
    bounds = {error.name: error.coarse if _may_halve(view.candidate) else error.floor for error in errors}
    if right := truths.wrong_under(view, view.cell.pins, bounds):
        return [_wrong_native(view, worst, right)]
    was_wrong = truths.wrong_under(view, view.against, bounds) is not None
    if was_wrong and view.is_native:
        return [_repaired_native(view, worst)]
    before = None if was_wrong else _worst(_before(view))
    if worst.excess > 1:
        return [_wrong(view, worst, before)]
    if before is not None and before.excess > 1:
        return [_repaired(view, worst, before)]
    if (apart := _apart(view.candidate, errors)) is not None:
        return [_disagree(view, *apart)]
    lost = _lost_accuracy(view, errors)
    if lost is not None and lost[0].rms >= MUCH_WORSE * lost[1].rms:
        return [_less_accurate(view, *lost)]
    return [_right(view, worst, lost)]


def _wrong_native(view: View, error: Error, right: str) -> Verdict:
    """On native's own cell the finding; on another's that its numbers cannot be judged by this truth."""
    if not view.is_native:
        text = (
            f"native, by which it is judged, is wrong under {pins_text(view.cell.pins, view.environment)}: by native under "
            f"{one_line(right, 60)} these numbers are right"
        )
        return view.verdict(Status.INCONCLUSIVE, text, kind="wrong reference", suspect=Suspect.LIBRARY)
    came = was_there(view, found=False if right == view.against else None)
    wrong = (
        f"wrong under {pins_text(view.cell.pins, view.environment)}: even in float64 it gives other numbers than under "
        f"{one_line(right, 60)}, on the same inputs, and the other implementation agrees with those"
    )
    text = sentence([wrong, blamed(view, Suspect.LIBRARY, before=came)])
    return _verdict(view, Status.REGRESSED, text, error, kind="wrong numbers", who=Suspect.LIBRARY)


def _repaired_native(view: View, error: Error) -> Verdict:
    text = (
        f"right under {view.cell.pins}; under {view.against} it gave other numbers, even in float64, on the same inputs"
    )
    return _verdict(view, Status.IMPROVED, text, error, kind="repaired")


def measure(observation: Observation, tolerance: float | None, native: Observation | None = None) -> list[Error]:
    """The errors of all outputs that were compared, each with its bounds; `native` is that one's cell, on the same inputs."""
    outputs = records(observation.data, "outputs")
    natives = records(native.data, "outputs") if native is not None else []
    largest = max((quantity(output, "scale") or 0.0 for output in outputs), default=0.0)
    paired = [(output, natives[place] if place < len(natives) else None) for place, output in enumerate(outputs)]
    measured = [_error(output, native, largest, tolerance, observation) for output, native in paired]
    return [error for error in measured if error is not None]


def floor(dtype: str, shape: Sequence[int], *, half_inputs: bool) -> float:
    """The relative rms error that rounding alone explains: 2 eps(dtype) + sqrt(n) eps(accumulator).

    `n` is the largest dimension, and 1024 at least; sums run in float32 or wider. `half_inputs` grants float32
    matrix units that round their inputs to bfloat16. Exact types have no floor.
    """
    epsilon = _epsilon(dtype)
    if epsilon is None:
        return 0.0
    accumulator = min(epsilon, _EPSILON["float32"])
    if half_inputs and epsilon <= _EPSILON["float32"]:
        epsilon = max(epsilon, _EPSILON["bfloat16"])
    return ROUNDINGS * epsilon + math.sqrt(max([SHORTEST_SUM, *shape])) * accumulator


def _error(
    output: Mapping[str, Any],
    native: Mapping[str, Any] | None,
    largest: float,
    tolerance: float | None,
    observation: Observation,
) -> Error | None:
    invalid = int((quantity(output, "nan") or 0) + (quantity(output, "inf") or 0))
    rms, peak, scale = (quantity(output, key) for key in ("rms", "max_abs", "scale"))
    if not invalid and (rms is None or peak is None or scale is None):
        return None
    # Where the truth is all zeros, the other outputs say how large rounding noise may be.
    unit = scale or largest
    dtype, shape = str(output.get("dtype", "")), _shape(output)
    own = floor(dtype, shape, half_inputs=False) * unit
    coarse = floor(dtype, shape, half_inputs=True) * unit
    generous = floor(dtype, shape, half_inputs=_may_halve(observation)) * unit
    allowed, allowed_peak = _allowed(native, own, generous)
    given = (tolerance or 0.0) * unit
    return Error(
        name=str(output.get("name", "output")),
        rms=rms or 0.0,
        peak=peak or 0.0,
        scale=scale or 0.0,
        allowed=max(allowed, given),
        allowed_peak=max(allowed_peak, PEAK * given),
        floor=own,
        coarse=coarse,
        invalid=invalid,
    )


def _allowed(native: Mapping[str, Any] | None, own: float, generous: float) -> tuple[float, float]:
    """The rms and the largest error allowed: beside native where it is known and itself sound, else the type's."""
    if native is None:
        return generous, PEAK * generous
    # A broken native must not excuse a broken kernel: its error counts up to its own bound only.
    rms = min(quantity(native, "rms") or 0.0, generous)
    peak = min(quantity(native, "max_abs") or 0.0, PEAK * generous)
    return max(own, NATIVE_FACTOR * rms), max(PEAK * own, NATIVE_FACTOR * peak)


def _may_halve(observation: Observation) -> bool:
    """Whether float32 products may have gone through a matrix unit that rounds its inputs."""
    return observation.data.get("mode") == "device" and observation.data.get("platform") != "cpu"


def _epsilon(dtype: str) -> float | None:
    name = _SHORT_NAMES.get(dtype, dtype)
    return next((epsilon for known, epsilon in _EPSILON.items() if name.startswith(known)), None)


def _shape(output: Mapping[str, Any]) -> list[int]:
    shape = output.get("shape")
    return [size for size in shape if isinstance(size, int)] if isinstance(shape, list | tuple) else []


def _over(error: float, allowed: float) -> float:
    if allowed:
        return error / allowed
    return math.inf if error else 0.0


def _worst(errors: list[Error]) -> Error | None:
    return max(errors, key=lambda error: error.excess, default=None)


def _lost_accuracy(view: View, errors: list[Error]) -> tuple[Error, Error] | None:
    """The output whose error grew most against the baseline, twofold at least and beyond the type's floor."""
    before = {error.name: error for error in _before(view)}
    pairs = [(error, before[error.name]) for error in errors if error.name in before and error.rms > error.floor]
    worse = [(new, old) for new, old in pairs if old.rms and new.rms >= WORSE * old.rms]
    return max(worse, key=lambda pair: (pair[0].rms / pair[1].rms, pair[0].name), default=None)


def _before(view: View) -> list[Error]:
    """The errors under the baseline, beside native's there."""
    if view.before is None:
        return []
    return measure(view.before, view.facts.tolerance, None if view.is_native else view.control_baseline)


def _wrong(view: View, error: Error, before: Error | None) -> Verdict:
    native = _native_wrong(view)
    found = None if before is None else before.excess > 1
    who = _moved_machine(view, found=found) or suspect(view, before=was_there(view, found=found), native=native)
    wrong = f"{_what_is_wrong(error)} under {pins_text(view.cell.pins, view.environment)}{_mode(view)}"
    why = _why(view)
    parts = [
        why.sentence if why else None,
        wrong,
        why.evidence if why else None,
        _history(view, found=found),
        "the native implementation is wrong as well" if native else None,
        blamed(view, who, before=found),
    ]
    kind = why.kind if why else ("nan" if error.invalid else "wrong numbers")
    return _verdict(
        view, Status.REGRESSED, sentence(parts), error, kind=kind, who=who, where=why.where if why else None
    )


@dataclass(frozen=True)
class Why:
    """What the interpreters tell of the reason for wrong numbers."""

    kind: str
    sentence: str | None
    evidence: str | None = None
    where: str | None = None


_NOT_AWAITED, _UNWRITTEN, _ORDER = "copy not awaited", "uninitialised memory", "depends on order"
_DOES = {  # what the kernel does, by kind; the first where the line that reads is not known
    _NOT_AWAITED: "uses a buffer before a copy into or out of it was waited for",
    _UNWRITTEN: "uses memory that nothing has written",
    _ORDER: "depends on the order in which the grid points of a parallel dimension are computed",
}
_READS_TOO_EARLY = "reads a buffer before the copy into it was waited for"
_EVIDENCE = {  # how that was found out
    _NOT_AWAITED: "the numbers change when copies are made at once",
    _UNWRITTEN: "the numbers change with what fresh memory holds",
    _ORDER: "the numbers change with that order",
}


def _why(view: View) -> Why | None:
    """Why the strict interpreter's numbers are wrong: by its settings, else by the generic one's being right."""
    diagnosis = view.data.get("diagnosis")
    kind = str(diagnosis.get("kind")) if isinstance(diagnosis, Mapping) else ""
    if kind in _DOES and isinstance(diagnosis, Mapping):
        where = one_line(str(diagnosis["where"]), 80) if diagnosis.get("where") else None
        does = _READS_TOO_EARLY if where and kind == _NOT_AWAITED else _DOES[kind]
        return Why(kind, f"{does}, at {where}" if where else does, _beside(view, _EVIDENCE[kind]), where)
    return Why(DISAGREE, None, _HIDES) if _right_elsewhere(view) else None


_HIDES = (
    "right under the generic interpreter, which hides copies not waited for, reads out of bounds and uninitialised "
    "memory: the kernel depends on one of these"
)


def _beside(view: View, evidence: str) -> str:
    return (
        f"{evidence}, and the generic interpreter, which hides this, is right" if _right_elsewhere(view) else evidence
    )


def _right_elsewhere(view: View) -> bool:
    """Whether the generic interpreter's numbers, on the same inputs, are within the same bounds."""
    errors = _elsewhere(view)
    return bool(errors) and max(error.excess for error in errors) <= 1


def _elsewhere(view: View) -> list[Error]:
    """The generic interpreter's errors, beside the same native."""
    other = view.data.get("other")
    if not isinstance(other, Mapping) or not other.get("outputs"):
        return []
    there = replace(view.candidate, data={**view.data, "outputs": other["outputs"]})
    return measure(there, view.facts.tolerance, None if view.is_native else view.control)


def _apart(observation: Observation, errors: list[Error]) -> tuple[Error, float] | None:
    """The output in which two interpreters, both right, differ by more than any rounding; and the rms of that.

    A kernel may round inside to bfloat16, and only one of them compiles it whole, without rounding: that much is granted.
    """
    other = observation.data.get("other")
    known = {error.name: error for error in errors}
    for differs in records(other, "differs") if isinstance(other, Mapping) else []:
        error = known.get(str(differs.get("name")))
        rms, peak = quantity(differs, "rms"), quantity(differs, "max_abs")
        if error is None or rms is None or peak is None or not _sound_there(other, error.name):
            continue
        if rms > error.coarse or peak > PEAK * error.coarse:
            return error, rms
    return None


def _sound_there(other: Any, name: str) -> bool:
    """Whether the generic interpreter's error in an output is as small as rounding could make it; it has faults of its own."""
    for output in records(other, "outputs"):
        if output.get("name") == name:
            scale = quantity(output, "scale") or 0.0
            bound = floor(str(output.get("dtype", "")), _shape(output), half_inputs=True) * scale
            return (
                not quantity(output, "nan")
                and not quantity(output, "inf")
                and (quantity(output, "rms") or 0.0) <= bound
            )
    return False


def _disagree(view: View, error: Error, rms: float) -> Verdict:
    before = _apart(view.before, _before(view)) is not None if view.before else None
    who = suspect(view, before=was_there(view, found=before), native=None)
    apart = f"the two interpreters differ by {_relative(rms, error.scale):.2g} of {one_line(error.name, 40)}"
    parts = [
        f"{apart} under {pins_text(view.cell.pins, view.environment)}, though each is within its bound",
        "they run the same operations, so the kernel depends on the order of its grid, on a copy or on fresh memory",
        blamed(view, who, before=before),
    ]
    return _verdict(view, Status.REGRESSED, sentence(parts), error, kind=DISAGREE, who=who)


def _relative(rms: float, scale: float) -> float:
    return rms / scale if scale else rms


def _what_is_wrong(error: Error) -> str:
    name = one_line(error.name, 40)
    if error.invalid:
        return f"{error.invalid:,} values of {name} are NaN or infinite where the reference has none"
    if _over(error.rms, error.allowed) > 1:
        return f"{name} is wrong: relative rms error {error.relative:.2g}, at most {error.bound:.2g} is allowed"
    return f"{name} is wrong somewhere: largest error {error.peak:.2g}, at most {error.allowed_peak:.2g} is allowed"


def _history(view: View, *, found: bool | None) -> str | None:
    if found is None:
        return None
    return f"already under the baseline {view.against}" if found else f"right under {view.against}"


def _less_accurate(view: View, error: Error, before: Error) -> Verdict:
    who = _moved_machine(view, found=False) or suspect(view, before=False, native=_native_lost_accuracy(view))
    text = f"{_accuracy(view, error, before)}, more than its type explains, though within what is allowed"
    return _verdict(
        view, Status.REGRESSED, sentence([text, blamed(view, who, before=False)]), error, kind="less accurate", who=who
    )


def _repaired(view: View, error: Error, before: Error) -> Verdict:
    text = f"right under {view.cell.pins}; under {view.against}: {_what_is_wrong(before)}"
    return _verdict(view, Status.IMPROVED, text, error, kind="repaired")


def _right(view: View, error: Error, lost: tuple[Error, Error] | None) -> Verdict:
    text = f"relative rms error {error.relative:.2g}, at most {error.bound:.2g} is allowed{_mode(view)}"
    return _verdict(view, Status.PASS, sentence([text, lost and _accuracy(view, *lost), _generic_wrong(view)]), error)


def _generic_wrong(view: View) -> str | None:
    """A word on the other interpreter where that one is wrong: it simulates less, so the kernel is not accused."""
    errors = _elsewhere(view)
    wrong = bool(errors) and max(error.excess for error in errors) > 1
    return "the generic interpreter alone is wrong, which does not simulate all that the kernel uses" if wrong else None


def _accuracy(view: View, error: Error, before: Error) -> str:
    ratio = error.rms / before.rms
    return f"{one_line(error.name, 40)} has {ratio:.1f} times the error that it had under {view.against}"


def _verdict(
    view: View,
    status: Status,
    summary: str,
    error: Error,
    *,
    kind: str | None = None,
    who: Suspect | None = None,
    where: str | None = None,
) -> Verdict:
    return view.verdict(
        status,
        summary,
        kind=kind,
        suspect=who,
        where=where,
        figure=None if error.invalid or not math.isfinite(error.relative) else Figure.exact(error.relative, UNIT),
        detectable=Amount(error.bound, UNIT),
    )


def _mode(view: View) -> str:
    mode = view.data.get("mode")
    return f" ({one_line(str(mode), 40)})" if mode and mode != "device" else ""


def _native_wrong(view: View) -> bool | None:
    """Whether the native implementation is wrong under the same pins, on the same inputs."""
    errors = measure(view.control, None) if view.control else []
    return max(error.excess for error in errors) > 1 if errors else None


def _native_lost_accuracy(view: View) -> bool | None:
    if observed(view.control) is None or observed(view.control_baseline) is None or view.control is None:
        return None
    native = View(candidate=view.control, baseline_pins=view.baseline_pins, baseline=view.control_baseline)
    return _lost_accuracy(native, measure(view.control, None)) is not None


def _moved_machine(view: View, *, found: bool | None) -> Suspect | None:
    """The machine, when the very program of the baseline gave other numbers on a device."""
    same = found is False and view.same_artefacts and view.data.get("mode") == "device"
    return Suspect.MACHINE if same else None
