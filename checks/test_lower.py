"""Does it lower for the target?"""

from __future__ import annotations

from .conftest import Ask
from .probes.lower import probe


def test_lower(ask: Ask) -> None:
    ask(probe)
