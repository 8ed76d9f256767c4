"""How far is it from the float64 truth? Native's own cell tells how far that one is, on the same inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import execution, loading, pallas, tpu_interpreter, truth
from ..emit import Observed
from ..faults import NotHereError
from ..interpretation import Call, Interpreted, interpret
from ..subject import Subject
from . import races

Function = Callable[..., Any]


def probe(subject: Subject) -> Observed:
    """The errors; where it is interpreted for a TPU, the same run answers the `races` check of the case as well."""
    return compare(subject, lambda function: function, detect_races="races" in subject.plan.asked)


def compare(subject: Subject, derive: Callable[[Function], Function], *, detect_races: bool = False) -> Observed:
    """Errors of `derive(implementation)` against `derive(reference)` in float64.

    `derive` makes of an implementation the function that is compared: itself, or its gradient.
    """
    positional, keywords = subject.inputs()
    call = Call(derive(subject.function()), positional, keywords)
    try:
        seen = _ran(subject, call, detect_races=detect_races)
    except tpu_interpreter.EndlessWaitError as wait:
        return wait.observed()
    also = {"races": races.seen(subject, seen)} if seen.detected_by else {}
    right, made_by = _truth(subject, positional, keywords, derive)
    observed = _observed(seen, right, made_by)
    return replace(observed, data={**observed.data, "inputs": truth.digest((positional, keywords))}, also=also)


def _ran(subject: Subject, call: Call, *, detect_races: bool) -> Interpreted:
    if execution.needs_interpreting(subject):
        return interpret(subject, call, detect_races=detect_races)
    return Interpreted(execution.DEVICE, None, call.run(execution.Execution(execution.DEVICE)))


def _observed(seen: Interpreted, right: Any, made_by: str) -> Observed:
    import jax

    return Observed(
        "observed",
        data={
            "mode": seen.mode,
            "note": seen.note,
            "platform": jax.devices()[0].platform,
            "reference": made_by,
            "outputs": truth.errors(seen.outputs, right),
            "other": _other(seen, right),
            "diagnosis": _diagnosis(seen),
        },
    )


def _other(seen: Interpreted, right: Any) -> dict[str, Any] | None:
    """The generic interpreter's errors, and how far the two are apart; None where only one was asked."""
    if seen.other is None:
        return None
    there = seen.other.outputs
    return {
        "mode": pallas.GENERIC,
        "note": seen.other.note,
        "outputs": None if there is None else truth.errors(there, right),
        "differs": None if there is None else truth.differences(seen.outputs, there),
    }


def _diagnosis(seen: Interpreted) -> dict[str, Any] | None:
    if seen.diagnosis is None:
        return None
    return {"kind": seen.diagnosis.kind, "where": tpu_interpreter.short(seen.diagnosis.where)}


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
