"""Who keeps an object alive: every way of holding one in Python, and objects that must not be asked about it."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.inside import checks

holders = checks("holders")

HOLDS = '''
from collections import deque
from functools import lru_cache
from threading import Event


class Thing:
    pass


class Hostile:
    """Whatever is asked of it raises."""

    def __getattribute__(self, name):
        raise RuntimeError(f"asked for {name}")

    def _never(self, *_):
        raise RuntimeError("called")

    __eq__ = __ne__ = __hash__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __getitem__ = _never
    __class__ = __name__ = property(_never)


class Masked(Hostile):
    __dict__ = property(Hostile._never)


class Plain:
    pass


def decoy():
    a_list = []  # a local of the same name
    return [a_set for a_set in (a_list,)]


a_list, a_dict, a_deque, a_set = [], {}, deque(), set()
nested = {"first": [{"second": deque()}]}
an_object = Plain()
an_object.things, an_object.inner = [], Plain()
hostile, masked = Hostile(), Masked()


class Registry:
    things = []

    def __init_subclass__(cls):
        cls.things = []


@lru_cache
def remembered(number):
    return Thing()


class Service:
    def __init__(self):
        self.answer = lru_cache(self.answer)

    def answer(self, number):  # a method
        return Thing()


service = Service()


def closes_over(thing):
    def inside():  # closes over
        return thing

    return inside


closures = []


def with_default(memo=[]):  # with_default
    return memo


def with_keyword(*, memo={}):
    return memo


def with_attribute():
    return None


with_attribute.memo = []


def declares():
    global declared  # declared
    declared = [Thing()]


def suspended():
    local = Thing()
    yield local  # suspended


def fails():
    local = Thing()
    raise ValueError("on purpose")


def waits(here, leave):
    local = Thing()
    return here.append(local) or leave.wait()  # waits


def cycle():
    thing, other = Thing(), Plain()
    thing.other, other.thing = other, thing
    return thing
'''


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module above, imported as a user's own."""
    (tmp_path / "holds.py").write_text(HOLDS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("holds")
    del sys.modules["holds"]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of numpy's, as far as its path tells."""
    folder = tmp_path / "lib" / "site-packages" / "numpy"
    folder.mkdir(parents=True)
    (folder / "keeps.py").write_text("kept = []\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("keeps")
    del sys.modules["keeps"]


def line(mark: str) -> str:
    return f"holds.py:{next(n for n, text in enumerate(HOLDS.splitlines(), 1) if mark in text)}"


KEEP: dict[str, Callable[[ModuleType, Any], object]] = {
    "a_list": lambda user, thing: user.a_list.append(thing),
    "a_dict": lambda user, thing: user.a_dict.update(key=thing),
    "a_deque": lambda user, thing: user.a_deque.append(thing),
    "a_set": lambda user, thing: user.a_set.add(thing),
    "nested": lambda user, thing: user.nested["first"][0]["second"].append(thing),
    "an_object.things": lambda user, thing: user.an_object.things.append(thing),
    "an_object.latest": lambda user, thing: setattr(user.an_object, "latest", thing),
    "an_object.inner": lambda user, thing: setattr(user.an_object.inner, "latest", thing),
    "class Registry": lambda user, thing: user.Registry.things.append(thing),
    "a default argument of with_default": lambda user, thing: user.with_default().append(thing),
    "a default argument of with_keyword": lambda user, thing: user.with_keyword().update(key=thing),
    "an attribute of with_attribute": lambda user, thing: user.with_attribute.memo.append(thing),
}


@pytest.mark.parametrize("name", KEEP)
def test_what_holds_an_object_is_told_by_its_name(user: ModuleType, name: str) -> None:
    """A module's containers, nested ones too, attributes of a named object, of a class and of a function, defaults."""
    KEEP[name](user, user.Thing())
    found = holders.holder_of(next(one for one in gc.get_objects() if type(one) is user.Thing))
    assert (found.name, found.library, found.passing) == (name, False, False)
    assert found.where.partition(":")[0] == "holds.py"


def test_the_chain_leads_from_the_object_to_its_holder(user: ModuleType) -> None:
    """Types only, the object's first and the module's namespace last."""
    user.nested["first"][0]["second"].append(user.Thing())
    found = holders.holder_of(user.nested["first"][0]["second"][0])
    assert found.chain == ("Thing", "deque", "dict", "list", "dict", "dict")


@pytest.mark.parametrize("name", ["a_list", "a_set"])
def test_the_line_is_the_modules_own_assignment(user: ModuleType, name: str) -> None:
    """A local variable of the same name further up, of a function or a comprehension, is passed over."""
    KEEP[name](user, user.Thing())
    found = holders.holder_of(next(iter(getattr(user, name))))
    assert found.where == line("a_list, a_dict, a_deque")


def test_a_name_that_a_function_declares_is_found_where_it_is_declared(user: ModuleType) -> None:
    """A global that no line of the module itself assigns."""
    user.declares()
    found = holders.holder_of(user.declared[0])
    assert (found.name, found.where) == ("declared", line("# declared"))


def test_a_function_cache_is_told_by_its_function(user: ModuleType) -> None:
    """Where it is defined, with its decorator."""
    found = holders.holder_of(user.remembered(1))
    assert (found.name, found.where) == ("the lru_cache of remembered", line("@lru_cache"))


def test_a_cache_around_a_method_is_told_by_the_method(user: ModuleType) -> None:
    """A cache that an object makes for itself."""
    found = holders.holder_of(user.service.answer(1))
    assert (found.name, found.where) == ("the lru_cache of Service.answer", line("# a method"))


def test_a_closure_is_told_by_its_variable(user: ModuleType) -> None:
    """The function that closes over it, at its first line."""
    user.closures.append(user.closes_over(user.Thing()))
    found = holders.holder_of(user.closures[0]())
    assert (found.name, found.where) == ("thing, which closes_over.<locals>.inside closes over", line("# closes over"))


def test_a_suspended_generator_holds_by_its_frame(user: ModuleType) -> None:
    """The local variable and the line where the generator waits."""
    waiting = user.suspended()
    found = holders.holder_of(next(waiting))
    assert (found.name, found.where) == ("local in the running suspended", line("# suspended"))


def test_a_call_of_another_thread_holds_while_it_runs(user: ModuleType) -> None:
    """The local variable of a call that has not ended."""
    here: list[Any] = []
    leave = threading.Event()
    thread = threading.Thread(target=user.waits, args=(here, leave))
    thread.start()
    while not here:
        leave.wait(0.001)
    found = holders.holder_of(here.pop())
    leave.set()
    thread.join()
    assert (found.name, found.where) == ("local in the running waits", line("# waits"))


def kept_error(user: ModuleType) -> ValueError:
    try:
        user.fails()
    except ValueError as error:
        return error
    raise AssertionError


def test_a_kept_frame_is_told_by_who_keeps_it(user: ModuleType) -> None:
    """The list of exceptions, whose traceback has the frame of a call that ended."""
    user.a_list.append(kept_error(user))
    found = holders.holder_of(user.a_list[0].__traceback__.tb_next.tb_frame.f_locals["local"])
    assert found.name == "a_list"
    assert "frame" in found.chain


def test_a_kept_frame_is_told_where_nobody_with_a_name_keeps_it(user: ModuleType) -> None:
    """An exception that refers to itself: its call is the best there is to say."""
    error = kept_error(user)
    error.args = (error,)
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_next is not None
    thing = error.__traceback__.tb_next.tb_frame.f_locals["local"]
    error.__traceback__ = error.__traceback__.tb_next  # without this test's own frames
    del error
    found = holders.holder_of(thing)
    assert (found.name, found.passing) == ("local in the kept frame of fails", True)


def test_a_cycle_without_a_name_has_no_holder(user: ModuleType) -> None:
    """Two objects that hold each other, and nobody holds them."""
    assert holders.holder_of(user.cycle()) is None


def test_a_library_is_told_where_nobody_else_holds(user: ModuleType, library: ModuleType) -> None:
    """By its own name and line, as a library."""
    library.kept.append(user.Thing())
    found = holders.holder_of(library.kept[0])
    assert (found.name, found.where, found.library) == ("kept", "keeps.py:1", True)


def test_the_users_code_goes_before_a_library(user: ModuleType, library: ModuleType) -> None:
    """The library is nearer to the object, and yet the user's list is told."""
    library.kept.append(user.Thing())
    user.nested["first"][0]["second"].append([[library.kept[0]]])
    found = holders.holder_of(library.kept[0])
    assert (found.name, found.library) == ("nested", False)


def test_a_module_that_was_imported_anew_does_not_lend_its_name(
    user: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace of a module that another one has replaced is not told as the new one's."""
    user.a_list.append(user.Thing())
    thing = user.a_list[0]
    monkeypatch.setitem(sys.modules, "holds", ModuleType("holds"))
    found = holders.holder_of(thing)
    assert found is None or found.name != "a_list"


class TestHostile:
    """Objects that raise whatever is asked of them; any of it would end the search."""

    @pytest.mark.parametrize("name", ["a_list", "a_dict", "nested", "an_object.latest", "class Registry"])
    def test_a_hostile_object_is_not_asked(self, user: ModuleType, name: str) -> None:
        """As the object whose holder is looked for."""
        KEEP[name](user, user.Hostile())
        target = next(one for one in gc.get_objects() if type(one) is user.Hostile and one is not user.hostile)
        assert holders.holder_of(target).name == name

    @pytest.mark.parametrize("name", ["hostile", "masked"])
    def test_a_hostile_holder_is_not_asked(self, user: ModuleType, name: str) -> None:
        """As a named object that holds another one: its attributes are read past what its class puts in their place."""
        thing = user.Thing()
        object.__setattr__(getattr(user, name), "held", thing)
        assert holders.holder_of(thing).name == f"{name}.held"

    def test_a_hostile_neighbour_is_not_asked(self, user: ModuleType) -> None:
        """In the same list, dictionary and closure as the object."""
        user.a_dict.update(first=user.hostile, second=user.Thing())
        assert holders.holder_of(user.a_dict["second"]).name == "a_dict"

    def test_a_weak_proxy_is_not_asked(self, user: ModuleType) -> None:
        """On the way up: it passes every question on to its object, even that for its class."""
        thing = user.Thing()
        user.a_list.append(weakref.proxy(user.hostile, functools.partial(print, thing)))
        found = holders.holder_of(thing)
        assert found.name == "a_list"
        assert weakref.ProxyType.__name__ in found.chain

    def test_counting_types_asks_nothing(self, user: ModuleType) -> None:
        """Full names of types, without a hash or a comparison of the objects."""
        assert holders.types_of([user.Hostile(), user.Hostile(), 1]) == {"holds.Hostile": 2, "builtins.int": 1}
