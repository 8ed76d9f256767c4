"""Mixtures of two locks: some of the changed packages as the head has them, the others as the base has them.

uv says what a mixture needs: it resolves what the user asks for, with every version fixed by one side or the other. So a
package that only one side has comes and goes with whoever requires it. The lines of a mixture, hashes included, are
those of the two locks.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from watchdog.judges.wording import one_line
from watchdog.model import PackageChange
from watchdog.pins import RESOLVE_SECONDS, Lock, LockedPackage
from watchdog.uv import Answer, Uv

PYTHON = "python"  # the name under which the Python of the two sides is a unit

_FIRST = ("jax", "jaxlib", "libtpu")  # suspected first, and the first of those that move together
_AT_ONCE = 4  # resolutions
_COMPILED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:==| @ )[^#]*(?:#\s*via\s+(?P<via>.*))?")


@dataclass(frozen=True)
class Unit:
    """What is switched together: one changed package, or several that can only be installed together."""

    changes: tuple[PackageChange, ...]

    @property
    def leader(self) -> PackageChange:
        """The one by whose name people know it."""
        return self.changes[0]


@dataclass(frozen=True)
class Roots:
    """What the user asks for on each side, as requirements; their versions do not matter. None where it is not known."""

    base: tuple[str, ...] | None = None
    head: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Unmixable:
    """Why a mixture cannot be installed."""

    explanation: str  # one line


@dataclass
class Mixtures:
    """What can be made of two locks. Each mixture is resolved once."""

    base: Lock
    head: Lock
    units: tuple[Unit, ...]  # suspected first come first
    needs: Mapping[Unit, frozenset[Unit]]  # what must be switched with a unit, itself included
    recipe: _Recipe

    def closed(self, switched: Iterable[Unit]) -> frozenset[Unit]:
        """These units with all that must be switched with them."""
        return frozenset(needed for unit in switched for needed in self.needs[unit])

    def lock(self, switched: Collection[Unit]) -> Lock | Unmixable:
        """The mixture in which these units are as the head has them."""
        return self.recipe.lock(frozenset(change.name for unit in switched for change in unit.changes))

    def what(self, switched: Collection[Unit]) -> str:
        """A mixture in a few words: what it takes from the head."""
        left = [unit for unit in self.units if unit not in switched]
        if not left:
            return "all of the change"
        if not switched:
            return "nothing of the change"
        few = 4
        if len(switched) > few and len(left) <= few:
            return f"all of the change but {_listed(left)}"
        return _listed([unit for unit in self.units if unit in switched])


def mixtures(base: Lock, head: Lock, roots: Roots, uv: Uv) -> Mixtures:
    """The units in which the head differs from the base, and how they can be mixed."""
    old, new = _side(base, roots.base, uv), _side(head, roots.head, uv)
    recipe = _Recipe(base, head, None if old is None or new is None else (old, new), uv)
    names = recipe.unit_names
    needs = _needs(recipe, names)
    units = tuple(_units(recipe, names, needs))
    by_name = {change.name: unit for unit in units for change in unit.changes}
    return Mixtures(
        base,
        head,
        units,
        {unit: frozenset(by_name[name] for change in unit.changes for name in needs[change.name]) for unit in units},
        recipe,
    )


@dataclass(frozen=True)
class _Side:
    """What one lock is made of."""

    roots: Mapping[str, str]  # what nobody else requires, or the user names: requirement by package
    requires: Mapping[str, frozenset[str]]  # by package


@dataclass
class _Recipe:
    """How mixtures are made, by names. Without `sides`, whose locks contradict themselves, lines are taken as they are."""

    base: Lock
    head: Lock
    sides: tuple[_Side, _Side] | None
    uv: Uv
    made: dict[frozenset[str], Lock | Unmixable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._old = {entry.name: entry for entry in self.base.entries}
        self._new = {entry.name: entry for entry in self.head.entries}

    @property
    def unit_names(self) -> list[str]:
        """What can be switched: packages that changed, and those that the user added or removed, and Python."""
        differing = [name for name in sorted(self._old.keys() | self._new.keys()) if self._is_unit(name)]
        python = [PYTHON] if _minor(self.base.python) != _minor(self.head.python) else []
        roots = {name for side in self.sides or () for name in side.roots}
        return sorted([*differing, *python], key=lambda name: (_place(name), name not in roots, name))

    def _is_unit(self, name: str) -> bool:
        old, new = self._old.get(name), self._new.get(name)
        if old is not None and new is not None:
            return old.identity != new.identity
        if self.sides is None:
            return True
        return name in self.sides[0 if old is not None else 1].roots

    def change(self, name: str) -> PackageChange:
        if name == PYTHON and name not in self._old and name not in self._new:
            return PackageChange(PYTHON, self.base.python, self.head.python)
        old, new = self._old.get(name), self._new.get(name)
        return PackageChange(name, old.package.version if old else None, new.package.version if new else None)

    def neighbours(self, name: str) -> set[str]:
        """Who requires a package on either side, and whom it requires."""
        pairs = [
            (one, other) for side in self.sides or () for one, required in side.requires.items() for other in required
        ]
        return {other for one, other in pairs if one == name} | {one for one, other in pairs if other == name}

    def lock(self, switched: frozenset[str]) -> Lock | Unmixable:
        if switched not in self.made:
            self.made[switched] = self._lock(switched)
        return self.made[switched]

    def _lock(self, switched: frozenset[str]) -> Lock | Unmixable:
        units = frozenset(self.unit_names)
        if not switched:
            return self.base
        if switched >= units:
            return self.head
        chosen = self._chosen(switched)
        python = self.head if PYTHON in switched else self.base
        options = tuple(dict.fromkeys((*self.base.options, *self.head.options)))
        if self.sides is not None:
            answer = _compile(self._roots(switched), chosen.values(), python, options, self.uv)
            if not answer.succeeded:
                return Unmixable(_reason(answer))
            names = _names(answer)
            unknown = sorted(names.keys() - chosen.keys())
            if unknown:
                return Unmixable(f"it needs {', '.join(unknown)}, which neither side has")
            chosen = {name: chosen[name] for name in names}
        text = "".join(f"{chosen[name].text}\n" for name in sorted(chosen))
        return Lock(text, python.python, python.interpreter, self.base.root, options)

    def _chosen(self, switched: frozenset[str]) -> dict[str, LockedPackage]:
        """Each package's line, should the mixture need it. What is no unit comes from the side that has it."""
        units = frozenset(self.unit_names)
        chosen = {}
        for name in self._old.keys() | self._new.keys():
            first, second = (self._new, self._old) if name in switched else (self._old, self._new)
            entry = first.get(name) or (None if name in units else second.get(name))
            if entry is not None:
                chosen[name] = entry
        return chosen

    def _roots(self, switched: frozenset[str]) -> list[str]:
        """What is asked of a mixture: what each side asks for, where it has not been switched away."""
        if self.sides is None:
            return []
        old, new = (side.roots for side in self.sides)
        present = self._chosen(switched)
        first = {name: (new if name in switched else old) for name in old.keys() | new.keys()}
        return [first[name].get(name) or old.get(name) or new[name] for name in sorted(first) if name in present]


