"""The repository's own configuration, for real: two of its releases of jax, two kernels, every check, one report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.commands import ROOT, watchdog
from watchdog.model import Check, Observation, Outcome
from watchdog.store import reader
from watchdog.store.engine import open_store

pytestmark = pytest.mark.real

PINS = ("jax-0.8.3", "jax-0.9.2")  # the third release and generation would double the time and find nothing more
LIMITED = [*(word for name in PINS for word in ("--pins", name)), "--target", "host", "--target", "tpu:v5e"]


@dataclass(frozen=True)
class Job:
    """What `watchdog run` left behind."""

    code: int
    said: str
    document: dict[str, Any]
    folder: Path
    observations: list[Observation]
    missing: int

    def verdicts(self, **wanted: str | None) -> list[dict[str, Any]]:
        verdicts: list[dict[str, Any]] = self.document["verdicts"]
        return [one for one in verdicts if all(one[key] == value for key, value in wanted.items())]

    def observed(self, check: Check, implementation: str) -> list[Observation]:
        return [
            one for one in self.observations if (one.cell.check, one.cell.implementation) == (check, implementation)
        ]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """One run of watchdog.toml in a copy of its folder; environments come from the user's cache."""
    folder = tmp_path_factory.mktemp("watch")
    shutil.copy(ROOT / "watchdog.toml", folder)
    shutil.copytree(ROOT / "kernels", folder / "kernels")
    ended = watchdog("run", "--json", "run.json", *LIMITED, folder=folder)
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    with open_store("sqlite:///.watchdog/watchdog.db", root=folder) as store:
        run = reader.run(store, "latest").id
        yield Job(
            ended.returncode,
            ended.stderr,
            document,
            folder,
            reader.observations(store, run),
            len(reader.missing_cells(store, run)),
        )


def test_finds_the_import_that_a_release_broke(job: Job) -> None:
    """Under 0.9.2 the upstream kernel lacks absl: regressed, the library's fault, named; the sentence says all of it."""
    (found,) = job.verdicts(kernel="jax_flash_attention", implementation="custom", pins="jax-0.9.2", aspect="import")
    assert (found["status"], found["suspect"], found["kind"]) == ("regressed", "library", "missing dependency")
    assert "absl" in found["summary"]
    assert found["baseline"] == "jax-0.8.3"
    assert job.code == 1


def test_ours_imports_everywhere(job: Job) -> None:
    """Our own kernel imports, lowers and compiles for the host and for a TPU under both releases."""
    for check in (Check.IMPORT, Check.LOWER, Check.COMPILE):
        seen = [one for one in job.observed(check, "custom") if one.cell.kernel == "flash_attention"]
        assert {one.cell.pins for one in seen if one.outcome is Outcome.OBSERVED} == set(PINS)
        assert not [one for one in seen if one.outcome.is_fault]


def test_the_rest_of_the_run_is_complete(job: Job) -> None:
    """Every planned cell has its observation, and nothing failed but that one import."""
    assert job.missing == 0
    faults = [one.cell for one in job.observations if one.outcome.is_fault]
    assert [(cell.kernel, cell.implementation, cell.pins, cell.check) for cell in faults] == [
        ("jax_flash_attention", "custom", "jax-0.9.2", Check.IMPORT)
    ]


def test_no_breakage_is_invented(job: Job) -> None:
    """Beside that import no kernel of ours is said to err, race or leak."""
    invented = [
        one["id"]
        for one in job.verdicts(status="regressed")
        if one["aspect"] in ("lower", "numerics", "gradients", "races", "memory", "timing")
    ]
    assert invented == []


def test_schedules_are_read_under_every_release(job: Job) -> None:
    """Under both releases' compilers the figures are whole."""
    seen = [one for one in job.observed(Check.SCHEDULE, "native") if one.outcome is Outcome.OBSERVED]
    assert {one.cell.pins for one in seen} == set(PINS)
    assert all(one.data["complete"] and one.data["bundles"] > 0 for one in seen)
    assert not any("died" in note for one in seen for note in one.data["notes"])


def test_what_is_interpreted_is_not_timed(job: Job) -> None:
    """Native is timed here; a Pallas TPU kernel is skipped with the reason, and its numerics say how they were run."""
    if {one.data["platform"] for one in job.observed(Check.TIMING, "native") if one.data} != {"cpu"}:
        pytest.skip("this machine has an accelerator")
    assert all(one.outcome is Outcome.OBSERVED for one in job.observed(Check.TIMING, "native"))
    assert all(one.outcome is Outcome.SKIPPED and one.reason for one in job.observed(Check.TIMING, "custom"))
    modes = {one.data["mode"] for one in job.observed(Check.NUMERICS, "custom") if one.data}
    assert modes == {"tpu interpreter", "generic interpreter"}  # 0.9.2 has only the generic one, for want of absl


def test_environments_hold_their_locks(job: Job) -> None:
    """Each environment was verified against its stored lock, package by package."""
    for one in job.observed(Check.INSTALL, ""):
        packages = next(each["packages"] for each in job.document["environments"] if each["pins"] == one.cell.pins)
        assert one.data["verified"] == len(packages)
        assert packages["jax"] == one.cell.pins.removeprefix("jax-")


def test_document_follows_its_schema(job: Job) -> None:
    """`--json` writes what docs/run.schema.json promises."""
    schema = json.loads((ROOT / "docs" / "run.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(job.document, schema)


def test_report_and_table_tell_it(job: Job) -> None:
    """The page names the kernel, its pins and the missing module; so does the closing table."""
    page = (job.folder / ".watchdog" / "report" / "index.html").read_text(encoding="utf-8")
    for text in ("jax_flash_attention", "jax-0.9.2", "module absl is missing"):
        assert text in page
    assert "absl" in job.said
    assert "index.html" in job.said
