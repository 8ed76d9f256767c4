"""The table of names, from what releases say of themselves: on small releases made up for it."""

from __future__ import annotations

import types
from typing import Any

import pytest

from tests.names_table import inside, merge


def answer(release: str, modules: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "parameters": {},
        "objects": {},
        "definitions": {},
        "deprecated": {},
        "removed": {},
        "unread": [],
    }
    return {"release": release, "modules": modules, **empty, **more}


def test_releases_are_in_order_of_their_versions() -> None:
    """Whatever order they were asked in: 0.10 comes after 0.9."""
    made = merge.table([answer("0.10.0", {"jax": ["b"]}), answer("0.9.0", {"jax": ["a"]})])
    assert made["releases"] == ["0.9.0", "0.10.0"]
    assert made["names"]["jax"] == {"0-0": "a", "1-1": "b"}


def test_a_name_that_comes_back_has_two_runs() -> None:
    """Each stretch of releases that have it is kept."""
    answers = [answer(f"1.{n}", {"jax": ["x"] if n != 1 else []}) for n in range(4)]
    assert merge.table(answers)["names"]["jax"] == {"0-0,2-3": "x"}


def test_the_other_name_of_the_same_object_is_the_present_one() -> None:
    """In the last release that has both, they are one object; one beside it is preferred to one elsewhere."""
    both = answer(
        "1.0",
        {"jax.m": ["Old", "New"], "jax.a": ["New"], "jax": ["m", "a"]},
        objects={"jax.m.Old": 7, "jax.m.New": 7, "jax.a.New": 7},
    )
    made = merge.table([both, answer("1.1", {"jax.m": ["New"], "jax.a": ["New"], "jax": ["m", "a"]})])
    assert made["now"] == {"jax.m.Old": ["jax.m.New", "jax.a.New"]}


def test_the_same_definition_elsewhere_later_is_the_present_name() -> None:
    """Where no release has both, the definition says that it is the same thing."""
    before = answer("1.0", {"jax.core": ["Primitive"]}, definitions={"jax.core.Primitive": "jax._src.core:Primitive"})
    later = answer(
        "1.1",
        {"jax.core": [], "jax.extend.core": ["Primitive"]},
        definitions={"jax.extend.core.Primitive": "jax._src.core:Primitive"},
    )
    assert merge.table([before, later])["now"] == {"jax.core.Primitive": ["jax.extend.core.Primitive"]}


def test_a_similar_name_is_no_present_name() -> None:
    """Nothing is concluded from how names are spelled."""
    made = merge.table([answer("1.0", {"jax": ["TPUParams"]}), answer("1.1", {"jax": ["Params"]})])
    assert made["now"] == {}


@pytest.mark.parametrize(
    ("message", "advised"),
    [
        ("old is deprecated, use new instead.", ["jax.m.new"]),
        ("jax.m.old was removed in JAX v1.1: use jax.m.new (any version).", ["jax.m.new"]),
        ("jax.m.old is deprecated. Use jax.other.", ["jax.other.old"]),  # a module: the same name in it
        ("jax.m.old is deprecated, access it through jax.other.", ["jax.other.old"]),
        ("pl.old is deprecated, use ``new[idx]`` instead.", []),  # no name, but a way to write it
        ("jax.m.old is deprecated; use another library.", []),
    ],
)
def test_what_jax_advises(message: str, advised: list[str]) -> None:
    """A name that some release has; what else the message says is kept as it stands."""
    modules = {"jax": ["m", "other"], "jax.m": ["new", "old"], "jax.other": ["old"]}
    before = answer("1.0", modules, deprecated={"jax.m.old": message})
    made = merge.table([before, answer("1.1", {**modules, "jax.m": ["new"]})])
    assert made["use"].get("jax.m.old", []) == advised
    assert made["deprecated"] == {"0": "jax.m.old"}
    assert made["said"] == ({} if advised else {"jax.m.old": message})


def test_a_message_that_says_nothing_more_is_not_kept() -> None:
    """That a name was removed the table knows already."""
    made = merge.table([answer("1.0", {"jax": []}, removed={"jax.x": "jax.x was removed in JAX v0.9."})])
    assert made["said"] == {}


def test_parameters_that_changed_are_kept() -> None:
    """Of Pallas all, of others those that some release lacks; a callable is named as errors name it."""
    definitions = {"jax.nn.relu": "jax._src.nn:relu", "jax.nn.gelu": "jax._src.nn:gelu"}
    pallas = {"jax.experimental.pallas.call": "jax._src.pallas:call"}
    before, later = (
        answer(
            release,
            {"jax.nn": ["relu", "gelu"], "jax.experimental.pallas": ["call"]},
            definitions={**definitions, **pallas},
            parameters={"jax.nn.relu": relu, "jax.nn.gelu": ["x"], "jax.experimental.pallas.call": ["body"]},
        )
        for release, relu in (("1.0", ["x", "inplace"]), ("1.1", ["x"]))
    )
    assert merge.table([before, later])["parameters"] == {
        "call@jax.experimental.pallas.call": {"0-1": "body"},
        "relu@jax.nn.relu": {"0-0": "inplace", "0-1": "x"},
    }


def module(name: str, **held: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(held)
    return made


def told(of: types.ModuleType) -> dict[str, Any]:
    kept: dict[str, Any] = {
        kind: {} for kind in ("modules", "parameters", "objects", "definitions", "deprecated", "removed")
    }
    inside._tell(kept, of.__name__, of)
    return kept


def test_a_release_tells_its_deprecated_and_removed_names() -> None:
    """Names that only a module's __getattr__ knows are there while it hands something out; those without are gone."""

    def new() -> None: ...

    new.__module__ = "jax._src.m"
    entries = {"old": ("old is deprecated, use new instead.", new), "gone": ("gone was removed", None)}

    def getter(name: str) -> Any:
        return entries[name][1]

    answered = told(module("jax.m", new=new, __getattr__=getter))
    assert answered["modules"] == {"jax.m": ["new", "old"]}
    assert answered["objects"]["jax.m.new"] == answered["objects"]["jax.m.old"]
    assert (answered["deprecated"], answered["removed"]) == (
        {"jax.m.old": "old is deprecated, use new instead."},
        {"jax.m.gone": "gone was removed"},
    )


def test_methods_are_no_definitions() -> None:
    """Two primitives' bound methods are defined in one place, and are not each other's name."""

    class Primitive:
        def bind(self) -> None: ...

    Primitive.__module__ = "jax._src.core"
    Primitive.__qualname__ = "Primitive"
    answered = told(module("jax.m", device_id=Primitive().bind, call=Primitive().bind, Primitive=Primitive))
    assert answered["definitions"] == {"jax.m.Primitive": "jax._src.core:Primitive"}
    assert answered["objects"]["jax.m.device_id"] != answered["objects"]["jax.m.call"]


def test_what_came_from_elsewhere_has_a_name_and_no_other() -> None:
    """A kernel may have used `jax.lax.np`: the name was there. That it is NumPy under another name is not jax's matter."""
    held = {"types": types, "Any": Any, "lax": module("jax.lax"), "_private": 1, "pi": 3.1}
    answered = told(module("jax.m", **held))
    assert answered["modules"] == {"jax.m": ["Any", "lax", "pi", "types"]}
    assert answered["objects"] == {}
