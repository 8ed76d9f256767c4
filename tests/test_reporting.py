"""From the store to lists and pages: also for runs of other versions, and for runs whose process has gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import event

from watchdog import asked, ownership, reporting
from watchdog import run as running
from watchdog.config import Config, load
from watchdog.errors import UsageError
from watchdog.model import Cell, Check, Environment, Observation, Outcome, Status, Verdict
from watchdog.plan import Selection
from watchdog.store import RunState, Store, open_store, reader, writer

CONFIG = """
[pins.old]
requirements = ["jax==0.8.3"]

[pins.new]
requirements = ["jax==0.9.2"]

[[kernel]]
name = "double"
custom = "mods:double"
native = "mods:double"

[[kernel.case]]
name = "small"
args = ["f32[8]"]
"""
CELLS = [
    Cell("double", "custom", "small", pins, target, Check.COMPILE) for pins in ("old", "new") for target in ("host", "")
]
FOREIGN: tuple[dict[str, Any], ...] = (
    {},
    {"config": {"kernels": []}, "selection": {}},
    {"config": None, "selection": {"aspects": ["x"]}},
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store("sqlite:///watchdog.db", root=tmp_path) as opened:
        yield opened


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "watchdog.toml").write_text(CONFIG, encoding="utf-8")
    return load(tmp_path / "watchdog.toml")


def judged(store: Store, document: dict[str, Any], *statuses: Status) -> str:
    """A finished run of two pins, with a verdict for each status."""
    run = writer.start_run(store, config=document, host=ownership.mine(), version="0.0.1")
    writer.record_plan(store, run, CELLS)
    for pins in ("old", "new"):
        writer.record_environment(store, run, Environment(pins, (), "", "", "3.11.7", ()))
    writer.record_observation(store, run, Observation(CELLS[0], Outcome.OBSERVED))
    verdicts = [
        Verdict(CELLS[-2], status, "said", baseline="old", signal=str(number)) for number, status in enumerate(statuses)
    ]
    writer.record_verdicts(store, run, verdicts)
    writer.finish_run(store, run, state=RunState.FINISHED, exit_code=1)
    return run


def test_the_judges_know_where_the_kernel_serves(store: Store, tmp_path: Path) -> None:
    """What `[service]` says stands in the verdict on a leak: 1 MB per call at 10 calls/s, restarted within 6 minutes."""
    service = '[service]\ncalls_per_second = 10\nprice_per_hour = 2\ncurrency = "EUR"\nrestart_minutes = 6\n'
    (tmp_path / "watchdog.toml").write_text(service + CONFIG, encoding="utf-8")
    started = running.begin(store, load(tmp_path / "watchdog.toml"), Selection())
    cell = Cell("double", "custom", "small", "old", "host", Check.MEMORY, "eager")
    data = {"calls_per_block": 1, "blocks": 8, "device_memory": {"limit": 36e9, "used": 0.0}}
    grown = {"buffer_bytes": [1e6 * block for block in range(1, 9)], "buffers": [float(block) for block in range(1, 9)]}
    writer.record_observation(store, started.id, Observation(cell, Outcome.OBSERVED, data=data, series=grown))
    (verdict,) = running.judge(store, started, [])
    assert "153 restarts a week, an overrun of 10.00%, 33.6 EUR a week" in verdict.summary


@pytest.fixture
def statements(store: Store) -> Iterator[list[str]]:
    """What the database is asked."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    yield seen
    event.remove(store.engine, "before_cursor_execute", note)


def test_runs_are_listed_with_their_verdicts_counted(store: Store, config: Config) -> None:
    """The latest first, each with its own counts; a run without verdicts has none."""
    document = asked.document(config, Selection())
    first = judged(store, document, Status.PASS, Status.PASS, Status.REGRESSED)
    second = judged(store, document)
    late, early = reporting.summaries(store)
    assert (late.run_id, early.run_id) == (second, first)
    assert {status: many for status, many in early.counts.items() if many} == {Status.PASS: 2, Status.REGRESSED: 1}
    assert not any(late.counts.values())
    assert (early.kernels, early.pins, early.state) == (("double",), ("old", "new"), "finished")
    assert [one.run_id for one in reporting.summaries(store, most=1)] == [second]


def test_a_long_list_costs_the_database_as_much_as_a_short_one(
    store: Store, config: Config, statements: list[str]
) -> None:
    """Verdicts are counted where they lie, for all runs at once."""
    document = asked.document(config, Selection())
    asked_for: list[int] = []
    for _ in range(2):
        judged(store, document, *[Status.PASS] * 20)
        statements.clear()
        reporting.summaries(store)
        asked_for.append(len(statements))
    assert asked_for[0] == asked_for[1]
    assert not any("verdicts.summary" in statement for statement in statements)


@pytest.mark.parametrize("document", FOREIGN)
def test_a_run_of_another_version_is_listed_and_told(store: Store, config: Config, document: dict[str, Any]) -> None:
    """Its configuration means nothing here; its plan still names kernels, pins and targets, its verdicts the baseline."""
    run = judged(store, document, Status.REGRESSED)
    judged(store, asked.document(config, Selection()), Status.PASS)
    _, foreign = reporting.summaries(store)
    assert (foreign.kernels, foreign.pins) == (("double",), ("old", "new"))
    assert foreign.counts[Status.REGRESSED] == 1
    told = reporting.report(store, reader.run(store, run))
    assert (told.kernels, told.pins, told.targets, told.baseline) == (("double",), ("old", "new"), ("host",), "old")
    assert reporting.document(store, reader.run(store, run))["exit_code"] == 1


def test_a_run_of_another_version_with_no_plan_is_listed(store: Store) -> None:
    """A run that was cut off at its very beginning left its name and its time."""
    writer.start_run(store, config={}, host={}, version="0.0.1")
    (summary,) = reporting.summaries(store)
    assert (summary.kernels, summary.pins) == ((), ())


def test_the_site_lists_a_run_of_another_version(store: Store, config: Config, tmp_path: Path) -> None:
    """Writing today's report is not spoilt by yesterday's run."""
    judged(store, FOREIGN[1], Status.REGRESSED)
    run = judged(store, asked.document(config, Selection()), Status.PASS)
    page = reporting.write(store, reader.run(store, run), tmp_path / "site")
    assert page.read_text(encoding="utf-8").count("finished, exit 1") == 2


def test_a_run_of_another_version_is_not_resumed(store: Store) -> None:
    """One sentence says whose it is."""
    run = writer.start_run(store, config={}, host={}, version="0.0.1")
    with pytest.raises(UsageError, match=f"run {run} was stored by kernel-watchdog 0.0.1"):
        running.resumed(store)


def test_a_run_whose_process_is_gone_is_shown_as_killed(store: Store) -> None:
    """The store knows it as running; a run at work, an interrupted and a finished one are shown as what they are."""
    own = ownership.mine()
    gone = {**own, "pid_started": own["pid_started"] - 1}  # another process had this number before
    no_such = {"pid": max(psutil.pids()) + 100_000, "pid_started": 0.0}
    for host, state in (
        (own, None),
        (gone, None),
        (no_such, None),
        (gone, RunState.INTERRUPTED),
        (own, RunState.FINISHED),
    ):
        run = writer.start_run(store, config={}, host=host, version="0.0.1")
        if state:
            writer.finish_run(store, run, state=state, exit_code=None)
    shown = [one.state for one in reporting.summaries(store)]
    assert shown == ["finished", "interrupted", "killed", "killed", "running"]
    assert [reporting.report(store, run).state for run in reader.runs(store)] == shown
