"""How long a gate may still take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Deadline:
    """A budget of seconds that runs from the moment it is made."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "began", self.clock())

    @property
    def left(self) -> float:
        """Seconds; never negative."""
        return max(0.0, self.seconds - (self.clock() - self.began))

    @property
    def is_over(self) -> bool:
        return self.left <= 0
