"""The store keeps what it was given: exactly, durably, and beside other readers and writers."""

import json
import math
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from watchdog.errors import UsageError
from watchdog.model import (
    Amount,
    Cell,
    Check,
    Environment,
    Fault,
    Figure,
    Observation,
    Outcome,
    Package,
    Sample,
    Status,
    Suspect,
    Verdict,
)
from watchdog.store import Gate, Lock, Past, RunState, Store, open_store, reader, writer
from watchdog.store.series import DELTA, FLOAT, Packed, pack, unpack

PROGRAM = Path(__file__).parents[1]
CELL = Cell("flash", "custom", "small", "next", "host", Check.MEMORY, "steady")

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
words = text.filter(lambda value: value not in ("nan", "inf", "-inf"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
whole_numbers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8)
floats = st.lists(st.floats(), min_size=1, max_size=8)
cells = st.builds(Cell, text, text, text, text, text, st.sampled_from(Check), text)
observations = st.builds(
    Observation,
    cells,
    st.sampled_from(Outcome),
    reason=st.none() | text,
    fault=st.none() | st.builds(Fault, text, text, st.none() | text, text, st.none() | text),
    data=st.dictionaries(words, json_values, max_size=3),
    series=st.dictionaries(text, (whole_numbers | floats).map(tuple), max_size=3),
    log_tail=text,
    seconds=st.floats(0, allow_infinity=False),
    at=text.filter(bool),
)


class SteppingClock:
    """A clock that goes on by one minute each time it is read."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 31, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(minutes=1)
        return self.time


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store("sqlite:///watchdog.db", root=tmp_path, clock=SteppingClock()) as opened:
        yield opened


def documented(language: str) -> list[str]:
    """The blocks of code in docs/store.md that are in this language."""
    page = (PROGRAM / "docs" / "store.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def begin(store: Store) -> str:
    """A run of which nothing matters."""
    return writer.start_run(store, config={}, host={}, version="0.1.0")


def same(left: Any, right: Any) -> bool:
    """Equality that takes NaN for itself and keeps 1 and 1.0, and 0.0 and -0.0, apart."""
    return repr(left) == repr(right)


class TestSeries:
    @given(floats)
    @example([math.nan, math.inf, -math.inf, -0.0, 5e-324])
    def test_floats_come_back_bit_for_bit(self, values: list[float]) -> None:
        """Every float64 survives, NaN and the sign of zero included."""
        packed = pack(values)

        assert packed.encoding == FLOAT
        assert struct.pack(f"{len(values)}d", *unpack(packed)) == struct.pack(f"{len(values)}d", *values)

    @given(whole_numbers)
    @example([-(2**63), 2**63 - 1, -(2**63)])
    def test_whole_numbers_come_back_as_whole_numbers(self, values: list[int]) -> None:
        """Every series of 64-bit numbers survives, even where a step between two does not fit 64 bits."""
        packed = pack(values)

        assert packed.encoding == DELTA
        assert same(unpack(packed), tuple(values))

    def test_a_counter_that_stands_still_packs_to_almost_nothing(self) -> None:
        """A thousand readings of 12 GB, of which the last is 4 KiB more, take fewer than 50 bytes."""
        assert len(pack([12_000_000_000] * 999 + [12_000_004_096]).blob) < 50

    def test_a_series_of_both_is_one_of_floats(self) -> None:
        """Mixed numbers are stored as float64, by value."""
        assert unpack(pack([1, 2.5])) == (1.0, 2.5)

    @pytest.mark.parametrize(
        "packed",
        [
            Packed(1, FLOAT, b"junk"),
            Packed(2, FLOAT, pack([1.0]).blob),
            Packed(1, FLOAT, pack([1.0, 2.0]).blob),
            Packed(1, DELTA, pack([1]).blob[:-6]),
            Packed(1, "morse", pack([1]).blob),
        ],
    )
    def test_damage_is_noticed(self, packed: Packed) -> None:
        """Bytes that are not the announced series raise, and never become other numbers."""
        with pytest.raises(ValueError, match=r"damaged|expected|unknown"):
            unpack(packed)


class TestObservations:
    @given(observation=observations)
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
    def test_an_observation_comes_back_as_it_was(self, store: Store, observation: Observation) -> None:
        """Every field, number and character survives."""
        run = begin(store)
        assert writer.record_observation(store, run, observation)

        (read,) = reader.observations(store, run)
        ordered = replace(observation, series=dict(sorted(observation.series.items())))
        assert same(replace(read, series=dict(sorted(read.series.items()))), ordered)

    def test_the_first_observation_of_a_cell_stands(self, store: Store) -> None:
        """A cell observed again in the same run changes nothing; in another run it is new."""
        first, again = Observation(CELL, Outcome.OBSERVED, at="1"), Observation(CELL, Outcome.HUNG, at="2")
        run = begin(store)

        assert writer.record_observation(store, run, first) is True
        assert writer.record_observation(store, run, again) is False
        assert reader.observations(store, run) == [first]
        assert writer.record_observation(store, begin(store), again) is True

    def test_each_scenario_of_a_cell_is_kept(self, store: Store) -> None:
        """What differs in the scenario alone is another cell, planned, observed and looked back at by itself."""
        run, eager = begin(store), replace(CELL, scenario="eager")
        writer.record_plan(store, run, [CELL, eager])
        assert writer.record_observation(store, run, Observation(eager, Outcome.OBSERVED, at="t"))
        assert reader.missing_cells(store, run) == [CELL]
        assert writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED, at="t"))

        assert [past.observation.cell for past in reader.history(store, eager, limit=9)] == [eager]

    def test_an_observation_without_a_time_gets_one(self, store: Store) -> None:
        """The store's clock dates what the sender did not."""
        run = begin(store)
        writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED))

        assert reader.observations(store, run)[0].at == "2026-01-31T02:03:00.000000Z"

    def test_odd_characters_cost_no_observation(self, store: Store) -> None:
        """Text that a database refuses is mended, in columns and in JSON alike."""
        run = begin(store)
        fault = Fault("signal 6 (SIGABRT)", "half \ud800 pair")
        writer.record_observation(store, run, Observation(CELL, Outcome.CRASHED, fault=fault, log_tail="a\0b\udcff"))

        (read,) = reader.observations(store, run)
        assert read.log_tail == "a\ufffdb\ufffd"
        assert read.fault == Fault("signal 6 (SIGABRT)", "half \ufffd pair")

    def test_nothing_half_written_stays(self, store: Store) -> None:
        """An observation whose series cannot be stored is not there without it."""
        run = begin(store)
        with pytest.raises(OverflowError):
            writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED, series={"s": [10**400]}))

        assert reader.observations(store, run) == []

    def test_a_run_that_does_not_exist_observes_nothing(self, store: Store) -> None:
        """Foreign keys are enforced."""
        with pytest.raises(IntegrityError):
            writer.record_observation(store, "no run", Observation(CELL, Outcome.OBSERVED))

    def test_a_damaged_series_is_named(self, store: Store) -> None:
        """A series that was changed on the disk is reported with the database and its name."""
        run = begin(store)
        writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED, series={"rss_bytes": [1, 2]}))
        with sqlite3.connect(str(store.path)) as connection:
            connection.execute("UPDATE series SET blob = x'00'")
        connection.close()

        with pytest.raises(UsageError, match=r"watchdog\.db: series 'rss_bytes' of observation 1 is damaged"):
            reader.observations(store, run)

    def test_history_shows_the_newest_runs_first(self, store: Store) -> None:
        """The same cell over runs, newest first, no more than asked for, and no other cell."""
        other = replace(CELL, pins="current")
        recorded = []
        for seconds in (1.0, 2.0, 3.0):
            run = begin(store)
            recorded.append(Past(run, Observation(CELL, Outcome.OBSERVED, seconds=seconds, at="x", series={"s": (1,)})))
            writer.record_observation(store, run, recorded[-1].observation)
            writer.record_observation(store, run, Observation(other, Outcome.OBSERVED))

        assert reader.history(store, CELL, limit=2) == recorded[:0:-1]


