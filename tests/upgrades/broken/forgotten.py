"""A module that imports a package which no pins have. Doubles f32[256, 256]."""

from __future__ import annotations

from typing import Any

import tokens_of_another_team  # type: ignore[import-not-found]  # the fault

from .blocks import double, doubled


def custom(x: Any) -> Any:
    return doubled(double, name=tokens_of_another_team.NAME)(x)
