"""Does it keep memory from call to call?"""

from __future__ import annotations

from .conftest import Ask
from .probes.memory import probe


def test_memory(ask_in_child: Ask) -> None:
    ask_in_child(probe)
