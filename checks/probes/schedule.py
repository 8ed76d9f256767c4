"""How is the compiled program scheduled? Compiled once more, where the compiler writes its dump."""

from __future__ import annotations

from .. import compiler
from ..emit import Observed
from ..faults import at
from ..subject import Subject


def probe(subject: Subject) -> Observed:
    """Compiles and leaves the reading of the dump to `compilers.Compilers`."""
    with compiler.compiling_for(subject.cell.target) as sharding:
        lowered = subject.program(sharding)
        for written_before in (subject.plan.scratch / compiler.DUMP).iterdir():
            written_before.unlink()
        with at("compile"):
            lowered.compile()
    return Observed("observed")
