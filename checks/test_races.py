"""Do its copies and cores race?"""

from __future__ import annotations

from .conftest import Ask
from .probes.races import probe


def test_races(ask_in_child: Ask) -> None:
    ask_in_child(probe)
