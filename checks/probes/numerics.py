"""How far is it from the float64 truth? Native's own cell tells how far that one is, on the same inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import execution, loading, pallas, truth
from ..emit import Observed
from ..faults import NotHereError
from ..subject import Subject
from . import races

Function = Callable[..., Any]


def probe(subject: Subject) -> Observed:
    """The errors; where it is interpreted for a TPU, the same run answers the `races` check of the case as well."""
    positional, keywords = subject.inputs()
    run = execution.strictly(subject)
    watched = races.detector()[0] if run.mode == pallas.TPU and "races" in subject.plan.asked else None
    if watched is None:
        return compare(subject, run, positional, keywords, lambda function: function)
    try:
        errors = compare(subject, watched, positional, keywords, lambda function: function)
        return replace(errors, also={"races": races.seen(subject)})
    except Exception as error:
        if not races.is_race(error):
            raise
        found = races.seen(subject, raised=error)
    errors = compare(subject, run, positional, keywords, lambda function: function)
    return replace(errors, also={"races": found})


def compare(
    subject: Subject,
    run: execution.Execution,
    positional: tuple[Any, ...],
    keywords: dict[str, Any],
    derive: Callable[[Function], Function],
) -> Observed:
    """Errors of `derive(implementation)` against `derive(reference)` in float64.

    `derive` makes of an implementation the function that is compared: itself, or its gradient.
    """
    import jax

    outputs = run.run(derive(subject.function()), positional, keywords)
    right, made_by = _truth(subject, positional, keywords, derive)
    return Observed(
        "observed",
        data={
            "mode": run.mode,
            "note": run.note,
            "platform": jax.devices()[0].platform,
            "reference": made_by,
            "outputs": truth.errors(outputs, right),
        },
    )


def _truth(
    subject: Subject, positional: tuple[Any, ...], keywords: dict[str, Any], derive: Callable[[Function], Function]
) -> tuple[Any, str]:
    """The reference's outputs, and how they were made. Last in a process: it switches jax to 64 bits.

    A reference of the user's need not be a jax function. Native is jitted: compiled operation by operation it takes
    five times as long.
    """
    import jax

    given = subject.plan.kernel.reference
    made_by = f"{given} in float64" if given else "native in float64"
    function = functools.partial(loading.load(given), **subject.constants) if given else subject.function("native")
    try:
        interpreted = not given and execution.needs_interpreting(subject, "native")
        with execution.Execution(pallas.GENERIC, True if interpreted else None).active():
            derived = derive(function) if given else jax.jit(derive(function))
            return truth.in_float64(derived, positional, keywords), made_by
    except Exception as error:
        message = f"there is no truth to compare with: {made_by} raises {type(error).__name__}: {error}; give the kernel a reference"
        raise NotHereError(message) from error
