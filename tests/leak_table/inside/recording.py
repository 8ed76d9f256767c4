"""Writes down how each cell's test ended, as it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.leak_table.inside.cell_requests import Batch

_current: list[Recorder] = []


class Recorder:
    """A pytest plugin: gives the tests their cells, and writes down how each ended."""

    def __init__(self, batch: Batch, results: Path) -> None:
        self.batch, self.results = batch, results
        self.calls = 0  # that the running test makes; it says so itself
        self.ended: dict[str, Any] = {}
        self.done = _done(results)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _number(item) not in self.done]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        self._write({"number": _number(item), "begun": True})
        self.calls, self.ended = 0, {"outcome": "passed"}
        began = time.perf_counter()
        yield
        self._write(
            {"number": _number(item), **self.ended, "calls": self.calls, "seconds": time.perf_counter() - began}
        )

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        report = (yield).get_result()
        if report.outcome == "passed":
            return
        error = call.excinfo
        self.ended = {
            "outcome": report.outcome,
            "kind": error.typename if error is not None else None,
            "text": str(error.value) if error is not None else str(report.longrepr),
            "sections": [list(section) for section in report.sections],
        }

    def _write(self, line: dict[str, Any]) -> None:
        with self.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _done(results: Path) -> set[int]:
    """The cells that have been answered by an earlier process, or that killed it."""
    if not results.exists():
        return set()
    return {json.loads(line)["number"] for line in results.read_text(encoding="utf-8").splitlines()}


def _number(item: pytest.Item) -> int:
    """Tests are named by their cell: `test_7`, or `test_cell[7]`."""
    return int("".join(filter(str.isdigit, item.name)))


def start(batch: Batch, results: Path) -> Recorder:
    """The recorder of this process, which the tests find by `current` while they are collected."""
    _current.append(Recorder(batch, results))
    return _current[-1]


def current() -> Recorder:
    """The recorder that `start` made."""
    return _current[-1]
