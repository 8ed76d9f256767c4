"""What `watchdog gate --json` writes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests import synthetic_gates
from tests.commands import ROOT
from watchdog.acceptances import Acceptance
from watchdog.errors import UsageError
from watchdog.gate import accepting
from watchdog.gate.document import document
from watchdog.gate.report import GateReport, Standing
from watchdog.model import Figure

GATES = {
    "failed": synthetic_gates.failed(),
    "passed": synthetic_gates.passed(),
    "undecided": synthetic_gates.undecided(),
    "nothing measured": synthetic_gates.nothing_measured(),
    "unneeded": synthetic_gates.unneeded(),
    "strict": synthetic_gates.only_still(strict=True),
    "hostile": synthetic_gates.hostile(),
}


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "docs" / "gate.schema.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_it_follows_its_schema(report: GateReport) -> None:
    """Strict JSON, no key too many or too few, whatever the answer and whatever the texts hold."""
    written = json.dumps(document(report), allow_nan=False)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(written))
    written.encode("utf-8")


def test_the_schema_refuses_what_it_does_not_know() -> None:
    """An unknown key, a missing one or a standing of another name is no such document."""
    validator = jsonschema.Draft202012Validator(schema())
    whole = document(synthetic_gates.failed())
    for spoiled in (
        {**whole, "more": 1},
        {key: value for key, value in whole.items() if key != "strict"},
        {**whole, "judged": [{**whole["judged"][0], "standing": "odd"}]},
        {**whole, "exit_code": 2},
    ):
        assert not validator.is_valid(spoiled)


def test_a_verdict_has_one_shape_everywhere() -> None:
    """The schema of gates and that of runs say the same of verdicts, figures and amounts."""
    run = json.loads((ROOT / "docs" / "run.schema.json").read_text(encoding="utf-8"))
    for name in ("verdict", "figure", "amount"):
        assert schema()["$defs"][name] == run["$defs"][name]


def test_it_holds_the_whole_answer() -> None:
    """Every verdict with its standing, the package that did it with the path to it, the acceptance."""
    report = synthetic_gates.failed()
    written = document(report)
    assert [one["verdict"]["id"] for one in written["judged"]] == [one.verdict.id for one in report.judged]
    assert [one["standing"] for one in written["judged"]] == [one.standing.value for one in report.judged]
    assert written["blames"][0]["packages"] == [{"package": "jax", "old": "0.8.3", "new": "0.9.2"}]
    assert [probe["result"] for probe in written["blames"][0]["path"]] == ["bad", "good", "cannot be installed"]
    (accepted,) = (one for one in written["judged"] if one["standing"] == "accepted")
    assert accepted["acceptance"]["by"] == "Ada"
    assert accepted["acceptance"]["until"] == "2027-01-31"
    assert written["difference"]["changes"][4] == {"package": "absl-py", "old": "2.3.1", "new": None, "direct": False}


def test_numbers_without_an_end_are_null() -> None:
    """JSON has no infinity: a figure that is open above has null there."""
    (one,) = synthetic_gates.failed().of(Standing.ACCEPTED)
    assert isinstance(one.acceptance, Acceptance)
    figure = Figure(3.0, 2.0, math.inf, "B")
    open_ended = replace(
        one, verdict=replace(one.verdict, figure=figure), acceptance=replace(one.acceptance, figure=figure)
    )
    (judged,) = document(replace(synthetic_gates.failed(), judged=(open_ended,)))["judged"]
    assert judged["verdict"]["figure"]["high"] is None
    assert judged["acceptance"]["figure"] == {"value": 3.0, "low": 2.0, "high": None, "unit": "B"}


def test_no_credentials_are_written() -> None:
    """A password in the address of an index stays here."""
    assert "hunter2" not in json.dumps(document(synthetic_gates.hostile()))


def test_a_verdict_of_it_can_be_accepted(tmp_path: Path) -> None:
    """`watchdog accept --from gate.json` finds what a job on another machine wrote."""
    file = tmp_path / "gate.json"
    report = synthetic_gates.failed()
    file.write_text(json.dumps(document(report)), encoding="utf-8")
    leak = report.judged[2].verdict
    found = accepting.in_document(file, leak.id)
    assert (found.id, found.kind, found.figure) == (leak.id, "leak", leak.figure)
    with pytest.raises(UsageError, match="did you mean"):
        accepting.in_document(file, leak.id[:-1])
