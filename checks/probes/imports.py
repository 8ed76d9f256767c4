"""Does the implementation import, and with which warnings?"""

from __future__ import annotations

import time
import warnings
from typing import Any

from .. import loading
from ..emit import Observed
from ..faults import at, short_path
from ..subject import Subject


def probe(subject: Subject) -> Observed:
    name = subject.plan.kernel.implementations[subject.plan.implementation]
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, at("import"):
        warnings.simplefilter("default")
        loading.implementation(subject.plan.kernel, subject.plan.implementation)
    module, _, function = name.partition(":")
    return Observed(
        "observed",
        data={
            "module": module,
            "function": function,
            "seconds": time.perf_counter() - began,
            "warnings": described(caught),
        },
    )


def described(caught: list[warnings.WarningMessage]) -> list[dict[str, Any]]:
    """Warnings as data: category, message and place, each once."""
    entries = {
        (warning.category.__name__, str(warning.message), f"{short_path(warning.filename)}:{warning.lineno}")
        for warning in caught
    }
    return [dict(zip(("category", "message", "where"), entry, strict=True)) for entry in sorted(entries)]
