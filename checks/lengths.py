"""The scenario `shapes`: one case's inputs at several lengths, as documents have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import arguments
from .arguments import Specification
from .faults import NotHereError
from .subject import Subject

SHARES = (1.0, 0.75, 0.5, 0.25)  # of the case's own length


def inputs_by_length(subject: Subject, function: Callable[..., Any]) -> dict[int, tuple[Any, ...]]:
    """The positional inputs as NumPy arrays, by length: those of the shares that the implementation takes.

    Raises NotHereError when it takes no other length than the case's own, or has no arguments to vary.
    """
    if subject.plan.kernel.inputs is not None or not subject.case.args:
        message = "its inputs are not made from `args`, so their length cannot be varied"
        raise NotHereError(message)
    specifications = [arguments.parse(text) for text in subject.case.args]
    own = subject.case.length or _longest(specifications)
    wanted = dict.fromkeys(max(1, int(own * share)) for share in SHARES)
    taken: dict[int, tuple[Any, ...]] = {}
    refused = ""
    for length in wanted:
        scaled = [_scaled(one, own, length) for one in specifications]
        if length == own:
            taken[length] = _made(subject, scaled)
            continue
        try:
            taken[length] = _taken(subject, function, scaled)
        except Exception as error:  # a kernel may take multiples of its block size only, which is no fault
            refused = refused or f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
    if len(taken) == 1:
        message = f"takes no other length than {own}" + (f": {refused}" if refused else "")
        raise NotHereError(message)
    return taken


def _longest(specifications: list[Specification]) -> int:
    """The largest dimension of any argument: usually the sequence."""
    sizes = [size for one in specifications for size in one.shape]
    if not sizes:
        message = "its arguments are scalars, so there is no length to vary"
        raise NotHereError(message)
    return max(sizes)


def _scaled(one: Specification, own: int, length: int) -> Specification:
    """Every dimension of size `own` gets `length`, and so does an upper limit of whole numbers that indexes it."""
    shape = tuple(length if size == own else size for size in one.shape)
    if one.fill != "randint" or one.numbers[1] not in (own, own + 1):
        return replace(one, shape=shape)
    low, high = one.numbers
    return replace(one, shape=shape, numbers=(low, length + int(high) - own))


def _made(subject: Subject, specifications: list[Specification]) -> tuple[Any, ...]:
    return tuple(arguments.make(one, subject.case.seed, n) for n, one in enumerate(specifications))


def _taken(subject: Subject, function: Callable[..., Any], specifications: list[Specification]) -> tuple[Any, ...]:
    """The inputs, with which the implementation has run once. Raises what making them or running it raises."""
    import jax

    positional = _made(subject, specifications)
    _, keywords = subject.inputs()
    jax.block_until_ready(jax.jit(function)(*positional, **keywords))
    return positional
