"""Opens the store: one database, its schema brought up to date, with a way to read and a way to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.orm import Session

from watchdog.errors import UsageError
from watchdog.store import sqlite_file
from watchdog.store.json_columns import JSON_OPTIONS
from watchdog.store.upgrade import Migrations, bring_file_up_to_date, bring_server_up_to_date

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock; tests give the store another."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Store:
    """An open store. Threads may share it: each call of `reading` or `writing` is a transaction of its own."""

    name: str  # for messages; never a password
    engine: Engine
    path: Path | None  # of the SQLite file
    clock: Clock = utc_now

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees the store as it is now, whatever is written meanwhile.

        Raises UsageError when the database cannot be read.
        """
        with self._explained(), Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose changes are on the disk when the block ends, or none of them when it raises.

        Raises UsageError when the database cannot be written.
        """
        engine = self.engine if self.path is None else sqlite_file.immediate(self.engine)
        with self._explained(), Session(engine) as session, session.begin():
            yield session

    def now(self) -> str:
        """The time in UTC, ISO 8601, to the microsecond: text that sorts as time does."""
        return self.clock().astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _explained(self) -> AbstractContextManager[None]:
        return nullcontext() if self.path is None else sqlite_file.explained(self.path)


def open_store(url: str, *, root: Path, clock: Clock = utc_now, migrations: Migrations | None = None) -> Store:
    """The store at an SQLAlchemy URL, made or migrated where that is needed.

    A relative SQLite path starts at `root`. `migrations` are those that come with the program unless given.
    Raises UsageError when the URL does not parse, or the database cannot be reached, is not ours or is newer than us.
    """
    address = _parse(url)
    wanted = migrations or Migrations.shipped()
    if address.get_backend_name() == "sqlite":
        path = _path(address, root)
        bring_file_up_to_date(path, wanted)
        return Store(str(path), sqlite_file.engine(path), path, clock)
    return _open_server(address, wanted, clock)


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        msg = f"database: {url!r} is not a URL; write for example sqlite:///.watchdog/watchdog.db"
        raise UsageError(msg) from error


def _path(address: URL, root: Path) -> Path:
    name = address.database
    if not name or name == ":memory:" or name.startswith("file:") or address.query:
        msg = (
            f"database: {address.render_as_string()!r} does not name a plain file; "
            "a run must survive the program: write for example sqlite:///.watchdog/watchdog.db"
        )
        raise UsageError(msg)
    return root / name


def _open_server(address: URL, migrations: Migrations, clock: Clock) -> Store:
    name = address.render_as_string(hide_password=True)
    try:
        engine = create_engine(address, pool_pre_ping=True, **JSON_OPTIONS)
    except (NoSuchModuleError, ImportError) as error:
        msg = f"database: {name!r} needs a driver that is not installed ({error}); install it beside kernel-watchdog"
        raise UsageError(msg) from error
    try:
        bring_server_up_to_date(engine, name, migrations)
    except OperationalError as error:
        engine.dispose()
        msg = f"database: {name!r} cannot be used ({error.orig}); check the address, and that the server runs"
        raise UsageError(msg) from error
    return Store(name, engine, None, clock)
