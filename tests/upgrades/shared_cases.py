from __future__ import annotations

from pathlib import Path

from tests.upgrades.expectations import Watched


def shared_cases(folder: Path) -> tuple[Watched, ...]:
    return ()
