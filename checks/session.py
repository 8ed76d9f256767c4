"""One process inside a pinned environment: starts pytest over the plan's cells and records what each test observed."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_benchmark.plugin  # before a kernel's own folder may stand first on the import path

from . import compiler, pallas
from .compilers import Compilers
from .emit import Fault, Observed, Stream
from .faults import SENTENCE, at, observe
from .isolation import keep_from_children
from .plan import Plan, PlannedCell
from .probes import compile as compiling
from .probes import imports, lower, schedule, vmem
from .subject import Made, Subject

Probe = Callable[[Subject], Observed]

PLAINLY: dict[str, Probe] = {  # what the child answers that compiles without a dump
    "import": imports.probe,
    "lower": lower.probe,
    "compile": compiling.probe,
    "schedule": vmem.probe,
}
_AFTER_COMPILING = ("schedule", "timing")
LOG_TAIL = 16_384  # bytes of a cell's output that travel with its observation


class Session:
    """The plan at work. A pytest plugin: it makes one test of each planned cell."""

    def __init__(self, plan: Plan, stream: Stream) -> None:
        self.plan, self.stream = plan, stream
        self.answered: dict[tuple[str, str, str], Observed] = {}  # by check, case and target; not yet written down
        self.faults: dict[tuple[str, str, str], Fault] = {}  # of earlier questions
        self.made = Made()
        self.compilers = Compilers(plan.scratch, self._compile_plainly, self._compile_with_dump)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Each `test_<check>` runs once for each cell of that check."""
        check = metafunc.function.__name__.removeprefix("test_")
        cells = [cell for cell in self.plan.cells if cell.check == check]
        metafunc.parametrize("cell", cells, ids=[str(cell.number) for cell in cells])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Cells are asked in the order of the plan."""
        items.sort(key=lambda item: item.callspec.params["cell"].number)  # type: ignore[attr-defined]  # parametrized above

    def observe(self, cell: PlannedCell, probe: Probe) -> Observed:
        """The outcome of a probe in this process."""
        subject = Subject(self.plan, cell, self.made)

        def prepared() -> Observed:
            with at("import"):
                pallas.wrap_pallas_call()
            if cell.check != "import":
                subject.function()  # imported before a device is chosen: what a module computes then, it computes here
            return probe(subject)

        return observe(cell.check, self.plan.asked, subject.module, prepared)

    def _compile_plainly(self, number: int) -> Observed:
        cell = self._numbered(number)
        return self._answer(cell, PLAINLY[cell.check])

    def _compile_with_dump(self, number: int, traced_here: bool) -> Observed:
        cell = self._numbered(number)
        if traced_here:
            self.made.traced_here.add((cell.case, cell.target))
        return self._answer(cell, schedule.probe)

    def _numbered(self, number: int) -> PlannedCell:
        return next(cell for cell in self.plan.cells if cell.number == number)

    def _answer(self, cell: PlannedCell, probe: Probe) -> Observed:
        """In a child that compiles: one cell, with its output in the cell's own log."""
        with _output_to(self.plan.scratch / f"{cell.number}.log"):
            return self.observe(cell, probe)

    def record(self, cell: PlannedCell, probe: Callable[[], Observed]) -> Observed:
        """Run a probe with its output in the cell's own log, and write down how it ended.

        A cell that another one's probe answered as well is not asked again, nor one whose subject failed before it
        came so far.
        """
        answer = self.answered.pop((cell.check, cell.case, cell.target), None) or self._failed_before(cell)
        log = self.plan.scratch / f"{cell.number}.log"
        self.stream.started(cell.number)
        began = time.perf_counter()
        with _output_to(log):
            observed = answer or probe()
        self.stream.observed(cell.number, observed, tail(log), time.perf_counter() - began)
        self.answered.update({(check, cell.case, cell.target): other for check, other in observed.also.items()})
        if observed.fault is not None:
            self.faults[cell.check, cell.case, cell.target] = observed.fault
        return observed

    def _failed_before(self, cell: PlannedCell) -> Observed | None:
        """Skipped, when an earlier question about the same subject had a fault for its answer."""
        for check, case, target in (
            ("import", "", ""),
            ("lower", cell.case, cell.target),
            ("compile", cell.case, cell.target),
        ):
            needed = check == "import" or cell.check in _AFTER_COMPILING or (check, cell.check) == ("lower", "compile")
            if cell.check != check and needed and (fault := self.faults.get((check, case, target))):
                return Observed("skipped", reason=f"{SENTENCE[check]}: {fault.headline}")
        return None


class _output_to:  # noqa: N801  # used as a with-statement's word
    """File descriptors 1 and 2 go to a file, for this process and its children."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.kept = os.dup(1), os.dup(2)
        target = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(target, 1)
        os.dup2(target, 2)
        os.close(target)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, kept in zip((1, 2), self.kept, strict=True):
            os.dup2(kept, fd)
            os.close(kept)


def tail(log: Path) -> str:
    """The end of a log, as text whatever bytes it holds."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_TAIL))
        return file.read().decode("utf-8", errors="replace")


def run(document: dict[str, Any], record_fd: int, here: Path) -> int:
    """Ask every question of the plan in this process; returns pytest's exit status."""
    plan = Plan.from_json(document)
    stream = Stream(record_fd)
    faulthandler.enable()  # to descriptor 2, wherever that leads at the time
    os.environ.update(compiler.environment(plan.platform), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    keep_from_children(record_fd)
    session = Session(plan, stream)
    checks = dict.fromkeys(cell.check for cell in plan.cells)
    arguments = [
        f"--rootdir={here.parent}",
        "--import-mode=importlib",
        "--capture=no",
        "--quiet",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",  # it would keep the log that the process began with; ours speaks into the cell's own
        "-p",
        pytest_benchmark.plugin.__name__,
        "--benchmark-disable-gc",
        "--benchmark-quiet",
        "-c",
        os.devnull,
        *(str(here / f"test_{check}.py") for check in checks),
    ]
    if plan.kernel.path is not None:
        sys.path.insert(0, plan.kernel.path)
    status = pytest.main(arguments, plugins=[session])
    session.compilers.end()
    stream.ended()
    return status