class TestPlan:
    def test_what_is_planned_and_not_observed_is_missing(self, store: Store) -> None:
        """Missing cells keep the order of the plan; a plan recorded again adds only what is new."""
        run = begin(store)
        plan = [replace(CELL, case=case) for case in ("c", "a", "b")]
        writer.record_plan(store, run, plan)
        writer.record_observation(store, run, Observation(plan[1], Outcome.SKIPPED, reason="no device"))
        writer.record_plan(store, run, [*plan, replace(CELL, case="d"), replace(CELL, case="d")])

        assert [cell.case for cell in reader.missing_cells(store, run)] == ["c", "b", "d"]


class TestRuns:
    def test_a_run_is_read_as_it_was_written(self, store: Store) -> None:
        """Configuration and host come back as they were, infinities included, and so does the end."""
        run = writer.start_run(store, config={"limit": math.inf, "kernels": ["a"]}, host={"cores": 2}, version="0.1.0")
        started = reader.run(store, run)
        writer.finish_run(store, run, state=RunState.FINISHED, exit_code=1)
        finished = reader.run(store, run)

        assert started.id[:-4] == "2026-01-31T02:01:00Z-"
        assert (started.state, started.finished, started.exit_code) == (RunState.RUNNING, None, None)
        assert started.config == {"limit": math.inf, "kernels": ["a"]}
        assert started.host == {"cores": 2}
        assert (finished.state, finished.exit_code) == (RunState.FINISHED, 1)
        assert finished.finished == "2026-01-31T02:03:00.000000Z"

    def test_runs_are_found_by_id_by_its_beginning_and_as_latest(self, store: Store) -> None:
        """Three ways lead to a run, and all runs are listed newest first."""
        first, second = begin(store), begin(store)

        assert [run.id for run in reader.runs(store)] == [second, first]
        assert reader.run(store, first).id == first
        assert reader.run(store, first[:18]).id == first
        assert reader.run(store, "latest").id == second

    def test_a_run_that_is_not_there_is_answered_with_suggestions(self, store: Store) -> None:
        """No runs, an unknown id, an ambiguous beginning and an empty name are four clear sentences."""
        with pytest.raises(UsageError, match=r"there are no runs in .* yet; `watchdog run` makes one"):
            reader.run(store, "latest")
        first, second = begin(store), begin(store)

        with pytest.raises(UsageError, match=f"no run '{first[:-1]}~' in .*did you mean {first}"):
            reader.run(store, first[:-1] + "~")
        with pytest.raises(UsageError, match=f"several runs begin with '2026': {second}, {first}; write more"):
            reader.run(store, "2026")
        with pytest.raises(UsageError, match="there is no run ''"):
            reader.run(store, "")
        with pytest.raises(UsageError, match="there is no run '%'"):
            reader.run(store, "%")

    def test_the_latest_unfinished_run_can_go_on(self, store: Store) -> None:
        """A run that is running, interrupted or failed is unfinished; reopened, it runs again."""
        assert reader.unfinished_runs(store) == []
        interrupted, finished = begin(store), begin(store)
        writer.finish_run(store, interrupted, state=RunState.INTERRUPTED, exit_code=3)
        writer.finish_run(store, finished, state=RunState.FINISHED, exit_code=0)

        (found,) = reader.unfinished_runs(store)
        assert found.id == interrupted
        writer.reopen_run(store, found, owner={"pid": 2})
        reopened = reader.run(store, interrupted)
        assert (reopened.state, reopened.finished, reopened.exit_code) == (RunState.RUNNING, None, None)
        assert reopened.host == {**found.host, "pid": 2}

    def test_only_one_process_takes_up_an_unfinished_run(self, store: Store) -> None:
        """Of two that saw it stopped, the second is refused."""
        run = begin(store)
        writer.finish_run(store, run, state=RunState.INTERRUPTED, exit_code=3)
        found = reader.run(store, run)
        writer.reopen_run(store, found, owner={"pid": 1})
        with pytest.raises(UsageError, match="taken up by another process"):
            writer.reopen_run(store, found, owner={"pid": 2})
        assert reader.run(store, run).host["pid"] == 1

    def test_samples_come_back_in_the_order_in_which_they_ran(self, store: Store) -> None:
        """The time of each process is kept at once; a process that gave none is kept too; no place is taken twice."""
        run = writer.start_run(store, config={}, host={}, version="0")
        cell = replace(CELL, check=Check.TIMING, scenario="")
        taken = [Sample(cell, 0, 0.5, 0.01, 20, "t"), Sample(replace(cell, pins="base"), 0, None, None, 0, "t")]
        for sample in taken:
            writer.record_sample(store, run, sample)

        assert reader.samples(store, run) == taken
        with pytest.raises(IntegrityError):
            writer.record_sample(store, run, taken[0])

    def test_a_gates_answer_is_replaced_when_it_answers_again(self, store: Store) -> None:
        """A run that is no gate has none."""
        run = writer.start_run(store, config={}, host={}, version="0")
        assert reader.gate(store, run) is None
        for answer in ("undecided", "passed"):
            writer.record_gate(store, Gate(run, "a.lock", "b.lock", answer, {"ratio": math.inf}))

        assert reader.gate(store, run) == Gate(run, "a.lock", "b.lock", "passed", {"ratio": math.inf})

    def test_a_run_that_does_not_exist_cannot_be_finished(self, store: Store) -> None:
        """The mistake is named instead of passing in silence."""
        with pytest.raises(UsageError, match="there is no run 'x'"):
            writer.finish_run(store, "x", state=RunState.FINISHED, exit_code=0)


