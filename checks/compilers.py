"""The two children that compile: one plainly, one with the compiler's dump on.

libtpu reads its flags once in a process, so that the dump needs a process of its own; and a dump may abort where
compiling works. Both serve all cells of the plan in turn, since starting a compiler takes longer than using it.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import compiler, dump, toolchain
from .emit import Observed
from .isolation import Worker
from .plan import PlannedCell

_FAULTS = ("failed", "crashed")
_UNANSWERED = ("failed", "skipped")


class Compilers:
    """Asks the children. `compile_plainly` and `compile_with_dump` are what they do with a cell, by its number."""

    def __init__(
        self,
        scratch: Path,
        compile_plainly: Callable[[int], Observed],
        compile_with_dump: Callable[[int, bool], Observed],
    ) -> None:
        self._scratch, self._compile_plainly, self._compile_with_dump = scratch, compile_plainly, compile_with_dump
        self._plain, self._dumping = Worker(self._answer), Worker(self._dump)
        self._fits: dict[str, dict[str, Any]] = {}  # by target: what the toolchain does with a trivial kernel

    def end(self) -> None:
        """Let both go, and free what they hold, a device perhaps."""
        self._plain.end()
        self._dumping.end()

    def ask(self, cell: PlannedCell) -> Observed:
        """The answer to `import`, `lower` or `compile`; with a fault, whether a trivial kernel has it as well."""
        observed = self._plain.ask(cell.number)
        if observed.outcome in _FAULTS and cell.target.startswith("tpu:"):
            self._plain.end()  # after one error libtpu may die over the next program (0.0.20 under jax 0.8.3)
            return replace(observed, data={**observed.data, "toolchain": self._toolchain(cell.target)})
        return observed

    def schedule(self, cell: PlannedCell) -> Observed:
        """The schedule of a program that compiles, and how little VMEM it compiles with."""
        need = self._plain.ask(cell.number)
        if need.outcome in _UNANSWERED:
            return need
        # What computes while it is traced must not have that compiled by a compiler that dumps.
        compiled = self._dumping.ask([cell.number, need.data.get("traced_here", False)])
        try:
            return self._read(cell.target, compiled, need)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self, target: str, compiled: Observed, need: Observed) -> Observed:
        if compiled.outcome in _UNANSWERED:
            return compiled
        granule = compiler.GRANULES[target.removeprefix("tpu:")]
        found = dump.read(self._folder, granule) if self._folder.exists() else dump.Schedule([], complete=False)
        if compiled.outcome == "crashed" and compiled.fault is not None:
            found = found.with_note(f"the compiler died while it wrote its dump ({compiled.fault.kind})")
        if not found.programs:
            libtpu = importlib.metadata.version("libtpu")
            reason = f"libtpu {libtpu} wrote no schedule: {'; '.join(found.notes) or 'nothing in its dump'}"
            return Observed("skipped", reason=reason)
        return Observed("observed", data={**found.to_json(), **_vmem(need)})

    def _toolchain(self, target: str) -> dict[str, Any]:
        if target not in self._fits:
            found = self._plain.ask({"toolchain": target})
            died = {"fits": False, "error": f"the compiler died: {found.fault.kind}"} if found.fault else {}
            self._fits[target] = {**toolchain.versions(), **found.data, **died}
        return self._fits[target]

    def _answer(self, question: Any) -> Observed:
        """In the plain child."""
        if isinstance(question, int):
            return self._compile_plainly(question)
        return Observed("observed", data=toolchain.fits(question["toolchain"]))

    def _dump(self, question: Any) -> Observed:
        """In the other one."""
        number, traced_here = question
        self._folder.mkdir(exist_ok=True)
        compiler.dump_to(self._folder)
        return self._compile_with_dump(number, traced_here)

    @property
    def _folder(self) -> Path:
        return self._scratch / compiler.DUMP


def _vmem(need: Observed) -> dict[str, Any]:
    """What was found of the program's VMEM, or why nothing was."""
    if need.fault is not None:
        return {"vmem_note": f"the compiler died when it was given less VMEM: {need.fault.kind}"}
    return {key: value for key, value in need.data.items() if key.startswith("vmem")}
