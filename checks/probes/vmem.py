"""How little scoped VMEM does the program compile with? A part of the `schedule` check, asked of kernels alone."""

from __future__ import annotations

from typing import Any

from .. import artefacts, compiler, vmem
from ..emit import Observed
from ..faults import NotHereError
from ..subject import Subject


def probe(subject: Subject) -> Observed:
    """Nothing of a program without a kernel: XLA fits its fusions into whatever it is given."""
    with compiler.compiling_for(subject.cell.target) as sharding:
        lowered = subject.program(sharding)
        return Observed("observed", data={**_need(lowered), "traced_here": subject.key in subject.made.traced_here})


def _need(lowered: Any) -> dict[str, Any]:
    if not artefacts.kernel_bodies(lowered.as_text()):
        return {}
    try:
        return vmem.need(lowered)
    except NotHereError as reason:
        return {"vmem_note": str(reason)}
