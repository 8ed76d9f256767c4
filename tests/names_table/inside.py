"""Asks one release of jax for its public names and writes them as JSON into the file that is named. Runs inside an environment of that release.

The answer: `modules` (module → its names), `parameters` (callable → its parameters' names), `objects` (for each name
that is a function, a class or another object of jax's own: a number, the same for the same object), `definitions`
(name → where jax itself defines it), `deprecated` (name → what jax says of it), `removed` (the same, of names that
are no longer there) and `unread` (modules whose names nobody read).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import sys
import types
import warnings
from pathlib import Path
from typing import Any

LEFT_OUT = (  # tools, tests and what wants other packages
    "jax.tools",
    "jax.collect_profile",
    "jax.example_libraries",
    "jax.experimental.jax2tf",
    "jax.experimental.mosaic",
    "jax.experimental.slab",
    "jax.extend.mlir",
    "jax.test_util",
)
OF_CLASSES = {"jax.experimental.pallas", "jax.experimental.pallas.tpu", "jax.stages", "jax.sharding"}  # members, too

_kept: list[Any] = []  # a value that is gone leaves its number to the next one


def main() -> None:
    warnings.simplefilter("ignore")
    import jax  # noqa: PLC0415  # warnings are off by now

    answer: dict[str, Any] = {"release": jax.__version__, "unread": [*LEFT_OUT]}
    for kind in ("modules", "parameters", "objects", "definitions", "deprecated", "removed"):
        answer[kind] = {}
    for name in public_modules(jax):
        try:
            _tell(answer, name, importlib.import_module(name))
        except BaseException:  # noqa: BLE001  # it wants more than these requirements
            answer["unread"].append(name)
    with contextlib.suppress(ImportError, AttributeError):
        answer["modules"]["jax.Array"] = _members(importlib.import_module("jax._src.array").ArrayImpl)
    Path(sys.argv[1]).write_text(json.dumps(answer), encoding="utf-8")  # some modules print when they are imported


def public_modules(package: types.ModuleType) -> list[str]:
    """The package and all modules below it whose name has no part that is private."""
    found = [package.__name__]
    for _, name, is_package in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if "._" in name or name.startswith(LEFT_OUT) or name.endswith("_test"):
            continue
        found.append(name)
        if is_package:
            with contextlib.suppress(BaseException):
                found += public_modules(importlib.import_module(name))[1:]
    return found


def _tell(answer: dict[str, Any], name: str, module: types.ModuleType) -> None:
    deprecations = _deprecations(module)
    names = []
    for attribute in sorted({*dir(module), *deprecations}):
        if attribute.startswith("_"):
            continue
        path = f"{name}.{attribute}"
        message, instead = deprecations.get(attribute, (None, True))
        if instead is None:
            answer["removed"][path] = message
            continue
        if message:
            answer["deprecated"][path] = message
        value = getattr(module, attribute)
        names.append(attribute)
        if not _is_foreign(value):
            _tell_of_value(answer, path, value)
    answer["modules"][name] = names


def _tell_of_value(answer: dict[str, Any], path: str, value: Any) -> None:
    if _has_identity(value):
        _kept.append(value)
        answer["objects"][path] = id(value)
    where = _definition(value)
    if where:
        answer["definitions"][path] = where
    if callable(value) and not isinstance(value, types.ModuleType):
        parameters = _parameters(value)
        if parameters is not None:
            answer["parameters"][path] = parameters
    if isinstance(value, type) and path.rpartition(".")[0] in OF_CLASSES:
        answer["modules"][path] = _members(value)


def _members(owner: Any) -> list[str]:
    """Public attributes, dataclass fields and members of an enumeration."""
    known = {*dir(owner), *getattr(owner, "__dataclass_fields__", {}), *getattr(owner, "__members__", {})}
    return sorted(name for name in known if not name.startswith("_") and name not in dir(type))


def _deprecations(module: types.ModuleType) -> dict[str, tuple[str, Any]]:
    """Deprecated names and their messages: kept in the module, or in what its `__getattr__` closes over."""
    found: dict[str, tuple[str, Any]] = {}
    getter = vars(module).get("__getattr__")
    getter = getattr(getter, "__wrapped__", getter)
    cells = getattr(getter, "__closure__", None) or ()
    for candidate in (*(cell.cell_contents for cell in cells), vars(module).get("_deprecations")):
        if isinstance(candidate, dict):
            found.update({key: entry for key, entry in candidate.items() if _is_deprecation(key, entry)})
    return found


def _is_deprecation(key: Any, entry: Any) -> bool:
    return isinstance(key, str) and isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)


def _is_foreign(value: Any) -> bool:
    """Whether it came into the module from elsewhere than jax: then its other names are not jax's."""
    if isinstance(value, types.ModuleType):
        return not value.__name__.startswith("jax") or "._" in value.__name__
    owner = getattr(value, "__module__", None)
    if type(value).__name__ == "_Feature" or not isinstance(owner, str):
        return type(value).__name__ == "_Feature"
    return owner.partition(".")[0] in sys.stdlib_module_names and hasattr(value, "__qualname__")


def _has_identity(value: Any) -> bool:
    return not isinstance(value, (int, float, complex, str, bytes, tuple, frozenset, type(None), types.ModuleType))


def _definition(value: Any) -> str | None:
    """Where it is defined; of a method nothing, for two primitives have the same one."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or "<" in name or "." in name:
        return None
    return f"{module}:{name}"


def _parameters(value: Any) -> list[str] | None:
    with contextlib.suppress(Exception):
        given = inspect.signature(value).parameters.values()
        return [one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY)]
    return None


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
