"""Who keeps an object alive: from the object up through its referrers, until something has a name in code.

Nothing of the objects under watch is called: no repr, no comparison, no hash; they are known by identity and type.
"""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .caches import LRU, function_of
from .faults import is_library, is_machinery, short_path

DEEPEST = 12  # steps from the object
MOST_NODES = 400
SECONDS = 1.0
WIDEST = 60  # referrers of one object that are followed
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_HERE = __name__


@dataclass(frozen=True)
class Holder:
    """What keeps an object alive: its name and place, and the steps from the object up to it.

    `passing` is a frame that something else keeps, whose name says more where it has one.
    """

    name: str
    where: str | None
    chain: tuple[str, ...]
    library: bool
    passing: bool = False

    @property
    def rank(self) -> tuple[bool, bool]:
        """The user's before a library's, what lasts before what only passes on; the lowest says most."""
        return self.library, self.passing


@dataclass(frozen=True)
class _Step:
    """One object on the way up, and the one below it that it refers to."""

    held: Any
    below: _Step | None
    depth: int

    def chain(self) -> tuple[str, ...]:
        """Types from the object up."""
        steps: list[str] = []
        one: _Step | None = self
        while one is not None:
            steps.append(type(one.held).__name__)
            one = one.below
        return tuple(reversed(steps))


def types_of(objects: Iterable[Any]) -> Counter[str]:
    """How many there are of each type, by its full name."""
    return Counter(map(type_name, objects))


def type_name(one: Any) -> str:
    """The full name of an object's type."""
    return f"{type(one).__module__}.{type(one).__qualname__}"


def holder_of(target: Any) -> Holder | None:
    """The nearest named holder, one in the user's code before one in a library's; None when nothing named holds it.

    Frozen objects are invisible to the collector's search: call it when nothing is frozen.
    """
    best: Holder | None = None
    for found in _named(target):
        if found.rank == (False, False):
            return found
        best = found if best is None or found.rank < best.rank else best
    return best


def _named(target: Any) -> Iterator[Holder]:
    """Every named holder on the way up, nearest first."""
    give_up = time.monotonic() + SECONDS
    seen = {id(target)}
    waiting = deque([_Step(target, None, 0)])
    running = _running_elsewhere()
    nodes = 0
    while waiting and nodes < MOST_NODES and time.monotonic() < give_up:
        step = waiting.popleft()
        nodes += 1
        referrers = gc.get_referrers(step.held)
        ours = {id(referrers), id(waiting), id(seen), id(step), id(step.__dict__)}
        holding = [*referrers[: WIDEST + len(ours)], *running.get(id(step.held), ())]
        ours.add(id(holding))
        for referrer in holding:
            if id(referrer) in seen or id(referrer) in ours or _is_ours(referrer):
                continue
            seen.add(id(referrer))
            next_step = _Step(referrer, step, step.depth + 1)
            named = _name(next_step)
            if named is not None:
                yield named
            if (named is None or named.passing) and step.depth + 1 < DEEPEST:
                waiting.append(next_step)
        del referrers, holding


def _running_elsewhere() -> dict[int, list[types.FrameType]]:
    """Calls that run in other threads, by the identities of their local values: the collector does not see them."""
    found: dict[int, list[types.FrameType]] = {}
    for thread, top in _threads():
        frame = None if thread == threading.get_ident() else top
        while frame is not None:
            if frame.f_locals is not frame.f_globals:
                for value in frame.f_locals.values():
                    found.setdefault(id(value), []).append(frame)
            frame = frame.f_back
    return found


def _threads() -> Iterable[tuple[int, types.FrameType | None]]:
    """The innermost call of each thread."""
    return sys._current_frames().items()  # noqa: SLF001  # documented, and the only way to other threads' frames


def _is_ours(referrer: Any) -> bool:
    """Frames and values of this search and of the checks around it hold nothing of the user's."""
    if type(referrer) is types.FrameType:
        return is_machinery(referrer.f_code.co_filename) and referrer.f_globals.get("__name__") != "__main__"
    return type(referrer).__module__ == _HERE or (
        type(referrer) is types.GeneratorType and is_machinery(referrer.gi_code.co_filename)
    )


def _name(step: _Step) -> Holder | None:
    """The holder that an object is, if it has a name in code. Told by its type: `isinstance` asks its `__class__`."""
    held, below, kind = step.held, step.below.held if step.below else None, type(step.held)
    if kind is dict:
        return _of_namespace(held, below, step)
    if issubclass(kind, type):
        return Holder(
            f"class {held.__qualname__}", _file_of(held.__module__), step.chain(), _library_module(held.__module__)
        )
    if kind is types.FunctionType:
        return _of_function(held, below, step)
    if kind is LRU:
        return _of_cache(held, step)
    if kind is types.GeneratorType and held.gi_frame is not None:
        return _of_frame(held.gi_frame, below, step)
    if kind is types.FrameType:
        return _of_frame(held, below, step)
    return None


