"""How is it scheduled?"""

from __future__ import annotations

from .conftest import Ask
from .probes.schedule import probe


def test_schedule(ask: Ask) -> None:
    ask(probe)