class TestEnvironments:
    NEXT = Environment("next", (), "sha256:1", "jax==0.10.2", "3.11.7", (Package("jax", "0.10.2"),))

    def test_environments_come_back_as_they_were(self, store: Store) -> None:
        """Resolved and unresolved pins are read in the order they were written."""
        unresolved = Environment("broken", ("a", "b"), "", "", "", ())
        run = begin(store)
        writer.record_environment(store, run, self.NEXT)
        writer.record_environment(store, run, unresolved)

        assert reader.environments(store, run) == [self.NEXT, unresolved]

    def test_the_same_pins_and_kernels_are_replaced(self, store: Store) -> None:
        """A resumed run that resolves again does not list its pins twice; other kernels' environments stay."""
        run = begin(store)
        other = replace(self.NEXT, kernels=("a",))
        for environment in (self.NEXT, other, replace(self.NEXT, python="3.11.8")):
            writer.record_environment(store, run, environment)

        assert reader.environments(store, run) == [other, replace(self.NEXT, python="3.11.8")]

    def test_a_lock_is_found_by_its_request(self, store: Store) -> None:
        """Two requests may come to one lock, and a request resolved anew means the new lock."""
        old = Lock("sha256:1", "jax==1", (Package("jax", "1"),), "3.11")
        new = Lock("sha256:2", "jax==2", (Package("jax", "2"),), "3.11")
        writer.store_lock(store, "a", old)
        writer.store_lock(store, "b", old)
        writer.store_lock(store, "a", new)

        assert reader.find_lock(store, "a") == new
        assert reader.find_lock(store, "b") == old
        assert reader.find_lock(store, "c") is None


