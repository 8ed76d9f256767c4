"""Brings a store's schema up to date, safely: nothing that is not ours is touched, and the old file is kept.

A SQLite file is looked at before anything is written to it. Only when it is ours and older does a migration run:
under a lock (two starters do not both migrate), in one transaction, after a copy was made inside that transaction
(nothing written meanwhile is missing in it).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from watchdog.errors import UsageError
from watchdog.rooms import room
from watchdog.store import sqlite_file
from watchdog.store.tables import HEAD, REVISION_TABLE

_OTHER_PATH = "give `database` in watchdog.toml another path"


@dataclass(frozen=True)
class Migrations:
    """A folder of Alembic migrations, and the revision that they lead to."""

    folder: Path
    head: str

    @classmethod
    def shipped(cls) -> Migrations:
        return cls(room("migrations"), HEAD)


def bring_file_up_to_date(path: Path, migrations: Migrations) -> None:
    """Make the SQLite file at `path`, or migrate it, so that its schema is the one of `migrations`.

    Raises UsageError when the file cannot be used, is another program's or a newer version's, or the migration fails.
    """
    _check_writable(path)
    found = _file_revision(path)
    if found == migrations.head:
        return
    _refuse_newer(found, migrations, str(path))
    with _only_starter(path):
        if _file_revision(path) != migrations.head:  # the one before us may have done it
            _migrate_file(path, migrations)


def bring_server_up_to_date(engine: Engine, name: str, migrations: Migrations) -> None:
    """The same for a database behind a server. No copy is made: that is for the server's own tools.

    Raises UsageError when the database is another program's or a newer version's.
    """
    with engine.begin() as connection:
        tables = set(inspect(connection).get_table_names())
        found = _stored_revision(connection) if REVISION_TABLE in tables else None
        if found is None and tables:
            raise _foreign(name)
        if found != migrations.head:
            _refuse_newer(found, migrations, name)
            _run_migrations(connection, migrations)


def _check_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{path.parent}: the folder of the database cannot be made ({error.strerror}); {_OTHER_PATH}"
        raise UsageError(msg) from error
    _check_access(path.parent, os.R_OK | os.W_OK | os.X_OK)
    if path.exists() and not path.is_file():
        msg = f"{path}: this is not a file, so it cannot be the database; {_OTHER_PATH}"
        raise UsageError(msg)
    if path.exists():
        _check_access(path, os.R_OK | os.W_OK)


def _check_access(place: Path, mode: int) -> None:
    if not os.access(place, mode):
        msg = f"{place}: the database needs to be read and written here; change the permissions, or {_OTHER_PATH}"
        raise UsageError(msg)


def _file_revision(path: Path) -> str | None:
    """The revision of the file's schema; None when there is no file, or nothing in it."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    with sqlite_file.explained(path), closing(sqlite_file.look_into(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not tables:
            return None
        if REVISION_TABLE not in tables:
            raise _foreign(str(path))
        row = connection.execute(f"SELECT version_num FROM {REVISION_TABLE}").fetchone()  # noqa: S608  # a constant
        return row[0] if row else None


def _stored_revision(connection: Connection) -> str | None:
    return connection.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalar()  # noqa: S608  # a constant


def _foreign(name: str) -> UsageError:
    return UsageError(f"{name}: this database belongs to another program; {_OTHER_PATH}")


def _refuse_newer(found: str | None, migrations: Migrations, name: str) -> None:
    if found is None or found in _known_revisions(migrations):
        return
    msg = (
        f"{name}: written by a newer kernel-watchdog (its schema is {found}, this one knows up to {migrations.head}); "
        f"upgrade kernel-watchdog, or {_OTHER_PATH}"
    )
    raise UsageError(msg)


@contextmanager
def _only_starter(path: Path) -> Iterator[None]:
    """Hold the lock file beside the database; it stays, because removing it would let two hold it at once."""
    beside = path.with_name(path.name + ".lock")
    try:
        lock = beside.open("w")
    except OSError as error:
        msg = f"{beside}: cannot be made ({error.strerror}); {_OTHER_PATH}"
        raise UsageError(msg) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _migrate_file(path: Path, migrations: Migrations) -> None:
    found, copy = _file_revision(path), None
    engine = sqlite_file.engine(path, foreign_keys=False)  # a table is rebuilt by dropping it, which would cascade
    try:
        with sqlite_file.explained(path), sqlite_file.immediate(engine).begin() as connection:
            copy = None if found is None else sqlite_file.copy_beside(path, migrations.head)
            _run_migrations(connection, migrations)
            _check_references(connection)
    except Exception as error:  # a migration can fail in any way; the user must learn where the copy is
        if copy is None and isinstance(error, UsageError):
            raise
        raise _failed(path, copy, error) from error
    finally:
        engine.dispose()


def _run_migrations(connection: Connection, migrations: Migrations) -> None:
    from watchdog.store import alembic_commands  # noqa: PLC0415  # a cost that an up-to-date store does not pay

    alembic_commands.upgrade(connection, migrations.folder, migrations.head)


def _known_revisions(migrations: Migrations) -> set[str]:
    from watchdog.store import alembic_commands  # noqa: PLC0415  # as above

    return alembic_commands.known_revisions(migrations.folder)


def _check_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        msg = f"rows of {broken[0][0]} point at rows of {broken[0][2]} that are gone"
        raise ValueError(msg)


def _failed(path: Path, copy: Path | None, error: Exception) -> UsageError:
    msg = f"{path}: bringing the database up to date failed ({error}); nothing in it was changed"
    if copy is not None:
        msg += f". A copy from before is {copy}: to go back to it, move it over {path.name} with no program running"
    return UsageError(msg)
