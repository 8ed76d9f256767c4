"""timing: is the candidate slower than its baseline, by more than one process per side can be wrong.

Rounds of one process know nothing of the difference between processes, which is the larger one. The interval of the
ratio is therefore stretched by `BETWEEN_PROCESSES` before anything is called a change (docs/judging.md).
"""

from __future__ import annotations

import math

from watchdog.judges import experiment, statistics
from watchdog.judges.experiment import Decision, Reading
from watchdog.judges.statistics import Series
from watchdog.judges.suspects import blamed, suspect
from watchdog.judges.view import Times, View, observed
from watchdog.judges.wording import sentence
from watchdog.model import Amount, Figure, Observation, Status, Suspect, Verdict

BETWEEN_PROCESSES = 1.6  # two processes of the same code differed by 1.56 on a busy machine
RELEVANT = 1.05  # smaller changes do not matter
FEWEST_ROUNDS = 5  # on either side, before two times are compared
_MEANING = {
    Decision.SAME: (Status.PASS, None),
    Decision.FASTER: (Status.IMPROVED, "faster"),
    Decision.UNDECIDED: (Status.INCONCLUSIVE, "unsure"),
}
_RUNTIME = {"jax", "jaxlib", "libtpu", "numpy", "python"}  # what runs a compiled program
ALIKE = 0.5  # the control moved alike when it went at least this share of the way, in logarithms


def judge(view: View) -> list[Verdict]:
    """Regressed only when the stretched interval lies above 1.05 and the control stayed where it was."""
    new = _rounds(view.candidate)
    if new is None:
        return [view.verdict(Status.INCONCLUSIVE, "no usable rounds", kind="too few rounds")]
    time = statistics.median_figure(new, "s")
    if view.times is not None and view.before is not None and not view.is_baseline:
        return [_experiment(view, time, view.times)]
    if view.is_baseline:
        return [view.verdict(Status.PASS, f"{_seconds(time.value)} per call; this is the baseline", figure=time)]
    old = _rounds(view.before)
    if old is None:
        reason = view.nothing_to_compare() or f"nothing to compare with: no usable rounds under {view.against}"
        return [view.verdict(Status.SKIPPED, reason, figure=time)]
    if min(new.size, old.size) < FEWEST_ROUNDS:
        text = f"{_seconds(time.value)} per call; {min(new.size, old.size)} rounds are too few to compare"
        return [view.verdict(Status.INCONCLUSIVE, text, kind="too few rounds", figure=time)]
    return [_compared(view, time, statistics.ratio_of_medians(new, old))]


def _experiment(view: View, time: Figure, times: Times) -> Verdict:
    """What the processes of a gate say (docs/judging-timing.md)."""
    reading = experiment.read(times.base, times.head, times.rule, ended=True)
    if reading.ratio is None:
        text = f"{_seconds(time.value)} per call; {reading.processes} processes of each side are too few to compare"
        return view.verdict(Status.INCONCLUSIVE, text, signal="seconds", kind="too few processes", figure=time)
    parts: list[str | None] = [_measured(view, time, reading), _control_said(times), _would_see(reading)]
    if reading.decision is Decision.SLOWER:
        return _slower_by_experiment(view, reading, times, parts)
    status, kind = _MEANING[reading.decision]
    doubt = "perhaps slower, but these processes cannot tell" if reading.decision is Decision.UNDECIDED else None
    return _of_reading(view, status, [*parts, doubt], reading, kind=kind)


def _slower_by_experiment(view: View, reading: Reading, times: Times, parts: list[str | None]) -> Verdict:
    excuse = _machines_excuse(view, reading)
    if excuse is not None:
        parts = [*parts, excuse]
        return _of_reading(view, Status.INCONCLUSIVE, parts, reading, kind="unsure", who=Suspect.MACHINE)
    who = suspect(view, before=False, native=_moved_alike(times, reading))
    parts = [*parts, blamed(view, who, before=False)]
    return _of_reading(view, Status.REGRESSED, parts, reading, kind="slower", who=who)


def _machines_excuse(view: View, reading: Reading) -> str | None:
    """Why the machine may have moved the time: the base itself moved, or the same program ran on the same libraries."""
    drift = reading.baseline
    if drift is not None and drift.low > 1 and reading.ratio is not None:
        share = math.log(drift.value) / math.log(reading.ratio.value)
        if share >= ALIKE:
            return f"yet {view.against} itself became slower meanwhile ({drift.value:.3f} times)"
    if view.same_artefacts and not _RUNTIME & {change.name for change in view.changes or ()}:
        return "yet the compiled program is the baseline's own, and so is what runs it"
    return None


