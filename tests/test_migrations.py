"""The database is made and changed safely, and nothing that is not ours is touched."""

import errno
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, create_engine, inspect

from watchdog import asked, plan
from watchdog.config import Config, load
from watchdog.errors import UsageError
from watchdog.model import Cell, Check, Environment, Observation, Outcome, Package, Sample, Status, Verdict
from watchdog.plan import Selection
from watchdog.rooms import room
from watchdog.store import alembic_commands, open_store, reader, sqlite_file, writer
from watchdog.store.series import pack
from watchdog.store.tables import HEAD, REVISION_TABLE, Base
from watchdog.store.upgrade import Migrations

PROGRAM = Path(__file__).parents[1]
URL = "sqlite:///watchdog.db"
CELL = Cell("flash", "custom", "small", "next", "host", Check.MEMORY, "steady")
CELL_BEFORE = ("kernel", "implementation", "case", "pins", "target", "check")  # as 0001 has it

NEXT_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade():
    with op.batch_alter_table("runs", recreate="always") as runs:
        runs.add_column(sa.Column("note", sa.Text))
    {also}


def downgrade():
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("note")
"""


def migrations_to_the_next(folder: Path, *, also: str = "pass") -> Migrations:
    """The shipped migrations and one more, which rebuilds a table that others point at."""
    shutil.copytree(room("migrations"), folder)
    (folder / "versions" / "0004_note.py").write_text(NEXT_MIGRATION.format(also=also), encoding="utf-8")
    return Migrations(folder, "0004")


def fill(root: Path) -> str:
    """A store with one run in which there is something of everything."""
    environment = Environment("next", (), "sha256:1", "jax==1", "3.11.7", (Package("jax", "1"),))
    with open_store(URL, root=root) as store:
        run = writer.start_run(store, config={"a": 1}, host={}, version="0.1.0")
        writer.record_plan(store, run, [CELL])
        writer.record_environment(store, run, environment)
        writer.record_observation(store, run, Observation(CELL, Outcome.OBSERVED, series={"s": [1, 2]}, at="t"))
        writer.record_verdicts(store, run, [Verdict(CELL, Status.PASS, "well")])
    return run


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, read without the program; the columns a later migration adds are left out."""
    connection = sqlite3.connect(path)
    connection.execute("BEGIN")
    found = {}
    for table in Base.metadata.sorted_tables:
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        found[table.name] = connection.execute(f"SELECT {columns} FROM {table.name} ORDER BY 1, 2").fetchall()  # noqa: S608
    connection.close()
    return found


def revision(path: Path) -> str:
    """The revision that is written in the file."""
    connection = sqlite3.connect(path)
    (found,) = connection.execute(f"SELECT version_num FROM {REVISION_TABLE}").fetchone()  # noqa: S608
    connection.close()
    assert isinstance(found, str)
    return found


@contextmanager
def writing(path: Path) -> Iterator[Connection]:
    """A transaction in which a migration may run."""
    engine = sqlite_file.engine(path, foreign_keys=False)
    with sqlite_file.immediate(engine).begin() as connection:
        yield connection
    engine.dispose()


def rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table that the file has, whatever its schema."""
    with writing(path) as connection:
        tables = MetaData()
        tables.reflect(connection)
        return {
            table.name: [dict(row) for row in connection.execute(table.select()).mappings()]
            for table in tables.sorted_tables
            if table.name != REVISION_TABLE
        }


def schema(path: Path) -> dict[str, Any]:
    """Columns, keys, constraints and indexes of every table."""
    with writing(path) as connection:
        looking = inspect(connection)
        return {
            name: [
                [(column["name"], str(column["type"]), column["nullable"]) for column in looking.get_columns(name)],
                looking.get_pk_constraint(name),
                looking.get_foreign_keys(name),
                looking.get_unique_constraints(name),
                looking.get_indexes(name),
            ]
            for name in looking.get_table_names()
        }


def digest(path: Path) -> str:
    """The file's bytes, as one word."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class TestSchema:
    def test_the_migrations_make_the_tables_of_the_models(self, tmp_path: Path) -> None:
        """Between what the migrations make and what the models say there is no difference."""
        open_store(URL, root=tmp_path).close()
        engine = create_engine(f"sqlite:///{tmp_path / 'watchdog.db'}")
        with engine.connect() as connection:
            options = {"version_table": REVISION_TABLE, "compare_type": True}
            differences = compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)
        engine.dispose()

        assert differences == []

    def test_the_constant_is_the_newest_migration(self) -> None:
        """`HEAD` is what the folder of migrations leads to, so that nothing is left out when a store is opened."""
        assert ScriptDirectory(str(room("migrations"))).get_heads() == [HEAD]

    def test_migrations_are_numbered_in_order(self) -> None:
        """Each file begins with its revision, a number of four digits."""
        scripts = list(ScriptDirectory(str(room("migrations"))).walk_revisions())

        assert [script.revision for script in reversed(scripts)] == [f"{n:04}" for n in range(1, len(scripts) + 1)]
        assert all(Path(script.path).name.startswith(f"{script.revision}_") for script in scripts)

    def test_the_first_migration_can_be_undone_on_a_store_with_data(self, tmp_path: Path) -> None:
        """Down removes every table of ours, and up makes them again, empty."""
        fill(tmp_path)
        engine = sqlite_file.engine(tmp_path / "watchdog.db", foreign_keys=False)
        with sqlite_file.immediate(engine).begin() as connection:
            alembic_commands.downgrade(connection, room("migrations"), "base")
            assert inspect(connection).get_table_names() == [REVISION_TABLE]
            alembic_commands.upgrade(connection, room("migrations"), "head")
        engine.dispose()

        with open_store(URL, root=tmp_path) as store:
            assert reader.runs(store) == []


