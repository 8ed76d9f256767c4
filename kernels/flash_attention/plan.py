"""Everything about a call that is fixed when it is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from .blocks import BlockSizes
from .mask import Mask


@dataclass(frozen=True)
class Plan:
    """Compared by value, so that equal calls share one compilation."""

    scale: float
    mask: Mask

    @property
    def blocks(self) -> BlockSizes:
        return self.mask.blocks
