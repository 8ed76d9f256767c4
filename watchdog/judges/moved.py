"""A name or an argument that a release of jax lacks: who removed or added it, and what it is called there.

What is said comes from the table of names alone. A name that merely looks similar is called just that.
"""

from __future__ import annotations

import difflib
import re

from watchdog.judges import names
from watchdog.judges.names import History, Names
from watchdog.judges.wording import one_line, sentence
from watchdog.model import Environment, Fault

_OF_A_MODULE = re.compile(r"module '(jax(?:\.[\w.]+)?)' has no attribute '(\w+)'")
_IMPORTED = re.compile(r"cannot import name '(\w+)' from '(jax(?:\.[\w.]+)?)'")
_MODULE = re.compile(r"No module named '(jax\.[\w.]+)'")
_SAID_BY_JAX = re.compile(r"\A((?:jax|jnp|pl|pltpu)\.[\w.]*\w) (?:was|is) (?:removed|deprecated)")
_OF_A_CLASS = re.compile(r"type object '(\w+)' has no attribute '(\w+)'")
_OF_AN_ARRAY = re.compile(r"'?(?:\w*Tracer|ArrayImpl)'?(?: object)? has no attribute '?(\w+)")
_ARGUMENT = re.compile(r"(?:\A|[\s.])(\w+)(?:\.__(?:init|new)__)?\(\) got an unexpected keyword argument '(\w+)'")
_PALLAS = ("jax.experimental.pallas.tpu", "jax.experimental.pallas")
_UNMISTAKABLE = (*_PALLAS, "jax")
_SIMILAR = 0.75


def name_sentence(fault: Fault, environment: Environment | None) -> str | None:
    """What became of the name that a fault misses; None when it is no name of jax, or nothing is known of it."""
    release, name, table = _release(environment), missing_path(fault), names.known()
    if release is None or name is None:
        return None
    history = table.history(name, release)
    if (history is None and not table.would_know(name)) or (history is not None and history.has):
        return None
    asked = f"{one_line(names.short(name))} is not in jax {release}"
    if history is None:
        return sentence([f"{asked}: no release {table.span} has it", _similar_name(table, name, release)])
    return sentence([f"{asked}: {_when(history)}", _instead(table, name, release, history)])


def argument_sentence(fault: Fault, environment: Environment | None) -> str | None:
    """What became of an argument that a callable of jax does not know; None when it is another's callable."""
    release, found, table = _release(environment), _ARGUMENT.search(fault.message), names.known()
    if release is None or found is None:
        return None
    called, argument = found.groups()
    owners = table.callables(called, release)
    lacking = [owner for owner in owners if argument not in table.parameters_in(owner, release)]
    if not lacking:
        return None
    owner = min(
        lacking, key=lambda one: (table.parameter_history(one, argument, release) is None, "pallas.tpu" not in one)
    )
    asked = f"{_spelled(owner)} has no argument {one_line(argument)} in jax {release}"
    if history := table.parameter_history(owner, argument, release):
        return f"{asked}: {_when(history)}"
    if owner.partition("@")[2].rpartition(".")[0] not in _UNMISTAKABLE:  # a user's function may have that name as well
        return None
    others = [_spelled(other) for other in owners if other not in lacking]
    similar = difflib.get_close_matches(argument, table.parameters_in(owner, release), 1, _SIMILAR)
    return sentence(
        [
            f"{asked}: no release {table.span} has it",
            f"{others[0]} has it" if others else None,
            f"a similar one is {similar[0]}" if similar else None,
        ]
    )


def missing_path(fault: Fault) -> str | None:
    """The full name that a fault misses in jax, as far as its text tells it."""
    if found := _OF_A_MODULE.search(fault.message):
        return f"{found[1]}.{found[2]}"
    if found := _IMPORTED.search(fault.message):
        return f"{found[2]}.{found[1]}"
    if found := _MODULE.search(fault.message) or _SAID_BY_JAX.search(fault.message):
        return names.full(found[1])
    if found := _OF_A_CLASS.search(fault.message):
        owners = [f"{module}.{found[1]}" for module in _PALLAS if f"{module}.{found[1]}" in names.known().names]
        return f"{owners[0]}.{found[2]}" if owners else None
    if found := _OF_AN_ARRAY.search(fault.message):
        return f"jax.Array.{found[1]}"
    return None


def _spelled(owner: str) -> str:
    return names.short(owner.partition("@")[2])


def _release(environment: Environment | None) -> str | None:
    packages = environment.packages if environment else ()
    return next((package.version for package in packages if package.name == "jax"), None)


def _when(history: History) -> str:
    if history.added:
        return f"added in {history.added}"
    deprecated = f" (deprecated from {history.deprecated})" if history.deprecated else ""
    return f"removed in {history.removed}{deprecated}"


def _instead(table: Names, name: str, release: str, history: History) -> str | None:
    """The name in this release; else what jax said when it took the old one away."""
    if other := table.called_in(name, release):
        spelled = names.short(other)
        return f"the name there is {spelled}" if history.added else f"today's name is {spelled}"
    if other := table.instead_in(name, release):
        return f"jax says to use {names.short(other)}"
    return f"jax says: {one_line(table.said[name]).rstrip('.')}" if name in table.said else None


def _similar_name(table: Names, name: str, release: str) -> str | None:
    found = difflib.get_close_matches(name.rpartition(".")[2], table.neighbours(name, release), 1, _SIMILAR)
    return f"a similar name there is {names.short(name).rpartition('.')[0]}.{found[0]}" if found else None
