"""Deprecation and future warnings: which of them are new against the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchdog.judges.view import View, records
from watchdog.judges.wording import one_line

_ANNOUNCING = ("DeprecationWarning", "FutureWarning", "PendingDeprecationWarning")


def new_warnings(view: View, key: str) -> list[str]:
    """The messages under `key` that announce a change; where there is a baseline, only those that it does not give."""
    known = _messages(view.before.data, key) if view.before else []
    return [message for message in _messages(view.data, key) if message not in known]


def warnings_text(view: View, messages: list[str]) -> str | None:
    """The first message and how many there are; None when there is none."""
    if not messages:
        return None
    against = f"new against {view.against}" if view.before else "given"
    plural = "" if len(messages) == 1 else "s"
    return f"{len(messages)} deprecation{plural} {against}: {one_line(messages[0])}"


def _messages(data: Mapping[str, Any], key: str) -> list[str]:
    """Distinct messages in their order."""
    said = [str(item.get("message", "")) for item in records(data, key) if item.get("category") in _ANNOUNCING]
    return list(dict.fromkeys(said))
