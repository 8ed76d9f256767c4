"""Do its copies and cores race? The TPU interpreter with race detection and two simulated cores."""

from __future__ import annotations

import importlib
from typing import Any

from .. import execution, pallas
from ..emit import Observed
from ..faults import NotHereError
from ..subject import Subject

_CORES = 2  # races between cores show only with more than one
_STATE = ("jax._src.pallas.mosaic.interpret.interpret_pallas_call", "jax._src.pallas.mosaic.interpret")
_MESSAGES = 20


def probe(subject: Subject) -> Observed:
    """Raises NotHereError where there is nothing to race, or no detector."""
    if not pallas.calls(subject.traced(None).jaxpr):
        message = "holds no Pallas call, so nothing of its own that could race"
        raise NotHereError(message)
    execution.refuse_large(subject)
    interpreter, missing = pallas.strict_interpreter(detect_races=True, cores=_CORES)
    if interpreter is None:
        raise NotHereError(missing)
    positional, keywords = subject.inputs()
    run = execution.Execution(pallas.TPU, interpreter=interpreter)
    try:
        run.run(subject.function(), positional, keywords)
        found = _found()
    except Exception as error:
        if "race" not in str(error).lower():  # from 0.12 on a race is raised
            raise
        found = True
    messages = _messages(subject)
    return Observed(
        "observed",
        data={
            "mode": pallas.TPU,
            "cores": _CORES,
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
    return [line.strip() for line in lines if "RACE" in line.upper()]
