"""A gate's answer as JUnit XML, in the form that the xunit plugin of Jenkins checks (junit-10.xsd) and GitLab reads.

A suite for each kernel, a case for each verdict. There are failures exactly when the gate does not pass:

| standing | case |
| --- | --- |
| caused by the change | failure, whose type is the kind of the finding |
| still broken | skipped, with the sentence; failure under `--strict` |
| broken under the base alone | skipped |
| accepted | skipped, with by whom and why |
| undecided | skipped; failure of the type "undecided" when the gate is undecided |
| skipped | skipped, with the reason |

The suite "gate" has one case, the answer itself: it fails when the gate does not pass and no other case says so. It
carries the difference. Figures are properties of the suites, as that form knows none of cases.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from watchdog.gate.report import Answer, GateReport, Judged, Standing
from watchdog.model import Status
from watchdog.publish import gate_wording
from watchdog.redaction import plain

# What XML 1.0 allows, less the control characters that it merely discourages.
_ILLEGAL = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
_UNDECIDED = "undecided"


def junit(report: GateReport) -> str:
    """The whole answer as a JUnit XML document."""
    suites = [_gate_suite(report), *_kernel_suites(report)]
    attributes = {"name": "kernel-watchdog", "time": _seconds(report.seconds), **_totals(suites)}
    root = ET.Element("testsuites", attributes)
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _gate_suite(report: GateReport) -> ET.Element:
    case = ET.Element("testcase", classname="gate", name="answer", time=_seconds(report.seconds))
    if report.answer is not Answer.PASSED and not any(_fails(report, one) for one in report.judged):
        _say(case, "failure", report.answer.value, gate_wording.reason(report), "")
    _text(case, "system-out", "\n".join(_account(report)))
    properties = {
        "answer": report.answer.value,
        "base": report.difference.base.given,
        "head": report.difference.head.given,
        **{f"changed {one.package.name}": gate_wording.change(one) for one in report.difference.changes},
    }
    return _suite(report, "gate", [case], properties)


def _account(report: GateReport) -> list[str]:
    """The answer, the difference, and how the package was found."""
    base, head = gate_wording.sides(report.difference)
    lines = [f"{report.answer}: {gate_wording.reason(report)}", "", f"{base} → {head}"]
    lines += [f"  {gate_wording.change(one)}" for one in report.difference.changes]
    lines += [f"warning: {gate_wording.said(one)}" for one in report.difference.warnings]
    for blame in report.blames:
        lines += ["", gate_wording.said(blame.said)]
        lines += [f"  {gate_wording.said(one.what)}: {one.result}, {gate_wording.said(one.said)}" for one in blame.path]
    notes = [f"not measured: {gate_wording.said(one)}" for one in report.notes]
    return [*lines, *([""] if notes else []), *notes]


def _kernel_suites(report: GateReport) -> list[ET.Element]:
    groups: dict[str, list[Judged]] = {}
    for one in gate_wording.worst_first(report.judged):
        groups.setdefault(one.verdict.cell.kernel, []).append(one)
    return [_kernel_suite(report, kernel or "all kernels", some) for kernel, some in sorted(groups.items())]


def _kernel_suite(report: GateReport, kernel: str, judged: Sequence[Judged]) -> ET.Element:
    properties = {}
    for one in judged:
        smallest = gate_wording.smallest(one.verdict)
        figures = [gate_wording.figure(one.verdict), f"smallest visible: {smallest}" if smallest else ""]
        if any(figures):
            properties[f"{_class(one)} {_name(one)}"] = "; ".join(filter(None, figures))
    return _suite(report, kernel, [_case(report, one) for one in judged], properties)


def _suite(report: GateReport, name: str, cases: Sequence[ET.Element], properties: dict[str, str]) -> ET.Element:
    failures = sum(case.find("failure") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    numbers = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    suite = ET.Element(
        "testsuite", {"name": _legal(name), "timestamp": report.started, "time": _seconds(0.0), **numbers}
    )
    if properties:
        held = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(held, "property", name=_legal(key), value=_legal(value))
    suite.extend(cases)
    return suite


def _case(report: GateReport, one: Judged) -> ET.Element:
    case = ET.Element("testcase", classname=_class(one), name=_name(one), time=_seconds(0.0))
    summary = gate_wording.said(one.verdict.summary)
    if _fails(report, one):
        kind = one.verdict.kind or one.verdict.cell.check.value
        _say(case, "failure", _UNDECIDED if one.standing is Standing.OPEN else kind, summary, _detail(report, one))
    elif one.standing is not Standing.FINE or one.verdict.status in (Status.SKIPPED, Status.INCONCLUSIVE):
        why = "" if one.standing is Standing.FINE else f"{one.standing}: "
        accepted = f" ({gate_wording.acceptance(one.acceptance)})" if one.acceptance else ""
        _say(case, "skipped", one.standing.value if why else one.verdict.status.value, f"{why}{summary}{accepted}", "")
    if one.log_tail.strip():
        _text(case, "system-out", gate_wording.log(one.log_tail))
    return case


def _fails(report: GateReport, one: Judged) -> bool:
    undecided = report.answer is Answer.UNDECIDED and one.standing is Standing.OPEN
    return undecided or (report.answer is Answer.FAILED and one in report.failing)


def _detail(report: GateReport, one: Judged) -> str:
    """What a reader wants below the message."""
    smallest = gate_wording.smallest(one.verdict)
    lines = [gate_wording.said(one.verdict.summary), *gate_wording.facts(report, one)]
    lines += [f"smallest visible change: {smallest}"] if smallest else []
    lines += [gate_wording.acceptance(one.acceptance)] if one.acceptance else []
    return "\n".join([*lines, f"verdict: {gate_wording.said(one.verdict.id)}"])


def _class(one: Judged) -> str:
    cell = one.verdict.cell
    return _legal(".".join(filter(None, (cell.kernel or "all kernels", cell.implementation))))


def _name(one: Judged) -> str:
    """What was asked, unique within a class: "timing prefill_2k/host, seconds"."""
    cell = one.verdict.cell
    place = "/".join(filter(None, (cell.case, cell.target, cell.scenario)))
    base = "under the base" if one.standing is Standing.BASE else ""
    return _legal(", ".join(filter(None, (f"{cell.check} {place}".strip(), one.verdict.signal, base))))


def _say(case: ET.Element, tag: str, kind: str, message: str, detail: str) -> None:
    said = ET.SubElement(case, tag, type=_legal(kind), message=_legal(message))
    if detail:
        said.text = _lines(detail)


def _text(case: ET.Element, tag: str, lines: str) -> None:
    ET.SubElement(case, tag).text = _lines(lines)


def _legal(text: str) -> str:
    """One line of characters that XML may hold."""
    return _ILLEGAL.sub("\ufffd", gate_wording.said(text, 1000)) or "–"


def _lines(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", plain(text))


def _totals(suites: Sequence[ET.Element]) -> dict[str, str]:
    return {name: str(sum(int(suite.attrib[name]) for suite in suites)) for name in ("tests", "failures", "errors")}


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
