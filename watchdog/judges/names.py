"""The names of jax, and which releases have them: read from a table that the releases themselves made.

`make names-table` makes it (`tests/names_table`). In `names.json` releases have numbers, and a run of them is written
`12-26`; several are joined with commas. `unread` are modules whose names nobody read. `names` gives by module and runs the names in it, `parameters` by callable and
runs its parameters (a callable's key is its name in errors, `@`, its full name), `deprecated` by number the names that
this release was the first to call deprecated, `now` other names of what an old one stood for, `use` what jax's own
message advises instead, and `said` its message where it advises no name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

DATA = Path(__file__).with_name("names.json")

Run = tuple[int, int]
_SHORT = {
    "jax.experimental.pallas.tpu": "pltpu",
    "jax.experimental.pallas": "pl",
    "jax.numpy": "jnp",
}


@dataclass(frozen=True)
class History:
    """When a name or a parameter was there, seen from one release."""

    has: bool  # whether the release itself has it
    removed: str | None = None  # the release that took it away
    added: str | None = None  # the release that brought it, where that is a later one
    deprecated: str | None = None


@dataclass(frozen=True)
class Names:
    """The table."""

    releases: tuple[str, ...]
    unread: tuple[str, ...]
    names: Mapping[str, tuple[Run, ...]]
    parameters: Mapping[str, Mapping[str, tuple[Run, ...]]]
    deprecated: Mapping[str, int]
    now: Mapping[str, tuple[str, ...]]
    use: Mapping[str, tuple[str, ...]]
    said: Mapping[str, str]

    @property
    def span(self) -> str:
        return f"from {self.releases[0]} to {self.releases[-1]}"

    def history(self, name: str, release: str) -> History | None:
        """When `name` was there; None when no known release has it."""
        return self._history(self.names.get(name, ()), release, self.deprecated.get(name))

    def would_know(self, name: str) -> bool:
        """Whether a name that the table lacks was in none of its releases: public, and of a module that was read."""
        module = name.rpartition(".")[0]
        private = any(part.startswith("_") for part in name.split("."))
        unread = any(f"{name}.".startswith(f"{one}.") for one in self.unread)
        return module in self.names and not private and not unread

    def parameter_history(self, key: str, parameter: str, release: str) -> History | None:
        """The same for a parameter of a callable of the table."""
        return self._history(self.parameters[key].get(parameter, ()), release, None)

    def callables(self, called: str, release: str) -> list[str]:
        """The table's keys of the callables of a release that errors call `called`."""
        named = [key for key in self.parameters if key.partition("@")[0] == called]
        return [key for key in named if self.parameters_in(key, release)]

    def parameters_in(self, key: str, release: str) -> list[str]:
        """The parameters that a callable has in a release."""
        number = self.number(release)
        return [name for name, runs in self.parameters[key].items() if _within(runs, number)]

    def is_in(self, name: str, release: str) -> bool:
        return _within(self.names.get(name, ()), self.number(release))

    def neighbours(self, name: str, release: str) -> list[str]:
        """The last parts of the names that the same module has in a release."""
        module = name.rpartition(".")[0] + "."
        number = self.number(release)
        found = (
            other.removeprefix(module)
            for other, runs in self.names.items()
            if other.startswith(module) and _within(runs, number)
        )
        return [other for other in found if "." not in other]

    def called_in(self, name: str, release: str) -> str | None:
        """What `name` stands for has this name in a release that lacks `name` itself."""
        return self._newer(name, release, self.now, frozenset()) or self._older(name, release)

    def instead_in(self, name: str, release: str) -> str | None:
        """What jax advises instead, as far as a release has it."""
        return self._newer(name, release, self.use, frozenset())

    def number(self, release: str) -> int:
        """The number of a release; of one that is not known, that of the last known one before it."""
        try:
            wanted = Version(release)
        except InvalidVersion:
            return len(self.releases) - 1
        known = [number for number, one in enumerate(self.releases) if Version(one) <= wanted]
        return known[-1] if known else 0

    def _newer(
        self, name: str, release: str, others: Mapping[str, tuple[str, ...]], seen: frozenset[str]
    ) -> str | None:
        """Follows several renames in turn, to the first name that the release has."""
        found = [other for other in others.get(name, ()) if other not in seen]
        there = next((other for other in found if self.is_in(other, release)), None)
        further = (self._newer(other, release, others, seen | {name, other}) for other in found)
        return there or next(filter(None, further), None)

    def _older(self, name: str, release: str) -> str | None:
        before = [old for old, others in self.now.items() if others[0] == name and self.is_in(old, release)]
        return before[0] if before else None

    def _history(self, runs: tuple[Run, ...], release: str, deprecated: int | None) -> History | None:
        if not runs:
            return None
        number = self.number(release)
        if _within(runs, number):
            return History(has=True)
        before = [last for _, last in runs if last < number]
        if before:
            gone = self.releases[before[-1] + 1]
            first = self.releases[deprecated] if deprecated is not None and deprecated <= before[-1] else None
            return History(has=False, removed=gone, deprecated=first)
        return History(has=False, added=self.releases[next(first for first, _ in runs if first > number)])


def short(name: str) -> str:
    """A full name as kernels spell it: `pltpu.CompilerParams`."""
    for module, alias in _SHORT.items():
        if name.startswith(module + "."):
            return alias + name.removeprefix(module)
    return name


def full(name: str) -> str:
    """A name as kernels spell it, spelled out."""
    for module, alias in _SHORT.items():
        if name.startswith(alias + "."):
            return module + name.removeprefix(alias)
    return name


@functools.cache
def known() -> Names:
    """The table that is shipped with the program."""
    held = json.loads(DATA.read_text(encoding="utf-8"))
    return Names(
        releases=tuple(held["releases"]),
        unread=tuple(held["unread"]),
        names={
            f"{module}.{name}" if module else name: _runs(runs)
            for module, by_runs in held["names"].items()
            for runs, names in by_runs.items()
            for name in names.split()
        },
        parameters={
            key: {name: _runs(runs) for runs, names in by_runs.items() for name in names.split()}
            for key, by_runs in held["parameters"].items()
        },
        deprecated={name: int(number) for number, names in held["deprecated"].items() for name in names.split()},
        now={name: tuple(others) for name, others in held["now"].items()},
        use={name: tuple(others) for name, others in held["use"].items()},
        said=held["said"],
    )


def _runs(text: str) -> tuple[Run, ...]:
    pairs = (run.split("-") for run in text.split(","))
    return tuple((int(first), int(last)) for first, last in pairs)


def _within(runs: tuple[Run, ...], number: int) -> bool:
    return any(first <= number <= last for first, last in runs)