class TestOpening:
    def test_a_new_store_is_made_with_its_folders(self, tmp_path: Path) -> None:
        """A relative path starts at the root, and folders that are missing are made; no copy is."""
        with open_store("sqlite:///.watchdog/deep/w.db", root=tmp_path) as store:
            assert store.path == tmp_path / ".watchdog" / "deep" / "w.db"
            assert reader.runs(store) == []
        assert not list(tmp_path.rglob("*.before-*"))

    @pytest.mark.parametrize("content", [None, b""])
    def test_an_absolute_path_and_an_empty_file_are_fine(self, tmp_path: Path, content: bytes | None) -> None:
        """The root does not matter to an absolute path; an empty file, as `mktemp` makes it, becomes a store."""
        path = tmp_path / "50% empty.db"
        if content is not None:
            path.write_bytes(content)
        with open_store(f"sqlite:///{path}", root=Path("elsewhere")) as store:
            assert reader.runs(store) == []
        assert revision(path) == HEAD

    def test_a_store_that_is_up_to_date_is_opened_without_alembic(self, tmp_path: Path) -> None:
        """Alembic is not imported, no lock is taken and no copy is made when nothing is to be done."""
        fill(tmp_path)
        (tmp_path / "watchdog.db.lock").unlink()
        open_it = (
            "import sys; from pathlib import Path; from watchdog.store import open_store; "
            f"open_store({URL!r}, root=Path({str(tmp_path)!r})).close(); print('alembic' in sys.modules)"
        )
        printed = subprocess.run([sys.executable, "-c", open_it], cwd=PROGRAM, capture_output=True, check=True)

        assert printed.stdout == b"False\n"
        assert [path.name for path in tmp_path.iterdir()] == ["watchdog.db"]

    def test_several_starters_make_one_store(self, tmp_path: Path) -> None:
        """Five programs that start at once on a fresh folder all find a store that works."""
        start = (
            "import sys; from pathlib import Path; from watchdog.store import open_store, writer; "
            f"store = open_store({URL!r}, root=Path({str(tmp_path)!r})); "
            "writer.start_run(store, config={}, host={}, version='1')"
        )
        starters = [
            subprocess.Popen([sys.executable, "-c", start], cwd=PROGRAM, stderr=subprocess.PIPE) for _ in range(5)
        ]
        errors = [starter.communicate()[1] for starter in starters]

        assert errors == [b""] * 5
        with open_store(URL, root=tmp_path) as store:
            assert len(reader.runs(store)) == 5


