"""The `checks/` folder as an environment loads it: a private package, by path, under a name of its own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from watchdog.rooms import room

PACKAGE = "_watchdog_checks"


def checks(module: str) -> ModuleType:
    """A module of `checks/`, for example `checks("probes.memory")`; the same one at every call."""
    if PACKAGE not in sys.modules:
        _load_package()
    return importlib.import_module(f"{PACKAGE}.{module}")


def _load_package() -> None:
    folder = room("checks")
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
