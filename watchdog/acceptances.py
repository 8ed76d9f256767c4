"""Changes that somebody declared intended: which verdict, at which figure, why, by whom and until when.

They stand in `watchdog.accepted.toml` beside the configuration, so that they are reviewed and merged with the change
itself, and hold in every clone.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from watchdog.model import Figure


@dataclass(frozen=True)
class Acceptance:
    """One accepted verdict."""

    verdict: str  # its id
    reason: str
    by: str
    on: datetime.date
    until: datetime.date | None  # the last day on which it holds; None: without end
    kind: str | None
    figure: Figure | None  # what was accepted; it expires when the figure moves beyond this interval
    expired: str | None = None  # why it no longer holds, in the view of a run; None while it does
