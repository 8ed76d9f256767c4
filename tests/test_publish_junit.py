"""A gate as JUnit XML, as CI servers read it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from functools import cache

import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import synthetic_gates
from tests.commands import ROOT
from tests.test_gate_document import GATES
from watchdog.gate.report import GateReport
from watchdog.publish.junit import junit


@cache
def schema() -> xmlschema.XMLSchema10:
    return xmlschema.XMLSchema10(ROOT / "tests" / "ci" / "junit.xsd")


def cases(report: GateReport) -> list[ET.Element]:
    return list(ET.fromstring(junit(report)).iter("testcase"))  # noqa: S314  # our own text


def failures(report: GateReport) -> list[ET.Element]:
    return [case for case in cases(report) if case.find("failure") is not None]


def case_of(report: GateReport, words: str) -> ET.Element:
    (found,) = (case for case in cases(report) if words in f"{case.get('classname')} {case.get('name')}")
    return found


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_it_is_valid(report: GateReport) -> None:
    """By the schema of what Jenkins and Surefire know, whatever the answer and whatever the texts hold."""
    schema().validate(ET.ElementTree(ET.fromstring(junit(report))))  # noqa: S314


@pytest.mark.parametrize(
    "spoiled",
    [
        ("testcase", "case"),
        ('errors="0"', ""),
        ('classname="gate"', 'klass="gate"'),
        ("<failure type=", "<failure kind="),
    ],
)
def test_the_schema_refuses_other_forms(spoiled: tuple[str, str]) -> None:
    """An unknown element, a missing count, an unknown attribute."""
    text = junit(synthetic_gates.failed()).replace(*spoiled)
    assert not schema().is_valid(ET.ElementTree(ET.fromstring(text)))  # noqa: S314


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_there_are_failures_exactly_when_the_gate_does_not_pass(report: GateReport) -> None:
    """A CI server that reads only this file comes to the gate's own answer."""
    assert bool(failures(report)) == (report.exit_code != 0)


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_every_verdict_is_one_case_and_the_counts_agree(report: GateReport) -> None:
    """One for each, under a name of its own, and the answer's; the numbers of the suites are those of their cases."""
    root = ET.fromstring(junit(report))  # noqa: S314
    names = Counter((case.get("classname"), case.get("name")) for case in root.iter("testcase"))
    assert sum(names.values()) == len(report.judged) + 1
    if report is not GATES["hostile"]:  # whose names are too long to be told apart
        assert max(names.values()) == 1
    for suite in root:
        held = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(held)
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(case.find(tag) is not None for case in held)
    for name in ("tests", "failures"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)


def test_a_finding_says_what_a_person_needs() -> None:
    """Its kind, its sentence, its figure, its suspect, the package that did it, its id for `watchdog accept`; its log."""
    case = case_of(synthetic_gates.failed(), "jax_flash_attention.custom import")
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("type") == "missing dependency"
    assert "module absl is missing" in (failure.get("message") or "")
    for words in (
        "suspect: library",
        "blame: jax 0.8.3 → 0.9.2",
        "verdict: jax_flash_attention/custom/-/head/-/import",
    ):
        assert words in (failure.text or "")
    assert "No module named 'absl'" in (case.findtext("system-out") or "")


def test_figures_are_properties() -> None:
    """With their uncertainty and the smallest visible change, of what passed, too."""
    root = ET.fromstring(junit(synthetic_gates.passed()))  # noqa: S314
    figures = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert figures["flash_attention.custom timing decode/host, seconds"] == "×0.91 ± 0.02; smallest visible: ×1.02"
    assert figures["changed jax"] == "jax 0.8.3 → 0.9.2 (direct)"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("router.custom numerics", "still broken: wrong by"),
        ("under the base", "broken under the base: crashed"),
        ("router.custom memory small/host/steady", "accepted by Ada on 2026-11-02"),
        ("flash_attention.native timing", "undecided: 1.02 times"),
        ("timing grouped_query", "an interpreted kernel is never timed"),
    ],
)
def test_what_does_not_fail_the_gate_is_skipped_with_its_reason(words: str, message: str) -> None:
    """Still broken, broken under the base, accepted, undecided, not measured: each says which."""
    skipped = case_of(synthetic_gates.failed(), words).find("skipped")
    assert skipped is not None
    assert message in (skipped.get("message") or "")


def test_strictness_fails_what_is_still_broken() -> None:
    """As the gate itself does."""
    (failure,) = failures(synthetic_gates.only_still(strict=True))
    assert failure.get("name") == "numerics small/host"


def test_a_gate_without_an_answer_fails_by_itself() -> None:
    """Where nothing was measured no question failed, and yet the file must not look like success."""
    (failure,) = failures(synthetic_gates.nothing_measured())
    assert (failure.get("classname"), failure.get("name")) == ("gate", "answer")


def test_no_credentials_are_written() -> None:
    """A password in the address of an index stays here."""
    assert "hunter2" not in junit(synthetic_gates.hostile())


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_legal_xml(text: str) -> None:
    """Control characters, surrogates and what ends a CDATA section come out as a document that a parser reads."""
    report = synthetic_gates.rewritten(synthetic_gates.undecided(), lambda one: f"{one}{text}")
    schema().validate(ET.ElementTree(ET.fromstring(junit(report).encode("utf-8"))))  # noqa: S314
