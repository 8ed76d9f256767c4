"""Mixtures of two locks, resolved by the real uv from a folder of wheels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.wheelhouse import Wheelhouse, make_project
from watchdog.gate.mixtures import PYTHON, Mixtures, Roots, Unit, Unmixable, mixtures
from watchdog.pins import Lock, PinsRequest, resolve
from watchdog.uv import Uv


@dataclass(frozen=True)
class Bench:
    """Wheels, the uv that sees them, and a folder of the user's."""

    wheels: Wheelhouse
    uv: Uv
    folder: Path

    def lock(self, *requirements: str) -> Lock:
        found = resolve(PinsRequest("pins", requirements, None, None, self.folder), self.uv)
        assert isinstance(found, Lock)
        return found

    def mixed(self, base: tuple[str, ...], head: tuple[str, ...], *, known: bool = True) -> Mixtures:
        """The mixtures of what two lists of requirements resolve to, with or without telling what was asked for."""
        roots = Roots(base, head) if known else Roots()
        return mixtures(self.lock(*base), self.lock(*head), roots, self.uv)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """`jax` as it is made: in step with jaxlib, and with libtpu by an extra; one of its requirements is dropped."""
    wheels = Wheelhouse(tmp_path / "house")
    for version, rest in (("1.0", ("absl-py",)), ("2.0", ())):
        wheels.add("jax", version, requires=(f"jaxlib=={version}", *rest))
        wheels.add("jaxlib", version, requires=("numpy",))
        wheels.add("numpy", version)
        wheels.add("toml", version)
    wheels.add("absl_py", "1.0")
    return Bench(wheels, wheels.uv(), tmp_path)


def versions(lock: Lock | Unmixable) -> dict[str, str | None]:
    """What a mixture holds."""
    assert isinstance(lock, Lock), lock.explanation
    return {entry.name: entry.version for entry in lock.entries}


def names(mixed: Mixtures) -> list[tuple[str, ...]]:
    """The units, each with what moves with it."""
    return [tuple(change.name for change in unit.changes) for unit in mixed.units]


def unit(mixed: Mixtures, name: str) -> Unit:
    """The unit that is known by this name."""
    return next(one for one in mixed.units if one.leader.name == name)


OLD = ("jax==1.0", "numpy==1.0", "toml==1.0")
NEW = ("jax==2.0", "numpy==2.0", "toml==2.0")


@pytest.mark.parametrize("known", [True, False])
def test_packages_that_install_only_together_are_one_unit(bench: Bench, known: bool) -> None:
    """jax leads its own; the others move by themselves, whether or not it is told what the user asked for."""
    mixed = bench.mixed(OLD, NEW, known=known)
    assert names(mixed)[0] == ("jax", "jaxlib")
    assert set(names(mixed)) == {("jax", "jaxlib"), ("numpy",), ("toml",)}


def test_a_mixture_takes_each_package_from_its_side(bench: Bench) -> None:
    """And what a package no longer requires goes with it: nobody switched absl-py."""
    mixed = bench.mixed(OLD, NEW)
    new_jax = versions(mixed.lock({unit(mixed, "jax")}))
    assert new_jax == {"jax": "2.0", "jaxlib": "2.0", "numpy": "1.0", "toml": "1.0"}
    new_rest = versions(mixed.lock({unit(mixed, "numpy"), unit(mixed, "toml")}))
    assert new_rest == {"absl-py": "1.0", "jax": "1.0", "jaxlib": "1.0", "numpy": "2.0", "toml": "2.0"}


def test_nothing_and_everything_are_the_two_locks(bench: Bench) -> None:
    """As they were given, not as they would be resolved."""
    mixed = bench.mixed(OLD, NEW)
    assert mixed.lock(()) is mixed.base
    assert mixed.lock(mixed.units) is mixed.head


def test_the_lines_of_a_mixture_are_those_of_the_locks(bench: Bench) -> None:
    """Hashes included, so that what is installed is what one of the sides installs."""
    mixed = bench.mixed(OLD, NEW)
    lines = {entry.text for lock in (mixed.base, mixed.head) for entry in lock.entries}
    lock = mixed.lock({unit(mixed, "toml")})
    assert isinstance(lock, Lock)
    assert {entry.text for entry in lock.entries} <= lines
    assert all(entry.hashes for entry in lock.entries)


