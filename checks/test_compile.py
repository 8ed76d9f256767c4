"""Does the target's compiler accept it?"""

from __future__ import annotations

from collections.abc import Callable


def test_compile(ask_worker: Callable[[], None]) -> None:
    ask_worker()