class TestMigrating:
    def test_data_survive_and_a_copy_from_before_is_kept(self, tmp_path: Path) -> None:
        """After a migration that rebuilds a table every row is there, and the copy is the old store, whole."""
        run = fill(tmp_path)
        before = contents(tmp_path / "watchdog.db")
        with open_store(URL, root=tmp_path, migrations=migrations_to_the_next(tmp_path / "m")):
            pass
        copy = tmp_path / "watchdog.db.before-0004"

        assert contents(tmp_path / "watchdog.db") == before
        assert (revision(tmp_path / "watchdog.db"), revision(copy)) == ("0004", HEAD)
        with open_store(f"sqlite:///{copy}", root=tmp_path) as store:
            assert [observation.cell for observation in reader.observations(store, run)] == [CELL]
        assert contents(copy) == before

    def test_what_is_only_in_the_log_of_writes_is_in_the_copy(self, tmp_path: Path) -> None:
        """The copy holds what was committed and not yet moved from the write-ahead log into the file."""
        run = fill(tmp_path)
        with open_store(URL, root=tmp_path) as still_open:
            late = Cell("flash", "custom", "late", "next", "host", Check.MEMORY, "steady")
            writer.record_observation(still_open, run, Observation(late, Outcome.OBSERVED))
            assert (tmp_path / "watchdog.db-wal").stat().st_size > 0
            open_store(URL, root=tmp_path, migrations=migrations_to_the_next(tmp_path / "m")).close()

        assert len(contents(tmp_path / "watchdog.db.before-0004")["observations"]) == 2

    def test_down_on_a_store_with_data_gives_the_store_from_before(self, tmp_path: Path) -> None:
        """Up and down again leaves every row as it was."""
        fill(tmp_path)
        path, migrations = tmp_path / "watchdog.db", migrations_to_the_next(tmp_path / "m")
        before = contents(path)
        open_store(URL, root=tmp_path, migrations=migrations).close()
        engine = sqlite_file.engine(path, foreign_keys=False)
        with sqlite_file.immediate(engine).begin() as connection:
            alembic_commands.downgrade(connection, migrations.folder, HEAD)
        engine.dispose()

        assert contents(path) == before
        open_store(URL, root=tmp_path).close()

    @pytest.mark.parametrize(
        ("also", "reason"),
        [
            ("raise KeyError('oops')", "'oops'"),
            ("op.execute('DELETE FROM runs')", "point at rows of runs that are gone"),
            ("op.execute('no sql')", "syntax error"),
        ],
    )
    def test_a_migration_that_fails_changes_nothing_and_names_the_copy(
        self, tmp_path: Path, also: str, reason: str
    ) -> None:
        """Half a migration is rolled back, and the message says where the copy is and how to go back to it."""
        fill(tmp_path)
        before = contents(tmp_path / "watchdog.db")
        copy = tmp_path / "watchdog.db.before-0004"

        with pytest.raises(UsageError) as failure:
            open_store(URL, root=tmp_path, migrations=migrations_to_the_next(tmp_path / "m", also=also))
        assert reason in str(failure.value)
        assert f"A copy from before is {copy}: to go back to it, move it over watchdog.db" in str(failure.value)
        assert contents(tmp_path / "watchdog.db") == contents(copy) == before
        assert revision(tmp_path / "watchdog.db") == HEAD
        open_store(URL, root=tmp_path).close()

    def test_a_copy_is_never_replaced(self, tmp_path: Path) -> None:
        """A second attempt makes a second copy, because the first may be the only whole one."""
        fill(tmp_path)
        (tmp_path / "watchdog.db.before-0004").write_bytes(b"precious")
        open_store(URL, root=tmp_path, migrations=migrations_to_the_next(tmp_path / "m")).close()

        assert (tmp_path / "watchdog.db.before-0004").read_bytes() == b"precious"
        assert revision(tmp_path / "watchdog.db.before-0004.2") == HEAD

    def test_several_starters_migrate_once(self, tmp_path: Path) -> None:
        """Four programs that meet an old store at once make one copy and run the migration once."""
        fill(tmp_path)
        migrations = migrations_to_the_next(tmp_path / "m")
        start = (
            "from pathlib import Path; from watchdog.store import open_store; "
            "from watchdog.store.upgrade import Migrations; "
            f"m = Migrations(Path({str(migrations.folder)!r}), '0004'); "
            f"open_store({URL!r}, root=Path({str(tmp_path)!r}), migrations=m).close()"
        )
        starters = [
            subprocess.Popen([sys.executable, "-c", start], cwd=PROGRAM, stderr=subprocess.PIPE) for _ in range(4)
        ]
        errors = [starter.communicate()[1] for starter in starters]

        assert errors == [b""] * 4
        assert [path.name for path in tmp_path.glob("*.before-*")] == ["watchdog.db.before-0004"]

    def test_a_gates_tables_can_be_taken_away_and_nothing_else_with_them(self, tmp_path: Path) -> None:
        """Migration 0003 down leaves what was observed and judged as it was; up makes its tables again, empty."""
        run = fill(tmp_path)
        with open_store(URL, root=tmp_path) as store:
            writer.record_sample(store, run, Sample(replace(CELL, check=Check.TIMING, scenario=""), 0, 0.5))
        kept = contents(tmp_path / "watchdog.db")
        with writing(tmp_path / "watchdog.db") as connection:
            alembic_commands.downgrade(connection, room("migrations"), "0002")
            assert not {"samples", "probes", "gates"} & set(inspect(connection).get_table_names())
            alembic_commands.upgrade(connection, room("migrations"), "head")

        assert contents(tmp_path / "watchdog.db") == {**kept, "samples": []}


