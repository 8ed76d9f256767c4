"""Does the implementation import?"""

from __future__ import annotations

from collections.abc import Callable


def test_import(ask_compiler: Callable[[], None]) -> None:
    ask_compiler()
