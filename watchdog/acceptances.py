"""Changes that somebody declared intended: which verdict, at which figure, why, by whom and until when.

They stand in `watchdog.accepted.toml` beside the configuration, so that they are reviewed and merged with the change
itself, and hold in every clone.
"""

from __future__ import annotations

import datetime
import json
import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from watchdog.errors import ConfigError, UsageError
from watchdog.model import Figure, Status, Verdict
from watchdog.redaction import plain

FILE_NAME = "watchdog.accepted.toml"


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


_HEAD = """\
# Changes that were declared intended (`watchdog accept`). Each holds for one verdict, until its day, and as long as the
# figure stays what was accepted. Remove an entry to take it back.
"""


class _Entry(BaseModel):
    """`[[accepted]]` of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: str
    reason: str
    by: str
    on: datetime.date
    until: datetime.date | None = None
    kind: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str | None = None


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    accepted: tuple[_Entry, ...] = ()


def beside(config: Path) -> Path:
    """The file of acceptances that belongs to a configuration."""
    return config.parent / FILE_NAME


def load(path: Path) -> tuple[Acceptance, ...]:
    """What was accepted; nothing where there is no file. Raises ConfigError when it cannot be understood."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise UsageError(msg) from error
    try:
        document = _Document.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        message = f"this is not valid TOML: {error}; mend it, or accept anew"
        raise ConfigError(message, path=path) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        message = f"{first['msg'].lower()}; `watchdog accept` writes entries as they must be"
        raise ConfigError(message, path=path, key=key) from error
    return tuple(map(_acceptance, document.accepted))


def add(path: Path, acceptance: Acceptance) -> None:
    """Write an acceptance, in place of an earlier one of the same verdict. The file is replaced whole or not at all."""
    kept = [one for one in load(path) if one.verdict != acceptance.verdict]
    text = _HEAD + "".join(map(_entry, [*kept, acceptance]))
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise UsageError(msg) from error


def about(accepted: Sequence[Acceptance], verdict: Verdict, today: datetime.date) -> Acceptance | None:
    """What was said of a regressed verdict, with the reason where it no longer holds; None for any other verdict."""
    found = next((one for one in accepted if one.verdict == verdict.id), None)
    if found is None or verdict.status is not Status.REGRESSED:
        return None
    return replace(found, expired=_expired(found, verdict, today))


def of_verdicts(
    accepted: Sequence[Acceptance], verdicts: Iterable[Verdict], today: datetime.date
) -> dict[str, Acceptance]:
    """What was said of each of these verdicts, by its id; also what has expired, with the reason."""
    found = ((verdict.id, about(accepted, verdict, today)) for verdict in verdicts)
    return {name: acceptance for name, acceptance in found if acceptance is not None}


def told(acceptance: Acceptance) -> str:
    """An acceptance in words: who, on which day, until when and why, or why it no longer holds."""
    who = f"accepted by {acceptance.by} on {acceptance.on.isoformat()}"
    if acceptance.expired is not None:
        return f"was {who} ({acceptance.reason}), which has expired: {acceptance.expired}"
    until = f" until {acceptance.until.isoformat()}" if acceptance.until else ""
    return f"{who}{until}: {acceptance.reason}"


def to_json(acceptance: Acceptance) -> dict[str, Any]:
    """An acceptance as `--json` writes it."""
    return {
        "verdict": acceptance.verdict,
        "reason": acceptance.reason,
        "by": acceptance.by,
        "on": acceptance.on.isoformat(),
        "until": None if acceptance.until is None else acceptance.until.isoformat(),
        "expired": acceptance.expired,
    }


def _expired(accepted: Acceptance, verdict: Verdict, today: datetime.date) -> str | None:
    """Why an acceptance no longer holds; None while it does.

    The figure has moved when its interval no longer touches what was accepted; an exact figure, when it is another one.
    """
    if accepted.until is not None and today > accepted.until:
        return f"it was accepted until {accepted.until.isoformat()}"
    if accepted.kind != verdict.kind:
        return f"what was accepted was {accepted.kind or 'of no kind'}, and this is {verdict.kind or 'of no kind'}"
    old, new = accepted.figure, verdict.figure
    if old is None or new is None:
        return None if old is new else "what was accepted had another figure"
    if old.unit == new.unit and new.low <= old.high and new.high >= old.low:
        return None
    return f"the figure moved again: {old.value:.6g} {old.unit} was accepted, and now it is {new.value:.6g} {new.unit}"


def _acceptance(entry: _Entry) -> Acceptance:
    numbers = entry.value, entry.low, entry.high
    figure = None
    if entry.unit is not None and None not in numbers:
        value, low, high = (number for number in numbers if number is not None)
        figure = Figure(value, low, high, entry.unit)
    return Acceptance(entry.verdict, entry.reason, entry.by, entry.on, entry.until, entry.kind, figure)


def _entry(one: Acceptance) -> str:
    lines = [
        "[[accepted]]",
        f"verdict = {_quoted(one.verdict)}",
        f"reason = {_quoted(one.reason)}",
        f"by = {_quoted(one.by)}",
        f"on = {one.on.isoformat()}",
    ]
    if one.until is not None:
        lines.append(f"until = {one.until.isoformat()}")
    if one.kind is not None:
        lines.append(f"kind = {_quoted(one.kind)}")
    if one.figure is not None:
        numbers = (f"{name} = {float(getattr(one.figure, name))!r}" for name in ("value", "low", "high"))
        lines += [*numbers, f"unit = {_quoted(one.figure.unit)}"]
    return "\n" + "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(plain(text), ensure_ascii=False).replace("\x7f", "")