class TestVerdicts:
    VERDICT = Verdict(
        CELL,
        Status.REGRESSED,
        "leaks",
        baseline="current",
        signal="device_bytes",
        kind="leak",
        suspect=Suspect.KERNEL,
        figure=Figure(16384.0, 16000.5, math.inf, "B/call"),
        detectable=Amount(32.0, "B/call"),
        where="k.py:12",
    )

    @pytest.mark.parametrize(
        "verdict",
        [
            VERDICT,
            Verdict(CELL, Status.PASS, "well"),
            replace(VERDICT, figure=Figure(math.nan, -math.inf, math.inf, "")),
        ],
    )
    def test_a_verdict_comes_back_as_it_was(self, store: Store, verdict: Verdict) -> None:
        """Every field survives, NaN and infinities in its figure included."""
        run = begin(store)
        writer.record_verdicts(store, run, [verdict])

        assert same(reader.verdicts(store, run), [verdict])

    def test_judging_again_replaces_the_verdicts_of_that_run_alone(self, store: Store) -> None:
        """The old verdicts of the run are gone, those of another run are not."""
        first, second = begin(store), begin(store)
        writer.record_verdicts(store, first, [self.VERDICT])
        writer.record_verdicts(store, second, [self.VERDICT, replace(self.VERDICT, signal="fds")])
        writer.record_verdicts(store, second, [replace(self.VERDICT, status=Status.PASS)])

        assert reader.verdicts(store, first) == [self.VERDICT]
        assert reader.verdicts(store, second) == [replace(self.VERDICT, status=Status.PASS)]


