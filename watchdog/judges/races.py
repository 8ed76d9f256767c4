"""races: what the TPU interpreter saw of races between cores and of memory used before it was written."""

from __future__ import annotations

import re

from watchdog.judges.suspects import blamed, suspect, was_there
from watchdog.judges.view import View, observed, quantity
from watchdog.judges.wording import number_text, one_line, pins_text, sentence
from watchdog.model import Figure, Observation, Status, Verdict

_UNSEEN = "what only real hardware does, and more than two cores, cannot be seen this way"


def judge(view: View) -> list[Verdict]:
    """Regressed on any race: an absolute fault, whatever the baseline shows."""
    races = quantity(view.data, "races")
    if races is None:
        mode = one_line(str(view.data.get("mode", "this mode")), 40)
        return [view.verdict(Status.INCONCLUSIVE, f"races are not counted by {mode}", kind="not counted")]
    figure = Figure.exact(races, "races")
    if races > 0:
        return [_raced(view, races, figure)]
    if _races(view.before):
        return [view.verdict(Status.IMPROVED, f"no race; {view.against} had one", kind="repaired", figure=figure)]
    summary = f"no race in the interpreter with two simulated cores; {_UNSEEN}"
    return [view.verdict(Status.PASS, summary, figure=figure)]


def _raced(view: View, races: float, figure: Figure) -> Verdict:
    before, native = _races(view.before), _races(view.control)
    who = suspect(view, before=was_there(view, found=before), native=native)
    messages = [str(message) for message in view.data.get("messages") or ()]
    parts = [
        f"{number_text(races)} race{'' if races == 1 else 's'} under {pins_text(view.cell.pins, view.environment)}",
        one_line(messages[0]) if messages else None,
        f"already under the baseline {view.against}" if before else None,
        "the native implementation shows one as well" if native else None,
        blamed(view, who, before=before),
    ]
    return view.verdict(
        Status.REGRESSED, sentence(parts), kind="race", suspect=who, figure=figure, where=_place(messages)
    )


def _races(observation: Observation | None) -> bool | None:
    seen = observed(observation)
    count = quantity(seen.data, "races") if seen else None
    return None if count is None else count > 0


def _place(messages: list[str]) -> str | None:
    """The first source line that a message names."""
    found = re.search(r"([\w./-]+\.py):(\d+)", " ".join(messages))
    return f"{found[1].rsplit('/', 1)[-1]}:{found[2]}" if found else None
