"""import: does the implementation import, and with which warnings that the baseline does not give."""

from __future__ import annotations

from watchdog.judges.view import View
from watchdog.judges.warned import new_warnings, warnings_text
from watchdog.judges.wording import sentence
from watchdog.model import Status, Verdict


def judge(view: View) -> list[Verdict]:
    """Pass, for an import that ended is the answer; new deprecations are named, since they announce the next break."""
    new = new_warnings(view, "warnings")
    return [
        view.verdict(
            Status.PASS,
            sentence(["imports", warnings_text(view, new)]),
            kind="new warnings" if new and view.against else None,
        )
    ]
