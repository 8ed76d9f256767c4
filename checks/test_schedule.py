"""How is it scheduled?"""

from __future__ import annotations

from collections.abc import Callable


def test_schedule(ask_compiler: Callable[[], None]) -> None:
    ask_compiler()