def test_a_need_in_one_direction_is_switched_along(bench: Bench) -> None:
    """The new a needs the new b, which the old a takes too: b is a unit of its own, and a brings it."""
    bench.wheels.add("a", "1.0", requires=("b",))
    bench.wheels.add("a", "2.0", requires=("b>=2",))
    bench.wheels.add("b", "1.0")
    bench.wheels.add("b", "2.0")
    mixed = bench.mixed(("a==1.0", "b==1.0"), ("a==2.0", "b==2.0"))
    assert names(mixed) == [("a",), ("b",)]
    assert mixed.closed([unit(mixed, "a")]) == frozenset(mixed.units)
    assert mixed.closed([unit(mixed, "b")]) == {unit(mixed, "b")}
    alone = mixed.lock({unit(mixed, "a")})
    assert isinstance(alone, Unmixable)
    assert "depends on b>=2" in alone.explanation


def test_what_the_user_added_or_removed_is_a_unit(bench: Bench) -> None:
    """A requirement that was dropped by hand can break a kernel as well as a version."""
    mixed = bench.mixed(("toml==1.0", "absl-py"), ("toml==1.0", "numpy==1.0"))
    changes = {one.leader.name: (one.leader.old, one.leader.new) for one in mixed.units}
    assert changes == {"absl-py": ("1.0", None), "numpy": (None, "1.0")}
    assert set(versions(mixed.lock({unit(mixed, "absl-py")}))) == {"toml"}
    assert set(versions(mixed.lock({unit(mixed, "numpy")}))) == {"toml", "absl-py", "numpy"}


def test_a_local_project_is_a_package_with_two_places(bench: Bench) -> None:
    """Its requirements, too, follow the side that it is taken from."""
    old = make_project(bench.folder / "old", "own", "1.0", requires=("absl-py",))
    new = make_project(bench.folder / "new", "own", "1.0")
    (new / "own.py").write_text("ANSWER = 2\n", encoding="utf-8")
    mixed = bench.mixed((str(old), "toml==1.0"), (str(new), "toml==2.0"))
    assert names(mixed) == [("own",), ("toml",)]
    switched = mixed.lock({unit(mixed, "own")})
    assert set(versions(switched)) == {"own", "toml"}
    assert isinstance(switched, Lock)
    assert next(entry.folder for entry in switched.entries if entry.name == "own") == new
    assert set(versions(mixed.lock({unit(mixed, "toml")}))) == {"own", "toml", "absl-py"}


def test_another_python_is_a_unit(bench: Bench) -> None:
    """A mixture has the Python of the side that it is taken from."""
    base = bench.lock(*OLD)
    head = replace(bench.lock("jax==1.0", "numpy==1.0", "toml==2.0"), python="3.99.1")
    mixed = mixtures(base, head, Roots(), bench.uv)
    assert names(mixed) == [(PYTHON,), ("toml",)] or names(mixed) == [("toml",), (PYTHON,)]
    switched, rest = mixed.lock({unit(mixed, PYTHON)}), mixed.lock({unit(mixed, "toml")})
    assert isinstance(switched, Lock)
    assert isinstance(rest, Lock)
    assert (switched.python, rest.python) == ("3.99.1", base.python)
    assert versions(switched)["toml"] == "1.0"


def test_locks_that_contradict_themselves_are_mixed_line_by_line(bench: Bench) -> None:
    """As pip was once told not to mind: then nothing follows from anything, and each line is a unit."""
    base = bench.lock(*OLD)
    broken = "".join(f"{entry.text}\n" for entry in base.entries if entry.name != "jaxlib")
    own = next(entry for entry in bench.lock("jaxlib==2.0").entries if entry.name == "jaxlib")
    head = replace(base, text=broken + f"{own.text}\n")
    mixed = mixtures(replace(base, text=broken.replace("toml==1.0", "toml==9.0")), head, Roots(), bench.uv)
    assert names(mixed) == [("jaxlib",), ("toml",)]
    assert versions(mixed.lock({unit(mixed, "jaxlib")}))["toml"] == "9.0"


def test_mixtures_are_told_by_what_they_take_from_the_head(bench: Bench) -> None:
    """By what they leave, where that is shorter."""
    mixed = bench.mixed(OLD, NEW)
    assert mixed.what({unit(mixed, "jax")}) == "jax 2.0, jaxlib 2.0"
    assert mixed.what(()) == "nothing of the change"
    assert mixed.what(mixed.units) == "all of the change"