class TestSideBySide:
    def test_many_threads_write_at_once_and_all_is_kept(self, store: Store) -> None:
        """Eight threads that write to one store lose nothing and wait for each other."""
        run = begin(store)

        def write(thread: int) -> None:
            for case in range(10):
                cell = replace(CELL, pins=str(thread), case=str(case))
                writer.record_observation(store, run, Observation(cell, Outcome.OBSERVED, series={"s": [case]}))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len({observation.cell for observation in reader.observations(store, run)}) == 80

    def test_another_process_reads_while_one_writes(self, store: Store) -> None:
        """A reader is not held up by a writer in the middle of its transaction, and sees only what is whole."""
        run = begin(store)
        writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED))
        read = f"""
from pathlib import Path
from watchdog.store import open_store, reader
with open_store("sqlite:///{store.path}", root=Path()) as store:
    print(len(reader.observations(store, {run!r})), len(reader.verdicts(store, {run!r})))
"""
        with store.writing() as session:
            session.connection().exec_driver_sql("DELETE FROM observations")
            seen = subprocess.run([sys.executable, "-c", read], cwd=PROGRAM, capture_output=True, text=True, check=True)

        assert seen.stdout.split() == ["1", "0"]
        assert reader.observations(store, run) == []

    def test_what_was_acknowledged_survives_kill_9(self, store: Store) -> None:
        """Every observation whose call returned is there after its process was killed, whole, with its series."""
        run = begin(store)
        write = f"""
from pathlib import Path
from watchdog.model import *
from watchdog.store import open_store, writer
store = open_store("sqlite:///{store.path}", root=Path())
for number in range(100_000):
    cell = Cell("k", "custom", str(number), "p", "host", Check.MEMORY)
    writer.record_observation(store, {run!r}, Observation(cell, Outcome.OBSERVED, series={{"s": [number, number]}}))
    print(number, flush=True)
"""
        process = subprocess.Popen([sys.executable, "-c", write], cwd=PROGRAM, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process.stdout as acknowledgements:
            acknowledged = [next(acknowledgements) for _ in range(20)]
            os.kill(process.pid, signal.SIGKILL)
            acknowledged += list(acknowledgements)
        assert process.wait() == -signal.SIGKILL

        kept = reader.observations(store, run)
        assert len(acknowledged) <= len(kept) <= len(acknowledged) + 1
        assert all(observation.series == {"s": (number, number)} for number, observation in enumerate(kept))
        writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED))

    def test_an_open_store_is_durable_and_checks_its_references(self, store: Store) -> None:
        """WAL, FULL synchronisation and foreign keys are on for the connections that write."""
        with store.writing() as session:
            connection = session.connection()
            settings_read = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }

        assert settings_read == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 60_000}


class TestQueries:
    def test_json_columns_are_json_to_sqlite(self, store: Store) -> None:
        """What is stored can be queried with SQLite's own JSON functions, even where a number is NaN."""
        run = begin(store)
        data = {"outputs": [{"max_abs": math.nan}], "bundles": 506}
        writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED, data=data))
        connection = sqlite3.connect(str(store.path))
        row = connection.execute(
            "SELECT json_valid(data), data ->> '$.bundles', data -> '$.outputs[0].max_abs' FROM observations"
        ).fetchone()
        connection.close()

        assert row[:2] == (1, 506)
        assert json.loads(row[2]) == "nan"

    @pytest.mark.parametrize("query", documented("sql"))
    def test_every_documented_query_works(self, store: Store, query: str) -> None:
        """The queries that docs/store.md shows run on a real store and find what is there."""
        missing = Cell("flash_attention", "custom", "small", "next", "host", Check.MEMORY, "steady")
        compiled = replace(missing, check=Check.COMPILE, scenario="")
        failed = replace(compiled, check=Check.LOWER)
        run = begin(store)
        leak = Verdict(missing, Status.REGRESSED, "leaks", signal="device_bytes")
        writer.record_plan(store, run, [missing, replace(missing, scenario="eager"), compiled])
        writer.record_observation(store, run, Observation(replace(missing, scenario="eager"), Outcome.OBSERVED))
        writer.record_observation(store, run, Observation(compiled, Outcome.OBSERVED, data={"temp_bytes": 4096}))
        writer.record_observation(store, run, Observation(failed, Outcome.FAILED, fault=Fault("E", "no")))
        writer.record_verdicts(store, run, [leak, Verdict(compiled, Status.PASS, "well")])
        connection = sqlite3.connect(str(store.path))
        rows = connection.execute(query).fetchall()
        connection.close()

        assert len(rows) == 1

    @given(whole_numbers | floats)
    def test_the_documented_function_unpacks_series(self, values: list[float]) -> None:
        """The function in docs/store.md reads what the store packed, where steps do not overflow."""
        namespace: dict[str, Any] = {}
        exec(documented("python")[0], namespace)  # noqa: S102  # the documentation's own text
        small = [value % 2**40 if isinstance(value, int) else value for value in values]
        packed = pack(small)

        assert same(namespace["numbers"](packed.count, packed.encoding, packed.blob), small)
