"""What is particular to SQLite: how its files are opened, copied and locked, and what its errors mean for the user.

WAL lets others read while one writes. `synchronous=FULL` makes a commit survive a power cut, which `NORMAL` does not
promise in WAL mode. A transaction that writes takes the write lock at its start (`BEGIN IMMEDIATE`): one that read
first and then wants to write could not wait for another writer.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from watchdog.errors import UsageError
from watchdog.store.json_columns import JSON_OPTIONS

PATIENCE = 60  # seconds to wait for another program's transaction

_MEANINGS = {  # by SQLite's name for the error, or for the family of errors
    "SQLITE_NOTADB": "this is not an SQLite database; move it away, or give `database` in watchdog.toml another path",
    "SQLITE_CORRUPT": "the database is damaged; move it away, or put back a copy that is whole",
    "SQLITE_READONLY": "the database cannot be written; change the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "the database cannot be opened; check that the file and its folder can be read and written",
    "SQLITE_PERM": "the database cannot be opened; check that the file and its folder can be read and written",
    "SQLITE_FULL": "the disk is full; make room and start again, what was stored is kept",
    "SQLITE_BUSY": f"another program has kept the database locked for {PATIENCE} s; end it, or try again later",
    "SQLITE_IOERR": "the disk reported an error; what was stored before is kept if the disk is sound",
}


def look_into(path: Path) -> sqlite3.Connection:
    """A plain connection that neither makes the file nor changes any of its settings."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=PATIENCE)


def engine(path: Path, *, foreign_keys: bool = True) -> Engine:
    """An engine on the file; connections may move between threads."""
    made = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": PATIENCE}, **JSON_OPTIONS)

    def prepare(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says, and nowhere else
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(made, "connect", prepare)
    event.listen(made, "begin", _begin)
    return made


def immediate(made: Engine) -> Engine:
    """The same engine, for transactions that write."""
    return made.execution_options(writes=True)


def copy_beside(path: Path, revision: str) -> Path:
    """Copy the database to `<name>.before-<revision>`, safely on the disk when this returns.

    An earlier copy is never replaced: it may be the only whole one.
    """
    copy = _free_name(path.with_name(f"{path.name}.before-{revision}"))
    unfinished = copy.with_name(copy.name + ".part")
    unfinished.unlink(missing_ok=True)
    with closing(look_into(path)) as source, closing(sqlite3.connect(unfinished)) as target:
        source.backup(target)
    shutil.copymode(path, unfinished)
    _sync(unfinished)
    unfinished.rename(copy)
    _sync(copy.parent)
    return copy


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's complaints about the file, its folder or its disk into a UsageError; others pass unchanged."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(error, path) or error from error
    except DBAPIError as error:
        raise _explain(error.orig, path) or error from error


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _explain(error: Any, path: Path) -> UsageError | None:
    name = getattr(error, "sqlite_errorname", "")
    meaning = _MEANINGS.get("_".join(name.split("_")[:2]))
    return UsageError(f"{path}: {meaning}") if meaning else None


def _free_name(wanted: Path) -> Path:
    name, number = wanted, 2
    while name.exists():
        name, number = wanted.with_name(f"{wanted.name}.{number}"), number + 1
    return name


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
