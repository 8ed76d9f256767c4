"""What differs between the two sides' locks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from watchdog import lockfiles
from watchdog.gate.report import Change, Difference, Side
from watchdog.gate.sides import GivenSide
from watchdog.model import Package, PackageChange, package_changes
from watchdog.pins import Lock

_FIRST = ("jax", "jaxlib", "libtpu")


def difference(
    base: GivenSide,
    head: GivenSide,
    base_locks: Sequence[Lock],
    head_locks: Sequence[Lock],
    own: Sequence[str],
    *,
    warnings: Sequence[str],
) -> Difference:
    """What changes from base to head; `own` are the kernels' own requirements. Raises UsageError: an unreadable file."""
    changes = [*package_changes(_packages(base_locks), _packages(head_locks)), *_python(base_locks, head_locks)]
    direct = _direct(base, head, own)
    told = [Change(change, None if direct is None else change.name in direct) for change in changes]
    return Difference(
        _side(base, base_locks), _side(head, head_locks), tuple(sorted(told, key=_order)), tuple(warnings)
    )


def same_locks(base_locks: Sequence[Lock], head_locks: Sequence[Lock]) -> bool:
    """Whether both sides would install the very same."""
    hashes = [sorted(lock.hash for lock in locks) for locks in (base_locks, head_locks)]
    return bool(hashes[0]) and hashes[0] == hashes[1]


def _packages(locks: Sequence[Lock]) -> list[Package]:
    return list(dict.fromkeys(package for lock in locks for package in lock.packages))


def _python(base_locks: Sequence[Lock], head_locks: Sequence[Lock]) -> list[PackageChange]:
    old, new = ({lock.python for lock in locks} for locks in (base_locks, head_locks))
    if not old or not new or old == new:
        return []
    return [PackageChange("python", min(old), min(new))]


def _direct(base: GivenSide, head: GivenSide, own: Sequence[str]) -> set[str] | None:
    """The packages that the user's own words name; None where a lock file does not tell them."""
    found = set(_names(own))
    for side in (base, head):
        named = _named(side)
        if named is None:
            return None
        found |= named
    return found


def _named(side: GivenSide) -> AbstractSet[str] | None:
    pins = side.pins
    if pins.lock is not None:
        return lockfiles.roots(Path(pins.lock))
    words = pins.requirements if pins.requirements_file is None else lockfiles.own_words(Path(pins.requirements_file))
    return set(_names(words))


def _names(requirements: Iterable[str]) -> Iterable[str]:
    for requirement in requirements:
        try:
            yield canonicalize_name(Requirement(requirement).name)
        except InvalidRequirement:  # a local project, named after its folder more often than not
            yield canonicalize_name(requirement.rstrip("/").rsplit("/", 1)[-1].partition("[")[0])


def _order(change: Change) -> tuple[int, bool, str]:
    name = change.package.name
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), change.direct is not True, name)


def _side(side: GivenSide, locks: Sequence[Lock]) -> Side:
    return Side(side.name, side.given, locks[0].hash if locks else "", locks[0].python if locks else "")