def _units(recipe: _Recipe, names: Sequence[str], needs: Mapping[str, frozenset[str]]) -> Iterable[Unit]:
    """What needs each other moves together, and is one unit."""
    told: set[str] = set()
    for name in names:
        if name not in told:
            group = [other for other in names if other in needs[name] and name in needs[other]]
            told.update(group)
            yield Unit(tuple(recipe.change(member) for member in group))


def _needs(recipe: _Recipe, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """What cannot be left behind when a package is switched, itself included.

    Only what requires, or is required, can stand in the way; Python can for each.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: _needed(recipe, name, names), names), strict=True))


def _needed(recipe: _Recipe, name: str, names: Sequence[str]) -> frozenset[str]:
    alone = frozenset({name})
    related = _related(recipe, name, names)
    if related == alone or not isinstance(recipe.lock(alone), Unmixable) or isinstance(recipe.lock(related), Unmixable):
        return alone
    kept = related
    for other in sorted(related - alone, key=lambda other: (-_place(other), other)):
        if not isinstance(recipe.lock(kept - {other}), Unmixable):
            kept -= {other}
    return kept


def _related(recipe: _Recipe, name: str, names: Sequence[str]) -> frozenset[str]:
    """The units that are tied to one by requirements, directly or through others."""
    found, ahead = {name}, [name]
    while ahead:
        one = ahead.pop()
        nearby = recipe.neighbours(one) | ({PYTHON} if PYTHON in names else set())
        fresh = {other for other in nearby if other in names} - found
        if one == PYTHON:
            fresh = set()
        found |= fresh
        ahead += sorted(fresh)
    return frozenset(found)


def roots_of(lock: Lock, uv: Uv) -> tuple[str, ...]:
    """What nobody else of a lock requires; all of it where the lock contradicts itself."""
    side = _side(lock, None, uv)
    return tuple(entry.name for entry in lock.entries) if side is None else tuple(side.roots)


def _side(lock: Lock, wanted: Sequence[str] | None, uv: Uv) -> _Side | None:
    """Who requires whom in a lock; None where uv finds that it contradicts itself."""
    by_user = dict(_wanted(requirement, lock) for requirement in wanted or ())
    by_user = {name: text for name, text in by_user.items() if name}
    asked = [*by_user.values(), *(entry.name for entry in lock.entries)]
    answer = _compile(asked, lock.entries, lock, lock.options, uv)
    if not answer.succeeded:
        return None
    required_by = _names(answer)
    requires: dict[str, set[str]] = {}
    for name, parents in required_by.items():
        for parent in parents:
            requires.setdefault(parent, set()).add(name)
    own = {name: name for name, parents in required_by.items() if not parents}
    return _Side({**own, **by_user}, {name: frozenset(others) for name, others in requires.items()})


def _wanted(requirement: str, lock: Lock) -> tuple[str, str]:
    """A requirement of the user as package and text without version; empty where the lock does not have it."""
    held = {entry.name for entry in lock.entries}
    text = re.sub(r"^(-e|--editable)[\s=]+", "", requirement.strip())
    try:
        parsed = Requirement(text)
    except InvalidRequirement:  # a local project, known by its folder
        path, _, extras = text.partition("[")
        folder = (lock.root / Path(path).expanduser()).resolve()
        name = next((entry.name for entry in lock.entries if entry.folder == folder), "")
        return name, f"{name}[{extras}" if extras else name
    name = canonicalize_name(parsed.name)
    extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else ""
    return (name if name in held else ""), f"{name}{extras}"


def _compile(
    asked: Iterable[str], fixed: Iterable[LockedPackage], python: Lock, options: Sequence[str], uv: Uv
) -> Answer:
    """uv's answer to what is asked for, with these versions alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as constraints:
        constraints.writelines(f"{entry.place}\n" for entry in fixed)
        constraints.flush()
        return uv.call(
            *("pip", "compile", "-", "--constraints", constraints.name, "--no-header", "--annotation-style", "line"),
            *("--prerelease", "allow", "--python", str(python.interpreter)),
            seconds=RESOLVE_SECONDS,
            folder=python.root,
            stdin="\n".join((*options, *asked)) + "\n",
        )


def _names(answer: Answer) -> dict[str, frozenset[str]]:
    """The packages of uv's answer, each with those that require it."""
    found: dict[str, frozenset[str]] = {}
    for line in answer.stdout.splitlines():
        match = _COMPILED.match(line)
        if match:
            parents = (via.strip() for via in (match["via"] or "").split(","))
            found[canonicalize_name(match["name"])] = frozenset(
                canonicalize_name(parent) for parent in parents if parent and not parent.startswith("-")
            )
    return found


def _reason(answer: Answer) -> str:
    if answer.code is None:
        return f"uv did not finish resolving within {RESOLVE_SECONDS:.0f} s"
    lines = [line.strip().removeprefix("cause: ") for line in answer.stderr.splitlines() if line.strip()]
    return one_line(" ".join(line for line in lines if "No solution found" not in line), 300)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _place(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _listed(units: Sequence[Unit]) -> str:
    shown = 4
    names = [f"{change.name} {change.new or 'removed'}" for unit in units for change in unit.changes]
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
