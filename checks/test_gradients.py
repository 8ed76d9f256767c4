"""Are its gradients right?"""

from __future__ import annotations

from .conftest import Ask
from .probes.gradients import probe


def test_gradients(ask_in_child: Ask) -> None:
    ask_in_child(probe)
