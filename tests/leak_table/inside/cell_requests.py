"""A cell's requests as the memory check makes them, so that every tool is shown the very same calls."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "_leak_table_checks"
WARM_UP = 10  # requests before anything is measured; the first compiles


class DoesNotApplyError(Exception):
    """The scenario cannot be asked of this function; the text says why."""


@dataclass(frozen=True)
class Request:
    """What is called again and again, what waits for calls still in flight, and the seconds that one call takes."""

    call: Callable[[], None]
    settle: Callable[[], None]
    seconds: float

    def within(self, budget: float, least: int, most: int) -> int:
        """How many calls fit into `budget` seconds, within bounds."""
        return max(least, min(most, int(budget / max(self.seconds, 1e-9))))


@dataclass(frozen=True)
class Batch:
    """The cells of one plan, in the order of their numbers."""

    plan: Any

    @classmethod
    def load(cls, file: Path, checks: Path) -> Batch:
        """Read a plan as `checks/` does; sets what jax must be told before it is imported."""
        _load_package(checks)
        plan = _module("plan").Plan.from_json(json.loads(file.read_text(encoding="utf-8")))
        os.environ.update(_module("compiler").environment(plan.platform))
        if plan.kernel.path is not None:
            sys.path.insert(0, plan.kernel.path)
        return cls(plan)

    @property
    def numbers(self) -> list[int]:
        return [cell.number for cell in self.plan.cells]

    @contextmanager
    def serving(self, number: int) -> Iterator[Request]:
        """The warmed-up requests of a cell. Raises DoesNotApplyError."""
        import jax  # noqa: PLC0415 - told by `load` what to do first

        cell = next(cell for cell in self.plan.cells if cell.number == number)
        subject = _module("subject").Subject(self.plan, cell)
        scenarios = _module("scenarios")
        _module("pallas").wrap_pallas_call()
        try:
            positional, keywords = subject.inputs()
            with _module("execution").plainly(subject).active():
                service = scenarios.Service(subject, subject.function(), jax.device_put(positional), keywords)
                with scenarios.serving(cell.scenario, service) as requests:
                    yield _warmed_up(requests)
        except _module("faults").NotHereError as reason:
            raise DoesNotApplyError(str(reason)) from reason


def _warmed_up(requests: Any) -> Request:
    requests.call()
    began = time.perf_counter()
    for _ in range(WARM_UP):
        requests.call()
    requests.settle()
    return Request(requests.call, requests.settle, (time.perf_counter() - began) / WARM_UP)


def _module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def _load_package(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
