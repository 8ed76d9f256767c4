"""Does the implementation import?"""

from __future__ import annotations

from .conftest import Ask
from .probes.imports import probe


def test_import(ask: Ask) -> None:
    ask(probe)
