"""How little scoped VMEM does the program compile with? A part of the `schedule` check, asked of kernels alone."""

from __future__ import annotations

from .. import artefacts, compiler, vmem
from ..emit import Observed
from ..faults import NotHereError
from ..subject import Subject


def probe(subject: Subject) -> Observed:
    """Nothing of a program without a kernel: XLA fits its fusions into whatever it is given."""
    with compiler.compiling_for(subject.cell.target) as sharding:
        lowered = subject.program(sharding)
        if not artefacts.kernel_bodies(lowered.as_text()):
            return Observed("observed")
        try:
            return Observed("observed", data=vmem.need(lowered))
        except NotHereError as reason:
            return Observed("observed", data={"vmem_note": str(reason)})
