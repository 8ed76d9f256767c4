"""A gate's answer as SARIF 2.1.0, for code scanning: a result for each finding, a rule for each kind of finding.

What the change causes is an error, new against the baseline; what is still broken a warning, unchanged (an error under
`--strict`); what is undecided a warning; what is broken under the base alone a note, absent now; what was accepted an
error that is suppressed, with by whom and why. What is fine is no result.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from watchdog import __version__
from watchdog.gate.report import Answer, GateReport, Judged, Standing
from watchdog.model import Check, Verdict
from watchdog.publish import gate_wording
from watchdog.publish.gate_places import Place, Places
from watchdog.records import verdict_to_json

VERSION = "2.1.0"
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_BASE_ID = "%SRCROOT%"  # the root of the repository, wherever it is checked out
_NAMESPACE = uuid.UUID("6d9b1f0e-5b0c-5f7e-9a55-2b6a3c1e7d42")
_SHOWN = (Standing.BUMP, Standing.OPEN, Standing.STILL, Standing.BASE, Standing.ACCEPTED)
_LEVELS = {
    Standing.BUMP: "error",
    Standing.OPEN: "warning",
    Standing.STILL: "warning",
    Standing.BASE: "note",
    Standing.ACCEPTED: "error",
}
_STATES = {Standing.BUMP: "new", Standing.OPEN: "new", Standing.STILL: "unchanged", Standing.BASE: "absent"}
_QUESTIONS = {
    Check.INSTALL: "Do the requirements resolve, and does what they resolve to install?",
    Check.IMPORT: "Does the implementation import?",
    Check.LOWER: "Does it lower for its target?",
    Check.COMPILE: "Does the target's own compiler accept it, and how much memory will it take?",
    Check.SCHEDULE: "What does the compiled kernel's schedule cost: bundles, slots, spills, memory traffic?",
    Check.NUMERICS: "How far from the true result is it, beside the native implementation's own error?",
    Check.GRADIENTS: "How far from the true gradients are its own?",
    Check.RACES: "Do copies and cores race, is memory read before it was written, or out of bounds?",
    Check.MEMORY: "What stays behind from call to call?",
    Check.TIMING: "How long does a call take, compared over fresh processes of both sides?",
}


def sarif(report: GateReport, root: Path) -> dict[str, Any]:
    """The whole answer as a SARIF log. `root` is the folder of the configuration, within the repository."""
    places = Places(report, root)
    told = gate_wording.worst_first(report.of(*_SHOWN))
    rules = list(dict.fromkeys(map(_rule_id, told)))
    run = {
        "tool": {"driver": _driver(told, rules)},
        "automationDetails": {"id": "kernel-watchdog/gate/"},
        "baselineGuid": str(uuid.uuid5(_NAMESPACE, report.difference.base.lock_hash)),
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, one, rules, places.of(one.verdict)) for one in told],
        "properties": {
            "answer": report.answer.value,
            "exitCode": report.exit_code,
            "headline": gate_wording.reason(report),
            "changes": [gate_wording.change(one) for one in report.difference.changes],
        },
    }
    return {"$schema": _SCHEMA, "version": VERSION, "runs": [run]}


def _driver(told: Sequence[Judged], rules: Sequence[str]) -> dict[str, Any]:
    first = {_rule_id(one): one for one in reversed(told)}
    return {
        "name": "Kernel Watchdog",
        "semanticVersion": __version__,
        "rules": [_rule(rule, first[rule]) for rule in rules],
    }


def _rule_id(one: Judged) -> str:
    """The check and what it found: "timing/slower", "import/missing-dependency", "timing/undecided"."""
    kind = "undecided" if one.standing is Standing.OPEN else one.verdict.kind or "broken"
    return f"{one.verdict.cell.check}/{_slug(kind)}"


def _rule(rule: str, one: Judged) -> dict[str, Any]:
    check = one.verdict.cell.check
    kind = gate_wording.said(rule.partition("/")[2].replace("-", " "), 80)
    help_text = (
        f"{_QUESTIONS[check]} A finding of the kind “{kind}” says that the answer changed for the worse, or could not be had. "
        "Its message names the figure, the suspect, and the package that brings it where one was found."
    )
    advice = (
        f"{help_text}\n\nMend the kernel or hold the package back. If the change is intended: "
        "`watchdog accept VERDICT --reason TEXT`, with the verdict that stands in the result's properties."
    )
    return {
        "id": rule,
        "name": "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", rule)),
        "shortDescription": {"text": f"{check}: {kind}"},
        "fullDescription": {"text": _QUESTIONS[check]},
        "help": {"text": help_text, "markdown": advice},
        "defaultConfiguration": {"level": "warning" if one.standing is Standing.OPEN else "error"},
        "properties": {"tags": ["kernel", check.value]},
    }


def _result(report: GateReport, one: Judged, rules: Sequence[str], place: Place) -> dict[str, Any]:
    rule = _rule_id(one)
    print_ = _fingerprint(one.verdict)
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": rules.index(rule),
        "level": "error" if report.strict and one.standing is Standing.STILL else _LEVELS[one.standing],
        "message": {"text": _message(report, one)},
        "locations": [_location(place, one.verdict)],
        "partialFingerprints": {"primaryLocationLineHash": f"{print_}:1", "kernelWatchdogVerdict/v1": print_},
        "baselineState": _STATES.get(one.standing) or ("unchanged" if one.before and _was_so(one) else "new"),
        "properties": _properties(report, one),
    }
    if one.standing is Standing.ACCEPTED and one.acceptance is not None:
        why = gate_wording.acceptance(one.acceptance)
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": why}]
    return result


def _was_so(one: Judged) -> bool:
    return one.before is not None and one.before.status is one.verdict.status


def _message(report: GateReport, one: Judged) -> str:
    """The sentence and its facts."""
    facts = "; ".join(gate_wording.facts(report, one))
    standing = "" if one.standing is Standing.BUMP else f" [{one.standing}]"
    topic = gate_wording.topic(one.verdict)
    message = f"{topic}: {gate_wording.said(one.verdict.summary)}{f' ({facts})' if facts else ''}{standing}"
    return _plain_message(message)


def _plain_message(text: str) -> str:
    """Text in which SARIF reads neither a link nor a placeholder (sections 3.11.5 and 3.11.6)."""
    return re.sub(r"[\\\[\]]", r"\\\g<0>", text).replace("{", "{{").replace("}", "}}")


def _location(place: Place, verdict: Verdict) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(place.file), "uriBaseId": _BASE_ID},
            "region": {"startLine": place.line},
        },
        "logicalLocations": [{"fullyQualifiedName": gate_wording.said(verdict.id), "kind": "function"}],
    }


def _fingerprint(verdict: Verdict) -> str:
    """The same for the same finding, whatever the pins are called."""
    name = replace(verdict, cell=replace(verdict.cell, pins="")).id
    return hashlib.sha256(f"{name}\n{verdict.kind}".encode("utf-8", "replace")).hexdigest()[:32]


def _properties(report: GateReport, one: Judged) -> dict[str, Any]:
    values = verdict_to_json(one.verdict)
    kept = (
        "figure",
        "detectable",
        "suspect",
        "kernel",
        "implementation",
        "case",
        "target",
        "scenario",
        "signal",
        "kind",
    )
    told = {
        name: gate_wording.said(value, 1000) if isinstance(value, str) else value
        for name in kept
        if (value := values[name]) is not None
    }
    blamed = gate_wording.blamed(report, one.verdict)
    return {
        "verdict": gate_wording.said(one.verdict.id, 1000),
        "standing": one.standing.value,
        **told,
        **({"blame": blamed} if blamed else {}),
    }


def _invocation(report: GateReport) -> dict[str, Any]:
    notes = [*report.difference.warnings, *report.notes]
    return {
        "executionSuccessful": report.answer is not Answer.UNDECIDED,
        "exitCode": report.exit_code,
        "exitCodeDescription": report.answer.value,
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": _plain_message(gate_wording.said(note))}} for note in notes
        ],
    }


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", gate_wording.said(text, 60).lower()).strip("-") or "broken"
