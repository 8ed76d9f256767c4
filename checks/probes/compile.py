"""Does the target's own compiler accept it, and how much memory will the program take?"""

from __future__ import annotations

import time

from .. import artefacts, compiler
from ..emit import Observed
from ..faults import at
from ..subject import Subject


def probe(subject: Subject) -> Observed:
    with compiler.compiling_for(subject.cell.target) as sharding:
        lowered = subject.program(sharding)
        began = time.perf_counter()
        with at("compile"):
            compiled = lowered.compile()
        seconds = time.perf_counter() - began
    return Observed(
        "observed",
        data={
            **artefacts.memory(compiled),
            "flops": artefacts.flops(compiled),
            "fingerprint": artefacts.fingerprint(compiled.as_text() or ""),
            "seconds": seconds,
        },
    )
