"""lower: does it lower for the target. The module's size and its deprecations are told, never judged."""

from __future__ import annotations

from watchdog.judges.view import View, quantity
from watchdog.judges.warned import new_warnings, warnings_text
from watchdog.judges.wording import bytes_text, number_text, percent_text, sentence
from watchdog.model import Figure, Status, Verdict


def judge(view: View) -> list[Verdict]:
    """Pass, for a lowering that ended is the answer. The figure is the size of the StableHLO text in bytes."""
    size = quantity(view.data, "stablehlo_bytes")
    new = new_warnings(view, "deprecations")
    parts = ["lowers", _module(view, size), view.nothing_to_compare(), warnings_text(view, new)]
    return [
        view.verdict(
            Status.PASS,
            sentence(parts),
            kind="new warnings" if new and view.before else None,
            figure=None if size is None else Figure.exact(size, "B"),
        )
    ]


def _module(view: View, size: float | None) -> str | None:
    """How the module compares with the baseline's."""
    before = view.before
    if before is not None and before.data.get("fingerprint") and _same(view, "fingerprint"):
        return f"identical module to {view.against}"
    if size is None:
        return None
    old = quantity(before.data, "stablehlo_bytes") if before else None
    if old is None:
        return f"module of {bytes_text(size)}"
    return f"module {number_text(old)} → {number_text(size)} B ({percent_text(size, old)})"


def _same(view: View, key: str) -> bool:
    return view.before is not None and view.data.get(key) == view.before.data.get(key)