def _of_namespace(namespace: dict[Any, Any], below: Any, step: _Step) -> Holder | None:
    """A module's globals: the name that leads to what is below."""
    module = namespace.get("__name__")
    if type(module) is not str or getattr(sys.modules.get(module), "__dict__", None) is not namespace:
        return None
    name = next((key for key, value in list(namespace.items()) if value is below and type(key) is str), None)
    if name is None or _is_checks(module):
        return None
    file = _source(module)
    line = _first_assignment(file, name) if file else None
    where = None if file is None else f"{short_path(str(file))}:{line}" if line else short_path(str(file))
    return Holder(_path_below(name, step), where, step.chain(), _library_module(module))


def _path_below(name: str, step: _Step) -> str:
    """The name; with the attribute that leads on where the named thing is an object with one."""
    owner = step.below
    if owner is None or owner.below is None:
        return name
    space = _attributes(owner.held)
    inner = owner.below.held
    if inner is space and owner.below.below is not None:
        inner = owner.below.below.held
    attribute = next((key for key, value in list(space.items()) if value is inner and type(key) is str), None)
    return name if attribute is None else f"{name}.{attribute}"


def _attributes(held: Any) -> dict[Any, Any]:
    """An object's own dictionary, past whatever its class puts in its place; empty where it has none."""
    for kind in type(held).__mro__:
        slot = vars(kind).get("__dict__")
        if type(slot) is types.GetSetDescriptorType:
            found = slot.__get__(held)
            return found if type(found) is dict else {}
    return {}


def _of_function(function: types.FunctionType, below: Any, step: _Step) -> Holder | None:
    code = function.__code__
    if is_machinery(code.co_filename):
        return None
    where = f"{short_path(code.co_filename)}:{code.co_firstlineno}"
    cells = function.__closure__
    if cells is not None and cells is below and step.below is not None and step.below.below is not None:
        cell = step.below.below.held
        name = next((name for name, one in zip(code.co_freevars, cells, strict=False) if one is cell), "a variable")
        text = f"{name}, which {function.__qualname__} closes over"
        return Holder(text, where, step.chain(), is_library(code.co_filename))
    if function.__defaults__ is below or function.__kwdefaults__ is below:
        text = f"a default argument of {function.__qualname__}"
        return Holder(text, where, step.chain(), is_library(code.co_filename))
    if function.__dict__ is below or any(value is below for value in function.__dict__.values()):
        return Holder(f"an attribute of {function.__qualname__}", where, step.chain(), is_library(code.co_filename))
    return None


def _of_cache(cache: Any, step: _Step) -> Holder | None:
    function = function_of(cache)
    if function is None:
        return None
    code = function.__code__
    where = f"{short_path(code.co_filename)}:{code.co_firstlineno}"
    return Holder(f"the lru_cache of {function.__qualname__}", where, step.chain(), is_library(code.co_filename))


def _of_frame(frame: types.FrameType, below: Any, step: _Step) -> Holder | None:
    """A call that has not ended, of another thread or a generator; or one that has, and whose frame something keeps."""
    code = frame.f_code
    if is_machinery(code.co_filename):
        return None
    name = next((key for key, value in frame.f_locals.items() if value is below), "a local value")
    running = isinstance(step.held, types.GeneratorType) or _is_running(frame)
    state = "the running" if running else "the kept frame of"
    where = f"{short_path(code.co_filename)}:{frame.f_lineno}"
    text, library = f"{name} in {state} {code.co_name}", is_library(code.co_filename)
    return Holder(text, where, step.chain(), library, passing=not running)


def _is_running(frame: types.FrameType) -> bool:
    for _, top in _threads():
        one = top
        while one is not None:
            if one is frame:
                return True
            one = one.f_back
    return False


def _is_checks(module: str) -> bool:
    return module == "__main__" or module.partition(".")[0] == _HERE.partition(".")[0]


def _source(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if isinstance(file, str) else None


def _file_of(module: str) -> str | None:
    file = _source(module)
    return None if file is None else short_path(str(file))


def _library_module(module: str) -> bool:
    file = _source(module)
    return file is None or is_library(str(file))


def _first_assignment(file: Path, name: str) -> int | None:
    """The line of a module that first binds a name at its top level."""
    try:
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return next((line for line, bound in (*_bindings(module), *_globals(module)) if bound == name), None)


def _globals(module: ast.Module) -> Iterator[tuple[int, str]]:
    """What functions declare to be the module's."""
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            yield from ((node.lineno, name) for name in node.names)


def _bindings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """What a module binds at its top level, in order: line and name. What functions bind is their own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield child.lineno, child.name
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.lineno, child.id
        elif isinstance(child, ast.alias):
            yield child.lineno, child.asname or child.name
        elif not isinstance(child, _SCOPES):
            yield from _bindings(child)
