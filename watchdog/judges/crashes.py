"""A process that died: the line of its log that says why, among many that do not."""

from __future__ import annotations

import re

from watchdog.judges.fault_texts import quote
from watchdog.judges.wording import one_line
from watchdog.model import Fault

# F1201 14:30:05.328235     642 static_6bf72d463e_power_throttler.cc:645] Unexpected instruction for this chip: …
_FATAL = re.compile(r"^F\d{4} [\d:.]+\s+\d+ (?P<file>[\w./-]+):(?P<line>\d+)\] (?:RAW: )?(?P<why>.+)", re.MULTILINE)
_HASH = re.compile(r"^(?:static_)?[0-9a-f]{9,}_")
_OTHERS = (
    re.compile(r"^\s*(what\(\): .+)", re.MULTILINE),
    re.compile(r"^(LLVM ERROR: .+)", re.MULTILINE),
    re.compile(r"^([^\n]*Assertion [^\n]* failed[^\n]*)", re.MULTILINE),
    re.compile(r"^\**\s*(SIG\w+) (?:\(@|received)", re.MULTILINE),
    re.compile(r"^(Fatal Python error: .+)", re.MULTILINE),
)
_LONGEST = 200


def died(fault: Fault, log: str) -> str:
    """How the process died, and why, as far as its log tells."""
    why = reason(log)
    return f"its process died ({one_line(fault.kind)}): {why}" if why else f"its process died: {quote(fault)}"


def reason(log: str) -> str | None:
    """The check that failed in the compiler with the compiler's own file; else the first line that says anything."""
    if fatal := _FATAL.search(log):
        file = _HASH.sub("", fatal["file"].rpartition("/")[2])
        return f"the compiler gave up at {file}:{fatal['line']}: {one_line(fatal['why'], _LONGEST)}"
    found = (pattern.search(log) for pattern in _OTHERS)
    return next((one_line(match[1], _LONGEST) for match in found if match), None)
