"""Takes values out of the store: the frozen words of `watchdog.model` and `watchdog.store.values`, never rows."""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from watchdog.errors import UsageError
from watchdog.model import (
    Amount,
    Cell,
    Environment,
    Figure,
    Observation,
    Outcome,
    Package,
    Sample,
    Status,
    Suspect,
    Verdict,
)
from watchdog.records import decode_numbers, fault_from_json
from watchdog.store.engine import Store
from watchdog.store.series import Packed, unpack
from watchdog.store.tables import (
    GateRow,
    LockRequestRow,
    LockRow,
    ObservationRow,
    PlannedCellRow,
    ProbeRow,
    RunEnvironmentRow,
    RunRow,
    SampleRow,
    SeriesRow,
    VerdictRow,
    cell_columns,
)
from watchdog.store.values import Gate, Learned, Lock, Past, Run, RunState

LATEST = "latest"

_NEWEST_FIRST = (RunRow.started.desc(), RunRow.id.desc())


def runs(store: Store) -> list[Run]:
    """All runs, the newest first."""
    with store.reading() as session:
        return [_run(row) for row in session.scalars(select(RunRow).order_by(*_NEWEST_FIRST))]


def run(store: Store, name: str) -> Run:
    """The run with this id, with an id that begins like this, or "latest".

    Raises UsageError when there is none, or several begin so.
    """
    with store.reading() as session:
        if name == LATEST:
            return _run(_latest(session, store))
        if exact := session.get(RunRow, name):
            return _run(exact)
        return _run(_by_beginning(session, store, name))


def unfinished_runs(store: Store) -> list[Run]:
    """The runs that did not come to their end, newest first: interrupted, failed, or killed while they were running."""
    unfinished = select(RunRow).where(RunRow.state != RunState.FINISHED.value).order_by(*_NEWEST_FIRST)
    with store.reading() as session:
        return [_run(row) for row in session.scalars(unfinished)]


def learned(store: Store, question: str, lock_hash: str) -> Learned | None:
    """What an earlier search learned of a lock; None where nobody asked."""
    with store.reading() as session:
        row = session.get(ProbeRow, (question, lock_hash))
        return None if row is None else Learned(row.result, row.said, row.seconds)


def observations(store: Store, run: str) -> list[Observation]:
    """What a run observed, in the order it was stored. Raises UsageError when a series in the database is damaged."""
    chosen = select(ObservationRow).where(ObservationRow.run == run).order_by(ObservationRow.number)
    with store.reading() as session:
        return _observations(session, store, session.scalars(chosen).all())


def missing_cells(store: Store, run: str) -> list[Cell]:
    """The cells that a run planned and has not observed, in the order of the plan."""
    planned = select(PlannedCellRow).where(PlannedCellRow.run == run).order_by(PlannedCellRow.number)
    seen = select(ObservationRow).where(ObservationRow.run == run)
    with store.reading() as session:
        observed = {row.as_cell() for row in session.scalars(seen)}
        return [cell for row in session.scalars(planned) if (cell := row.as_cell()) not in observed]


def planned_subjects(store: Store, run: str) -> list[tuple[str, str, str]]:
    """Kernel, pins and target of the cells that a run planned, each combination once, in the order of the plan."""
    parts = (PlannedCellRow.kernel, PlannedCellRow.pins, PlannedCellRow.target)
    chosen = select(*parts).where(PlannedCellRow.run == run).group_by(*parts).order_by(func.min(PlannedCellRow.number))
    with store.reading() as session:
        return [(kernel, pins, target) for kernel, pins, target in session.execute(chosen)]


def environments(store: Store, run: str) -> list[Environment]:
    """What a run's pins were resolved and installed to, in the order it was stored."""
    chosen = (
        select(RunEnvironmentRow, LockRow.text)
        .outerjoin(LockRow, RunEnvironmentRow.lock_hash == LockRow.hash)
        .where(RunEnvironmentRow.run == run)
        .order_by(RunEnvironmentRow.number)
    )
    with store.reading() as session:
        return [_environment(row, text) for row, text in session.execute(chosen)]


def verdicts(store: Store, run: str) -> list[Verdict]:
    """What was judged of a run, in the order of the judges."""
    chosen = select(VerdictRow).where(VerdictRow.run == run).order_by(VerdictRow.number)
    with store.reading() as session:
        return [_verdict(row) for row in session.scalars(chosen)]


def samples(store: Store, run: str) -> list[Sample]:
    """The times of a gate's processes, in the order in which they ran."""
    chosen = select(SampleRow).where(SampleRow.run == run).order_by(SampleRow.number)
    with store.reading() as session:
        return [
            Sample(row.as_cell(), row.place, row.seconds, row.spread, row.rounds, row.at)
            for row in session.scalars(chosen)
        ]


def gate(store: Store, run: str) -> Gate | None:
    """What a gate answered; None for a run that is no gate, or one that has not come to its end."""
    with store.reading() as session:
        row = session.get(GateRow, run)
        return None if row is None else Gate(row.run, row.base, row.head, row.answer, decode_numbers(row.document))


def verdict_counts(store: Store) -> dict[str, dict[Status, int]]:
    """How many verdicts of each status every judged run has, by the run's id."""
    grouped = select(VerdictRow.run, VerdictRow.status, func.count()).group_by(VerdictRow.run, VerdictRow.status)
    counts: dict[str, dict[Status, int]] = defaultdict(lambda: dict.fromkeys(Status, 0))
    with store.reading() as session:
        for name, status, count in session.execute(grouped):
            counts[name][Status(status)] = count
    return dict(counts)


