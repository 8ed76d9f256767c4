"""A gate's answer as JSON, for other programs: what `watchdog gate --json` writes (docs/gate.schema.json)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from watchdog.acceptances import Acceptance
from watchdog.gate.report import Bisected, Blame, Change, Difference, GateReport, Judged, Probe, Side
from watchdog.model import Figure, PackageChange
from watchdog.records import mend, verdict_to_json
from watchdog.redaction import redact

SCHEMA = 1


def document(report: GateReport) -> dict[str, Any]:
    """The whole answer as JSON values; what does not apply is null, as is a number that is not finite."""
    values = {
        "schema": SCHEMA,
        "run": report.run_id or None,
        "started": report.started,
        "seconds": report.seconds,
        "answer": report.answer.value,
        "exit_code": report.exit_code,
        "strict": report.strict,
        "headline": report.headline,
        "difference": _difference(report.difference),
        "judged": [_judged(one) for one in report.judged],
        "blames": [_blame(one) for one in report.blames],
        "notes": list(report.notes),
    }
    return {key: _mended(value) for key, value in values.items()}


def bisected_document(bisected: Bisected) -> dict[str, Any]:
    """What `watchdog bisect --json` writes, as JSON values."""
    values: dict[str, Any] = _mended({"schema": SCHEMA, **asdict(bisected), "exit_code": bisected.exit_code})
    return values


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "base": _side(difference.base),
        "head": _side(difference.head),
        "changes": [_change(one) for one in difference.changes],
        "warnings": list(difference.warnings),
    }


def _side(side: Side) -> dict[str, Any]:
    return {"name": side.name, "given": side.given, "lock": side.lock_hash or None, "python": side.python or None}


def _change(one: Change) -> dict[str, Any]:
    return {**_package(one.package), "direct": one.direct}


def _package(package: PackageChange) -> dict[str, Any]:
    return {"package": package.name, "old": package.old, "new": package.new}


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "verdict": verdict_to_json(one.verdict),
        "standing": one.standing.value,
        "acceptance": None if one.acceptance is None else _acceptance(one.acceptance),
        "before": None if one.before is None else verdict_to_json(one.before),
        "log_tail": one.log_tail,
    }


def _acceptance(one: Acceptance) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "reason": one.reason,
        "by": one.by,
        "on": one.on.isoformat(),
        "until": one.until.isoformat() if one.until else None,
        "kind": one.kind,
        "figure": _figure(one.figure),
        "expired": one.expired,
    }


def _figure(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {"value": figure.value, "low": figure.low, "high": figure.high, "unit": figure.unit}


def _blame(blame: Blame) -> dict[str, Any]:
    return {
        "verdicts": list(blame.verdicts),
        "packages": [_package(one) for one in blame.packages],
        "said": blame.said,
        "complete": blame.complete,
        "path": [_probe(one) for one in blame.path],
    }


def _probe(probe: Probe) -> dict[str, Any]:
    return {
        "what": probe.what,
        "result": probe.result.value,
        "said": probe.said,
        "seconds": probe.seconds,
        "remembered": probe.remembered,
    }


def _mended(value: Any) -> Any:
    """Numbers that JSON has not become null; text loses credentials, and what no file could hold."""
    match value:
        case str():
            return mend(redact(value))
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
    return value