class TestScenarios:
    """Migration 0002 makes the scenario a part of a cell."""

    STEADY = Cell("k", "native", "c", "p", "host", Check.MEMORY, "steady")
    SAME = replace(STEADY, kernel="twin")  # another kernel's, answered by the one above
    BROKEN = replace(STEADY, implementation="custom")
    LOWERED = Cell("k", "native", "c", "p", "host", Check.LOWER)
    EAGER = replace(STEADY, scenario="eager")

    def config(self, root: Path) -> Config:
        """Two kernels that share native, and what is asked of them."""
        cases = '[[kernel.case]]\nname = "c"\nargs = ["f32[8]"]\n'
        kernels = "".join(
            f'[[kernel]]\nname = "{name}"\ncustom = "m:{name}"\nnative = "m:g"\n{cases}' for name in ("k", "twin")
        )
        checks = '[watchdog]\nchecks = ["lower", "memory"]\n'
        (root / "watchdog.toml").write_text(checks + '[pins.p]\nrequirements = ["jax"]\n' + kernels, encoding="utf-8")
        return load(root / "watchdog.toml")

    def old_config(self, root: Path) -> dict[str, Any]:
        """What a run was stored with when there were no scenarios."""
        document = asked.document(self.config(root), Selection())
        del document["selection"]["scenarios"], document["config"]["service"]
        del document["config"]["watchdog"]["scenarios"], document["config"]["watchdog"]["memory_budget"]
        for kernel in document["config"]["kernel"]:
            del kernel["scenarios"], kernel["case"][0]["length"]
        return document

    def old_store(self, root: Path) -> Path:
        """A store as 0001 left it: a memory cell that was observed, one like it, one that failed, and another check's."""
        path = root / "watchdog.db"
        with writing(path) as connection:
            alembic_commands.upgrade(connection, room("migrations"), "0001")
            tables = MetaData()
            tables.reflect(connection)

            def put(table: str, *rows: dict[str, Any]) -> None:
                connection.execute(tables.tables[table].insert(), list(rows))

            run = {"id": "r", "started": "s", "state": "interrupted", "version": "0", "host": {}}
            put("runs", run | {"config": self.old_config(root)})
            for number, cell in enumerate((self.STEADY, self.SAME, self.BROKEN, self.LOWERED), 1):
                columns = {name: str(getattr(cell, name)) for name in CELL_BEFORE} | {"run": "r"}
                old = replace(cell, scenario="")
                data = {"same_as": replace(old, kernel="k").address, "x": 0.1} if cell == self.SAME else {}
                fault = {"kind": "E", "message": "no"} if cell == self.BROKEN else None
                outcome = "failed" if fault else "observed"
                seen = {"outcome": outcome, "data": data, "fault": fault, "log_tail": "", "seconds": 0.0, "at": ""}
                judged = {"scenario": "steady", "signal": "heap_bytes"} if cell in (self.STEADY, self.SAME) else {}
                told = {"id": "/".join([old.address, *judged.values()]), "status": "pass", "summary": "well"}
                packed = pack([1.0 * number])
                put("planned_cells", columns)
                put("observations", columns | seen | {"number": number})
                put("series", {"observation": number, "signal": "heap_bytes"} | asdict(packed))
                put("verdicts", columns | judged | told)
        return path

    def test_memory_becomes_steady_and_nothing_else_has_a_scenario(self, tmp_path: Path) -> None:
        """Every old row is there, in each table with the scenario that it meant, with its series."""
        self.old_store(tmp_path)
        everything = [self.STEADY, self.SAME, self.BROKEN, self.LOWERED]
        with open_store(URL, root=tmp_path) as store:
            assert reader.missing_cells(store, "r") == []
            assert [one.cell for one in reader.observations(store, "r")] == everything
            assert [one.series for one in reader.observations(store, "r")] == [
                {"heap_bytes": (float(number),)} for number in range(1, 5)
            ]
            assert [one.cell for one in reader.verdicts(store, "r")] == everything

    def test_a_verdict_has_the_address_that_the_next_run_gives_it(self, tmp_path: Path) -> None:
        """The id of a steady verdict stays what it was; a fault's, which had no scenario, gets it as new ones do."""
        before = {row["id"] for row in rows(self.old_store(tmp_path))["verdicts"]}
        with open_store(URL, root=tmp_path) as store:
            judged = reader.verdicts(store, "r")
        after = [row["id"] for row in rows(tmp_path / "watchdog.db")["verdicts"]]

        assert after == [one.id for one in judged]
        assert before - set(after) == {"k/custom/c/p/host/memory"}
        assert set(after) - before == {"k/custom/c/p/host/memory/steady"}

    def test_a_shared_question_still_names_the_cell_that_was_asked(self, tmp_path: Path) -> None:
        """The link from one kernel's answer to the other's leads to a cell that exists."""
        self.old_store(tmp_path)
        with open_store(URL, root=tmp_path) as store:
            data = {one.cell: one.data for one in reader.observations(store, "r")}

        assert data[self.SAME] == {"same_as": self.STEADY.address, "x": 0.1}

    def test_a_run_from_before_is_resumed_with_what_it_asked(self, tmp_path: Path) -> None:
        """It had one scenario, and gets no nine more."""
        self.old_store(tmp_path)
        with open_store(URL, root=tmp_path) as store:
            config, selection = asked.configuration(reader.run(store, "r"))

        assert {cell.scenario for cell in plan.cells(config, selection)} == {"", "steady"}

    def test_up_and_down_again_is_the_store_from_before(self, tmp_path: Path) -> None:
        """Schema and rows, but that a fault's verdict keeps its scenario; and it can go up again."""
        path = self.old_store(tmp_path)
        before, made = rows(path), schema(path)
        open_store(URL, root=tmp_path).close()
        assert schema(path) != made
        with writing(path) as connection:
            alembic_commands.downgrade(connection, room("migrations"), "0001")
        after = rows(path)

        assert schema(path) == made
        assert {name: some for name, some in after.items() if name != "verdicts"} == {
            name: some for name, some in before.items() if name != "verdicts"
        }
        assert [row["scenario"] for row in after["verdicts"]] == ["steady", "steady", "steady", None]
        with open_store(URL, root=tmp_path) as store:
            assert len(reader.observations(store, "r")) == 4

    def test_down_leaves_out_only_what_the_older_schema_cannot_hold(self, tmp_path: Path) -> None:
        """An observation in a scenario that 0001 did not know goes, with its series; what was judged of it stays."""
        path = self.old_store(tmp_path)
        with open_store(URL, root=tmp_path) as store:
            writer.record_plan(store, "r", [self.EAGER])
            seen = Observation(self.EAGER, Outcome.OBSERVED, series={"heap_bytes": [1.0]})
            assert writer.record_observation(store, "r", seen)
            writer.record_verdicts(store, "r", [*reader.verdicts(store, "r"), Verdict(self.EAGER, Status.PASS, "well")])
            judged = reader.verdicts(store, "r")
        with writing(path) as connection:
            alembic_commands.downgrade(connection, room("migrations"), "0001")
        left = {name: len(some) for name, some in rows(path).items()}

        assert left["planned_cells"] == left["observations"] == left["series"] == 4
        with open_store(URL, root=tmp_path) as store:
            assert len(reader.observations(store, "r")) == 4
            assert reader.verdicts(store, "r") == judged

    def test_a_newer_run_keeps_its_scenarios(self, tmp_path: Path) -> None:
        """Down and up again changes nothing in the configuration of a run that began with scenarios."""
        with open_store(URL, root=tmp_path) as store:
            document = asked.document(self.config(tmp_path), Selection(scenarios=("eager",)))
            run = writer.start_run(store, config=document, host={}, version="1")
        with writing(tmp_path / "watchdog.db") as connection:
            alembic_commands.downgrade(connection, room("migrations"), "0001")
            alembic_commands.upgrade(connection, room("migrations"), "0002")
        with open_store(URL, root=tmp_path) as store:
            assert reader.run(store, run).config == document


