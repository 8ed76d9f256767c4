"""The tables of the store. docs/store.md explains them to people who query them; `migrations/` creates them.

Nothing here is particular to SQLite. The words in `state`, `check`, `outcome`, `status` and `suspect` are those of the
enumerations in `watchdog.model` and `watchdog.store.values`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Dialect, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Text, TypeDecorator
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from watchdog.model import Cell, Check
from watchdog.records import mend

HEAD = "0003"  # the newest migration; a store at this revision is opened without looking further
REVISION_TABLE = "watchdog_revision"  # a name of our own, so that no other program's Alembic is taken for ours

_JSON = JSON(none_as_null=True)  # absent is SQL null, not the JSON text "null"

CELL = ("kernel", "implementation", "case", "pins", "target", "check", "scenario")


class StoredText(TypeDecorator[str]):
    """Text of any length that every database accepts: an observation is not lost because of one odd character."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        del dialect
        return None if value is None else mend(value)


class Base(DeclarativeBase):
    """What the tables share: names of constraints, and how Python's types are stored."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012  # SQLAlchemy reads it from the class; a ClassVar would hide it
        str: StoredText(),
        float: Float(53),
    }


class CellColumns:
    """The parts of `watchdog.model.Cell`; a part that a check does not distinguish is empty, not null."""

    kernel: Mapped[str]
    implementation: Mapped[str]
    case: Mapped[str]
    pins: Mapped[str]
    target: Mapped[str]
    check: Mapped[str]
    scenario: Mapped[str] = mapped_column(server_default="")

    def as_cell(self) -> Cell:
        return Cell(
            self.kernel, self.implementation, self.case, self.pins, self.target, Check(self.check), self.scenario
        )


def cell_columns(cell: Cell) -> dict[str, str]:
    """The cell as the columns of `CellColumns`."""
    return {name: str(getattr(cell, name)) for name in CELL}


def _of_run() -> Mapped[str]:
    return mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))


class RunRow(Base):
    """A run; `config` and `host` are JSON with NaN and the infinities as strings."""

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(primary_key=True)
    started: Mapped[str] = mapped_column(index=True)
    finished: Mapped[str | None]
    state: Mapped[str]
    exit_code: Mapped[int | None]
    version: Mapped[str]
    config: Mapped[dict[str, Any]] = mapped_column(_JSON)
    host: Mapped[dict[str, Any]] = mapped_column(_JSON)


class LockRow(Base):
    """A resolved list of requirements."""

    __tablename__ = "locks"

    hash: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str]
    packages: Mapped[list[Any]] = mapped_column(_JSON)  # [[name, version], …]
    python: Mapped[str]
    created: Mapped[str]


class LockRequestRow(Base):
    """Which lock a request was resolved to; several requests may come to the same lock."""

    __tablename__ = "lock_requests"

    request_key: Mapped[str] = mapped_column(primary_key=True)
    lock_hash: Mapped[str] = mapped_column(ForeignKey("locks.hash", ondelete="CASCADE"))
    created: Mapped[str]


class RunEnvironmentRow(Base):
    """What a run's pins were resolved and installed to; no lock when they could not be."""

    __tablename__ = "run_environments"
    __table_args__ = (Index("ix_run_environments_run", "run"),)

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    run: Mapped[str] = _of_run()
    pins: Mapped[str]
    kernels: Mapped[list[Any]] = mapped_column(_JSON)
    lock_hash: Mapped[str | None] = mapped_column(ForeignKey("locks.hash"))
    python: Mapped[str]
    packages: Mapped[list[Any]] = mapped_column(_JSON)  # what is installed: [[name, version], …]


class PlannedCellRow(CellColumns, Base):
    """A cell that a run is to observe."""

    __tablename__ = "planned_cells"
    __table_args__ = (Unique("run", *CELL),)

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    run: Mapped[str] = _of_run()


class ObservationRow(CellColumns, Base):
    """What a run observed in a cell; its long sequences are in `series`."""

    __tablename__ = "observations"
    __table_args__ = (Unique("run", *CELL), Index("ix_observations_cell", *CELL))

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    run: Mapped[str] = _of_run()
    outcome: Mapped[str]
    reason: Mapped[str | None]
    fault: Mapped[dict[str, Any] | None] = mapped_column(_JSON)
    data: Mapped[dict[str, Any]] = mapped_column(_JSON)
    log_tail: Mapped[str]
    seconds: Mapped[float]
    at: Mapped[str]


class SeriesRow(Base):
    """One packed sequence of numbers of an observation."""

    __tablename__ = "series"

    observation: Mapped[int] = mapped_column(ForeignKey("observations.number", ondelete="CASCADE"), primary_key=True)
    signal: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]
    encoding: Mapped[str]  # `watchdog.store.series` names them
    blob: Mapped[bytes] = mapped_column(LargeBinary)


class VerdictRow(CellColumns, Base):
    """A verdict has a figure when `figure_unit` is not null; a number in it that is null is not a number (NaN)."""

    __tablename__ = "verdicts"
    __table_args__ = (Index("ix_verdicts_run", "run"), Index("ix_verdicts_id", "id", "run"))

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    run: Mapped[str] = _of_run()
    id: Mapped[str]
    status: Mapped[str]
    summary: Mapped[str]
    baseline: Mapped[str | None]
    signal: Mapped[str | None]
    kind: Mapped[str | None]
    suspect: Mapped[str | None]
    figure_value: Mapped[float | None]
    figure_low: Mapped[float | None]
    figure_high: Mapped[float | None]
    figure_unit: Mapped[str | None]
    detectable_value: Mapped[float | None]
    detectable_unit: Mapped[str | None]
    where: Mapped[str | None]


class SampleRow(CellColumns, Base):
    """The time of one process of a gate; `place` is its place among the processes of its cell."""

    __tablename__ = "samples"
    __table_args__ = (Unique("run", *CELL, "place"),)

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    run: Mapped[str] = _of_run()
    place: Mapped[int] = mapped_column(Integer)
    seconds: Mapped[float | None]  # the median of its rounds; null where the process gave none
    spread: Mapped[float | None]  # the median distance of its rounds from that
    rounds: Mapped[int] = mapped_column(Integer)
    at: Mapped[str]


class ProbeRow(Base):
    """What a search learned of one lock; `question` is a digest of all that the answer depends on."""

    __tablename__ = "probes"

    question: Mapped[str] = mapped_column(primary_key=True)
    lock_hash: Mapped[str] = mapped_column(primary_key=True)
    result: Mapped[str]
    said: Mapped[str]
    seconds: Mapped[float]
    at: Mapped[str]


class GateRow(Base):
    """What a gate answered; `document` is what `watchdog gate --json` writes."""

    __tablename__ = "gates"

    run: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    base: Mapped[str]
    head: Mapped[str]
    answer: Mapped[str]
    document: Mapped[dict[str, Any]] = mapped_column(_JSON)
