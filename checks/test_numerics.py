"""Is it right?"""

from __future__ import annotations

from .conftest import Ask
from .probes.numerics import probe


def test_numerics(ask_in_child: Ask) -> None:
    ask_in_child(probe)
