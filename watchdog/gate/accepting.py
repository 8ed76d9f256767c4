"""From a verdict that somebody names to an acceptance of it."""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watchdog.acceptances import Acceptance
from watchdog.errors import UsageError
from watchdog.model import Figure, Status
from watchdog.redaction import plain
from watchdog.store import reader
from watchdog.store.engine import Store


@dataclass(frozen=True)
class Named:
    """What of a verdict is accepted."""

    id: str
    status: str
    kind: str | None
    figure: Figure | None


def in_store(store: Store, name: str) -> Named:
    """The verdict with this id in the latest run that has it. Raises UsageError when none has."""
    known: list[str] = []
    for one in reader.runs(store):
        verdicts = reader.verdicts(store, one.id)
        for verdict in verdicts:
            if verdict.id == name:
                return Named(verdict.id, verdict.status.value, verdict.kind, verdict.figure)
        known = known or [verdict.id for verdict in verdicts if verdict.status is Status.REGRESSED]
    raise _unknown(name, known, store.name)


def in_document(path: Path, name: str) -> Named:
    """The verdict with this id in what `--json` wrote. Raises UsageError when it is not there, or no such document."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        verdicts = [_named(one) for one in _verdicts(document)]
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--from {path}: it cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError(msg) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"--from {path}: this is not what `watchdog gate --json` or `watchdog run --json` writes"
        raise UsageError(msg) from error
    found = next((one for one in verdicts if one.id == name), None)
    if found is None:
        raise _unknown(name, [one.id for one in verdicts if one.status == Status.REGRESSED.value], str(path))
    return found


def acceptance(named: Named, reason: str, by: str, today: datetime.date, until: datetime.date | None) -> Acceptance:
    """Raises UsageError when there is nothing to accept, no reason, or the last day is past."""
    if named.status != Status.REGRESSED.value:
        msg = f"{named.id} is {named.status}, and only what regressed can be accepted"
        raise UsageError(msg)
    if not plain(reason).strip():
        msg = "--reason: say why the change is intended"
        raise UsageError(msg)
    if until is not None and until < today:
        msg = f"--until {until.isoformat()}: that day is past"
        raise UsageError(msg)
    return Acceptance(named.id, " ".join(reason.split()), " ".join(by.split()), today, until, named.kind, named.figure)


def _verdicts(document: Any) -> Sequence[Any]:
    if "verdicts" in document:
        return list(document["verdicts"])
    return [one["verdict"] for one in document["judged"]]


def _named(one: Any) -> Named:
    return Named(one["id"], one["status"], one["kind"], None if one["figure"] is None else _figure(one["figure"]))


def _figure(figure: Any) -> Figure | None:
    numbers = [figure[part] for part in ("value", "low", "high")]
    if None in numbers:  # not a finite number
        return None
    value, low, high = map(float, numbers)
    return Figure(value, low, high, figure["unit"])


def _unknown(name: str, known: Sequence[str], where: str) -> UsageError:
    near = difflib.get_close_matches(name, known, 1, cutoff=0.3) or list(known[:1])
    hint = f"; did you mean {near[0]}?" if near else "; nothing there regressed"
    return UsageError(f"there is no verdict {name} in {where}{hint}")
