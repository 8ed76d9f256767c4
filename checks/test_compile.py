"""Does the target's compiler accept it?"""

from __future__ import annotations

from collections.abc import Callable


def test_compile(ask_compiler: Callable[[], None]) -> None:
    ask_compiler()
