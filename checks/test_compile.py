"""Does the target's compiler accept it?"""

from __future__ import annotations

from .conftest import Ask
from .probes.compile import probe


def test_compile(ask: Ask) -> None:
    ask(probe)
