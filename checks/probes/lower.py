"""Does the implementation lower for the target, and to what?"""

from __future__ import annotations

import time
import warnings

from .. import artefacts, compiler
from ..emit import Observed
from ..subject import Subject
from .imports import described

_DEPRECATIONS = (DeprecationWarning, FutureWarning, PendingDeprecationWarning)


def probe(subject: Subject) -> Observed:
    with compiler.compiling_for(subject.cell.target) as sharding:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lowered = subject.program(sharding)
        seconds = time.perf_counter() - began
        text = lowered.as_text()
    bodies = artefacts.kernel_bodies(text)
    return Observed(
        "observed",
        data={
            "stablehlo_bytes": len(text) - sum(len(body) for body in bodies) * 4 // 3,  # bodies are in base 64
            "mosaic_bytes": sum(len(body) for body in bodies),
            "custom_calls": text.count("stablehlo.custom_call"),
            "fingerprint": artefacts.fingerprint(text),
            "deprecations": described([w for w in caught if issubclass(w.category, _DEPRECATIONS)]),
            "seconds": seconds,
        },
    )