def _moved_alike(times: Times, reading: Reading) -> bool:
    """Whether native became slower too, at least half as much."""
    control = _control_reading(times)
    if control is None or control.ratio is None or reading.ratio is None or control.ratio.low <= 1:
        return False
    return math.log(control.ratio.value) / math.log(reading.ratio.value) >= ALIKE


def _control_reading(times: Times) -> Reading | None:
    if not times.control_head or len(times.control_head) != len(times.control_base):
        return None
    return experiment.read(times.control_base, times.control_head, times.rule, ended=True)


def _control_said(times: Times) -> str | None:
    control = _control_reading(times)
    if control is None or control.ratio is None:
        return None
    ratio = control.ratio
    return f"the native implementation took {ratio.value:.3f} times (between {ratio.low:.3f} and {ratio.high:.3f})"


def _measured(view: View, time: Figure, reading: Reading) -> str | None:
    ratio = reading.ratio
    if ratio is None:
        return None
    return (
        f"{_seconds(time.value)} per call, {ratio.value:.3f} times that of {view.against} "
        f"(between {ratio.low:.3f} and {ratio.high:.3f}, {reading.processes} processes of each side)"
    )


def _would_see(reading: Reading) -> str | None:
    if reading.detectable is None:
        return "so few processes could not have shown any slowdown"
    return f"a slowdown of {100 * (reading.detectable - 1):.2g} % would have been seen"


def _of_reading(
    view: View,
    status: Status,
    parts: list[str | None],
    reading: Reading,
    *,
    kind: str | None,
    who: Suspect | None = None,
) -> Verdict:
    detectable = None if reading.detectable is None else Amount(reading.detectable, experiment.UNIT)
    return view.verdict(
        status, sentence(parts), signal="seconds", kind=kind, suspect=who, figure=reading.ratio, detectable=detectable
    )


def _compared(view: View, time: Figure, within: Figure) -> Verdict:
    ratio = statistics.widened(within, BETWEEN_PROCESSES)
    change = _change(view, time, ratio)
    moved = ratio.low > RELEVANT or ratio.high < 1 / RELEVANT
    if moved and (excuse := _excuse(view, ratio)):
        return _verdict(view, Status.INCONCLUSIVE, [change, excuse], ratio, kind="unsure", who=Suspect.MACHINE)
    if ratio.low > RELEVANT:
        return _slower(view, change, ratio)
    if moved:
        return _verdict(view, Status.IMPROVED, [change], ratio, kind="faster")
    if within.low > RELEVANT:
        doubt = "perhaps slower, but one process per side cannot tell"
        return _verdict(view, Status.INCONCLUSIVE, [change, doubt], ratio, kind="unsure")
    return _verdict(view, Status.PASS, [change], ratio)


def _excuse(view: View, ratio: Figure) -> str | None:
    """Why the machine, and nothing in the pins, may have moved the time; None when nothing says so."""
    if view.same_artefacts:
        return "yet the compiled program is the baseline's own"
    control = _control_ratio(view)
    if control is not None and math.log(control) / math.log(ratio.value) >= ALIKE:
        return f"the native implementation moved alike ({control:.2f} times)"
    return None


def _slower(view: View, change: str, ratio: Figure) -> Verdict:
    control = _control_ratio(view)
    who = suspect(view, before=False, native=False)
    steady = None if control is None else f"the native implementation did not move alike ({control:.2f} times)"
    parts = [change, steady, blamed(view, who, before=False)]
    return _verdict(view, Status.REGRESSED, parts, ratio, kind="slower", who=who)


def _verdict(
    view: View,
    status: Status,
    parts: list[str | None],
    ratio: Figure,
    *,
    kind: str | None = None,
    who: Suspect | None = None,
) -> Verdict:
    # What would have been called: the ratio at which the interval, as wide as it is, just clears the relevant change.
    detectable = Amount(RELEVANT * ratio.value / ratio.low, ratio.unit)
    return view.verdict(
        status, sentence(parts), signal="seconds", kind=kind, suspect=who, figure=ratio, detectable=detectable
    )


def _change(view: View, time: Figure, ratio: Figure) -> str:
    return (
        f"{_seconds(time.value)} per call, {ratio.value:.2f} times that of {view.against} "
        f"(between {ratio.low:.2f} and {ratio.high:.2f})"
    )


def _control_ratio(view: View) -> float | None:
    new, old = _rounds(view.control), _rounds(view.control_baseline)
    return None if new is None or old is None else statistics.ratio_of_medians(new, old).value


def _rounds(observation: Observation | None) -> Series | None:
    """The seconds of the rounds; None when none of them is a positive number."""
    seen = observed(observation)
    if seen is None:
        return None
    seconds = statistics.finite(seen.series.get("seconds", ()))
    usable = seconds[seconds > 0]
    return usable if usable.size else None


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"