class TestRefusing:
    def test_a_newer_database_is_refused_untouched(self, tmp_path: Path) -> None:
        """An older program says that the store is newer, and what to do; the file keeps every byte."""
        open_store(URL, root=tmp_path, migrations=migrations_to_the_next(tmp_path / "m")).close()
        before = digest(tmp_path / "watchdog.db")

        expected = r"watchdog\.db: written by a newer kernel-watchdog \(its schema is 0004, .* up to 0003\); upgrade"
        with pytest.raises(UsageError, match=expected):
            open_store(URL, root=tmp_path)
        assert digest(tmp_path / "watchdog.db") == before

    @pytest.mark.parametrize("content", [b"hello\n", b"<html>" * 1000, b"SQLite format 3\0" + b"junk" * 300])
    def test_a_file_that_is_no_database_is_refused_untouched(self, tmp_path: Path, content: bytes) -> None:
        """Text, a page and a torn header are all named as what they are not, and kept."""
        (tmp_path / "watchdog.db").write_bytes(content)

        with pytest.raises(UsageError, match=r"watchdog\.db: this is not an SQLite database; move it away"):
            open_store(URL, root=tmp_path)
        assert (tmp_path / "watchdog.db").read_bytes() == content

    @pytest.mark.parametrize("table", ["notes", "alembic_version"])
    def test_another_programs_database_is_refused_untouched(self, tmp_path: Path, table: str) -> None:
        """Tables that are not ours, be they of another user of Alembic, are left alone."""
        connection = sqlite3.connect(tmp_path / "watchdog.db")
        connection.execute(f"CREATE TABLE {table} (version_num TEXT)")
        connection.close()
        before = digest(tmp_path / "watchdog.db")

        with pytest.raises(UsageError, match=r"watchdog\.db: this database belongs to another program; give"):
            open_store(URL, root=tmp_path)
        assert digest(tmp_path / "watchdog.db") == before
        assert [path.name for path in tmp_path.iterdir()] == ["watchdog.db"]

    def test_a_damaged_database_is_named(self, tmp_path: Path) -> None:
        """A store whose pages were overwritten is refused when it is opened or read, and kept."""
        fill(tmp_path)
        path = tmp_path / "watchdog.db"
        content = path.read_bytes()
        path.write_bytes(content[:1024] + b"\xff" * (len(content) - 1024))

        with pytest.raises(UsageError, match=r"watchdog\.db: the database is damaged"):
            open_store(URL, root=tmp_path)

    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        """Where a file stands in the way of the folder, the message names the folder and the remedy."""
        (tmp_path / "file").write_text("")

        with pytest.raises(UsageError, match=r"file/deep: the folder of the database cannot be made .*give `database`"):
            open_store("sqlite:///file/deep/w.db", root=tmp_path)

    def test_a_folder_in_place_of_the_database_is_named(self, tmp_path: Path) -> None:
        """A folder is not a database."""
        (tmp_path / "watchdog.db").mkdir()

        with pytest.raises(UsageError, match=r"watchdog\.db: this is not a file"):
            open_store(URL, root=tmp_path)

    def test_a_read_only_file_system_is_named(self) -> None:
        """Where nothing can be written, even by root, the message names the place and the remedy."""
        place = Path("/proc/self")  # a file system that refuses new files to everybody
        with pytest.raises(OSError) as refusal:  # noqa: PT011  # the number is checked below
            (place / "probe").touch()
        assert refusal.value.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)

        with pytest.raises(UsageError, match=r"/proc/self.*(cannot be made|read and written)"):
            open_store("sqlite:////proc/self/w.db", root=Path())

    @pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
    @pytest.mark.parametrize("mode", [0o500, 0o000])
    def test_a_folder_without_permission_is_named(self, tmp_path: Path, mode: int) -> None:
        """A folder that may not be written is named with its remedy."""
        folder = tmp_path / "locked"
        folder.mkdir(mode=mode)

        with pytest.raises(UsageError, match=r"locked: the database needs to be read and written here; change"):
            open_store("sqlite:///locked/w.db", root=tmp_path)

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("watchdog.db", "'watchdog.db' is not a URL"),
            ("", "'' is not a URL"),
            ("sqlite://", "does not name a plain file"),
            ("sqlite:///:memory:", "does not name a plain file"),
            ("sqlite:///file:x?mode=memory&uri=true", "does not name a plain file"),
            ("nosuch://localhost/x", "needs a driver that is not installed"),
            ("mysql+pymysql://me:secret@localhost/x", "needs a driver that is not installed"),
        ],
    )
    def test_a_url_that_leads_nowhere_is_named(self, tmp_path: Path, url: str, message: str) -> None:
        """The sentence repeats what was given, without a password."""
        with pytest.raises(UsageError) as refusal:
            open_store(url, root=tmp_path)

        assert message in str(refusal.value)
        assert "secret" not in str(refusal.value)
        assert list(tmp_path.iterdir()) == []