def judged_against(store: Store, run: str) -> str | None:
    """The pins that a run's verdicts compare with; None where none does."""
    chosen = select(VerdictRow.baseline).where(VerdictRow.run == run, VerdictRow.baseline.is_not(None)).limit(1)
    with store.reading() as session:
        return session.scalar(chosen)


def history(store: Store, cell: Cell, *, limit: int) -> list[Past]:
    """What the newest runs observed in this cell, the newest first, at most `limit` of them."""
    chosen = (
        select(ObservationRow)
        .filter_by(**cell_columns(cell))
        .join(RunRow, RunRow.id == ObservationRow.run)
        .order_by(*_NEWEST_FIRST)
        .limit(limit)
    )
    with store.reading() as session:
        rows = session.scalars(chosen).all()
        found = _observations(session, store, rows)
        return [Past(row.run, observation) for row, observation in zip(rows, found, strict=True)]


def find_lock(store: Store, request_key: str) -> Lock | None:
    """The lock that this request was last resolved to."""
    chosen = (
        select(LockRow)
        .join(LockRequestRow, LockRequestRow.lock_hash == LockRow.hash)
        .where(LockRequestRow.request_key == request_key)
    )
    with store.reading() as session:
        row = session.scalar(chosen)
        return Lock(row.hash, row.text, _packages(row.packages), row.python) if row else None


def _latest(session: Session, store: Store) -> RunRow:
    row = session.scalar(select(RunRow).order_by(*_NEWEST_FIRST).limit(1))
    if row is None:
        msg = f"there are no runs in {store.name} yet; `watchdog run` makes one"
        raise UsageError(msg)
    return row


def _by_beginning(session: Session, store: Store, name: str) -> RunRow:
    ids = session.scalars(select(RunRow.id).order_by(*_NEWEST_FIRST)).all()
    matches = [one for one in ids if name and one.startswith(name)]
    if len(matches) == 1:
        return session.get_one(RunRow, matches[0])
    if matches:
        msg = f"several runs begin with {name!r}: {_listed(matches)}; write more of the id"
        raise UsageError(msg)
    _latest(session, store)  # says so when there are no runs at all
    close = difflib.get_close_matches(name, ids, n=3, cutoff=0.5) or ids[:3]
    msg = f"there is no run {name!r} in {store.name}; did you mean {_listed(close)}?"
    raise UsageError(msg)


def _listed(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:3])
    return f"{shown} and {len(ids) - 3} more" if len(ids) > 3 else shown  # noqa: PLR2004  # as many as are shown


def _run(row: RunRow) -> Run:
    return Run(
        id=row.id,
        started=row.started,
        finished=row.finished,
        state=RunState(row.state),
        exit_code=row.exit_code,
        version=row.version,
        config=decode_numbers(row.config),
        host=decode_numbers(row.host),
    )


def _observations(session: Session, store: Store, rows: Sequence[ObservationRow]) -> list[Observation]:
    by_observation = _series(session, store, [row.number for row in rows])
    return [_observation(row, by_observation[row.number]) for row in rows]


def _observation(row: ObservationRow, series: Mapping[str, tuple[float, ...]]) -> Observation:
    return Observation(
        cell=row.as_cell(),
        outcome=Outcome(row.outcome),
        reason=row.reason,
        fault=None if row.fault is None else fault_from_json(row.fault),
        data=decode_numbers(row.data),
        series=series,
        log_tail=row.log_tail,
        seconds=row.seconds,
        at=row.at,
    )


def _series(session: Session, store: Store, numbers: Sequence[int]) -> dict[int, dict[str, tuple[float, ...]]]:
    found: dict[int, dict[str, tuple[float, ...]]] = defaultdict(dict)
    for start in range(0, len(numbers), 500):  # databases limit the parameters of one statement
        chosen = select(SeriesRow).where(SeriesRow.observation.in_(numbers[start : start + 500]))
        for row in session.scalars(chosen.order_by(SeriesRow.signal)):
            found[row.observation][row.signal] = _unpacked(row, store)
    return found


def _unpacked(row: SeriesRow, store: Store) -> tuple[float, ...]:
    try:
        return unpack(Packed(row.count, row.encoding, row.blob))
    except ValueError as error:
        msg = f"{store.name}: series {row.signal!r} of observation {row.observation} is damaged ({error})"
        raise UsageError(msg) from error


def _environment(row: RunEnvironmentRow, lock: str | None) -> Environment:
    return Environment(
        pins=row.pins,
        kernels=tuple(row.kernels),
        lock_hash=row.lock_hash or "",
        lock=lock or "",
        python=row.python,
        packages=_packages(row.packages),
    )


def _packages(pairs: Iterable[tuple[str, str]]) -> tuple[Package, ...]:
    return tuple(Package(name, version) for name, version in pairs)


def _verdict(row: VerdictRow) -> Verdict:
    return Verdict(
        cell=row.as_cell(),
        status=Status(row.status),
        summary=row.summary,
        baseline=row.baseline,
        signal=row.signal,
        kind=row.kind,
        suspect=Suspect(row.suspect) if row.suspect else None,
        figure=_figure(row),
        detectable=None if row.detectable_unit is None else Amount(_number(row.detectable_value), row.detectable_unit),
        where=row.where,
    )


def _figure(row: VerdictRow) -> Figure | None:
    if row.figure_unit is None:
        return None
    value, low, high = (_number(number) for number in (row.figure_value, row.figure_low, row.figure_high))
    return Figure(value, low, high, row.figure_unit)


def _number(stored: float | None) -> float:
    """SQLite has no NaN: it stores null instead, and a figure that has a unit has its numbers."""
    return math.nan if stored is None else stored
