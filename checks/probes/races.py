"""Do its copies and cores race? The TPU interpreter with race detection and two simulated cores."""

from __future__ import annotations

import importlib
import re
from typing import Any

from .. import execution, pallas
from ..emit import Observed
from ..faults import NotHereError
from ..subject import Subject

CORES = 2  # races between cores show only with more than one
_STATE = ("jax._src.pallas.mosaic.interpret.interpret_pallas_call", "jax._src.pallas.mosaic.interpret")
_MESSAGES = 20
_RACE = re.compile(r"\brace(?:s|d)?\b", re.IGNORECASE)  # and not any Traceback


def probe(subject: Subject) -> Observed:
    """Raises NotHereError where there is nothing to race, or no detector."""
    if not pallas.calls(subject.traced(None).jaxpr):
        message = "holds no Pallas call, so nothing of its own that could race"
        raise NotHereError(message)
    execution.refuse_large(subject)
    watched, missing = detector()
    if watched is None:
        raise NotHereError(missing)
    positional, keywords = subject.inputs()
    try:
        watched.run(subject.function(), positional, keywords)
    except Exception as error:
        if not is_race(error):
            raise
        return seen(subject, raised=error)
    return seen(subject)


def detector() -> tuple[execution.Execution | None, str | None]:
    """The strictest interpretation, with races detected between two cores; or None and why there is none."""
    interpreter, missing = pallas.strict_interpreter(detect_races=True, cores=CORES)
    return (None, missing) if interpreter is None else (execution.Execution(pallas.TPU, interpreter), None)


def is_race(error: Exception) -> bool:
    """Whether an exception is the detector's: from jax 0.12 on it raises what it finds."""
    return _RACE.search(str(error)) is not None


def seen(subject: Subject, raised: Exception | None = None) -> Observed:
    """What the detector saw in the run that has just ended in this process."""
    messages = _messages(subject)
    found = raised is not None or _found()
    return Observed(
        "observed",
        data={
            "mode": pallas.TPU,
            "cores": CORES,
            # The flag speaks of the last kernel alone when a call runs several; the printed messages of all of them.
            "races": max(int(found), len(messages)),
            "messages": messages[:_MESSAGES],
        },
    )


def _found() -> bool:
    """Raises NotHereError where this release keeps its detector's answer elsewhere."""
    for name in _STATE:
        try:
            state: Any = importlib.import_module(name)
        except ImportError:
            continue
        if getattr(state, "races", None) is not None:
            return bool(state.races.races_found)
    import jax

    message = f"jax {jax.__version__} does not say whether its interpreter saw a race"
    raise NotHereError(message)


def _messages(subject: Subject) -> list[str]:
    """What the detector printed, from the cell's own log."""
    import sys

    sys.stdout.flush()
    log = subject.plan.scratch / f"{subject.cell.number}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.strip() for line in lines if _RACE.search(line)]
