"""Does it lower for the target?"""

from __future__ import annotations

from collections.abc import Callable


def test_lower(ask_compiler: Callable[[], None]) -> None:
    ask_compiler()
