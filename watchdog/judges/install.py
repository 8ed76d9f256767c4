"""install: do the pins resolve and install, and what changed against the baseline."""

from __future__ import annotations

from watchdog.judges.view import View, quantity
from watchdog.judges.wording import changes_text, sentence
from watchdog.model import Figure, Status, Verdict


def judge(view: View) -> list[Verdict]:
    """Pass: an installation that ended is the answer. What changed is said, not judged."""
    count = _package_count(view)
    figure = None if count is None else Figure.exact(count, "packages")
    installed = "installed" if count is None else f"{count:.0f} packages installed and verified"
    return [view.verdict(Status.PASS, sentence([installed, _changed(view)]), figure=figure)]


def _package_count(view: View) -> float | None:
    return len(view.environment.packages) if view.environment else quantity(view.data, "verified")


def _changed(view: View) -> str | None:
    if view.is_baseline:
        return "this is the baseline"
    if view.changes is None:
        return None
    if not view.changes:
        return f"the same packages as {view.baseline_pins}"
    return f"changed since {view.baseline_pins}: {changes_text(view.changes, limit=6)}"
