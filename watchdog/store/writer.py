"""Puts values into the store. Each function is one transaction: on the disk when it returns, or not there at all."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from watchdog.errors import UsageError
from watchdog.model import Cell, Environment, Observation, Package, Sample, Verdict
from watchdog.records import encode_numbers, fault_to_json
from watchdog.store import series
from watchdog.store.engine import Store
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
from watchdog.store.values import Gate, Learned, Lock, Run, RunState


def start_run(store: Store, *, config: Mapping[str, Any], host: Mapping[str, Any], version: str) -> str:
    """Begin a run and return its id, "2026-01-31T02:00:00Z-7f3a".

    `config` is what a later start needs to resume the run, `host` the machine's facts, both JSON values;
    `version` is that of this program.
    """
    with store.writing() as session:
        row = RunRow(
            id=_new_id(session, store),
            started=store.now(),
            finished=None,
            state=RunState.RUNNING.value,
            exit_code=None,
            version=version,
            config=encode_numbers(config),
            host=encode_numbers(host),
        )
        session.add(row)
        return row.id


def finish_run(store: Store, run: str, *, state: RunState, exit_code: int | None) -> None:
    """Say how a run ended. Raises UsageError when there is no such run."""
    _set(store, run, state=state.value, exit_code=exit_code, finished=store.now())


def reopen_run(store: Store, run: Run, *, owner: Mapping[str, Any]) -> None:
    """A run goes on where it stopped, now in the process that `owner` describes (keys of the run's `host`).

    Raises UsageError when there is no such run, or when it is not as `run` says: another process took it up meanwhile.
    """
    with store.writing() as session:
        row = session.get(RunRow, run.id)
        if row is None:
            raise _no_run(store, run.id)
        if (row.state, row.host) != (run.state.value, encode_numbers(run.host)):
            msg = f"run {run.id} was taken up by another process just now; wait for it, or stop it first"
            raise UsageError(msg)
        row.state, row.exit_code, row.finished = RunState.RUNNING.value, None, None
        row.host = {**row.host, **encode_numbers(owner)}


def record_plan(store: Store, run: str, cells: Sequence[Cell]) -> None:
    """Note the cells that the run is to observe; those noted before stay."""
    with store.writing() as session:
        known = {row.as_cell() for row in session.scalars(select(PlannedCellRow).where(PlannedCellRow.run == run))}
        wanted = [cell for cell in dict.fromkeys(cells) if cell not in known]
        session.add_all(PlannedCellRow(run=run, **cell_columns(cell)) for cell in wanted)


def record_environment(store: Store, run: str, environment: Environment) -> None:
    """Note what a run's pins were resolved and installed to; the same pins and kernels replace what was noted."""
    with store.writing() as session:
        _forget_environment(session, run, environment)
        if environment.lock_hash:
            lock = Lock(environment.lock_hash, environment.lock, environment.packages, environment.python)
            _keep_lock(session, lock, store.now())
        session.add(
            RunEnvironmentRow(
                run=run,
                pins=environment.pins,
                kernels=list(environment.kernels),
                lock_hash=environment.lock_hash or None,
                python=environment.python,
                packages=_packages(environment.packages),
            )
        )


def store_lock(store: Store, request_key: str, lock: Lock) -> None:
    """Keep a lock, and that this request came to it; a request that was resolved before now means the new lock."""
    with store.writing() as session:
        now = store.now()
        _keep_lock(session, lock, now)
        session.merge(LockRequestRow(request_key=request_key, lock_hash=lock.hash, created=now))


def record_observation(store: Store, run: str, observation: Observation) -> bool:
    """Keep an observation; it is on the disk when this returns.

    The first observation of a cell in a run stands: a repeated one is ignored, so that a resumed run changes nothing
    that was judged. Returns whether this one was kept. An observation without a time gets the present one.
    """
    with store.writing() as session:
        seen = select(ObservationRow.number).filter_by(run=run, **cell_columns(observation.cell))
        if session.scalar(seen) is not None:
            return False
        row = _observation_row(run, observation, at=observation.at or store.now())
        session.add(row)
        session.flush()
        session.add_all(_series_row(row.number, signal, values) for signal, values in observation.series.items())
    return True


def record_sample(store: Store, run: str, sample: Sample) -> None:
    """Keep the time of one process; it is on the disk when this returns."""
    with store.writing() as session:
        session.add(
            SampleRow(
                run=run,
                **cell_columns(sample.cell),
                place=sample.place,
                seconds=sample.seconds,
                spread=sample.spread,
                rounds=sample.rounds,
                at=sample.at or store.now(),
            )
        )


def record_gate(store: Store, gate: Gate) -> None:
    """Keep what a gate answered, in place of what it answered before."""
    with store.writing() as session:
        row = GateRow(run=gate.run, base=gate.base, head=gate.head, answer=gate.answer)
        row.document = encode_numbers(gate.document)
        session.merge(row)


def record_learned(store: Store, question: str, lock_hash: str, learned: Learned) -> None:
    """Keep what a search learned of a lock, in place of what was known before."""
    with store.writing() as session:
        session.merge(ProbeRow(question=question, lock_hash=lock_hash, **vars(learned), at=store.now()))


def record_verdicts(store: Store, run: str, verdicts: Sequence[Verdict]) -> None:
    """Keep the verdicts of a run in place of those it had: a run can be judged again."""
    with store.writing() as session:
        session.execute(delete(VerdictRow).where(VerdictRow.run == run))
        session.add_all(_verdict_row(run, verdict) for verdict in verdicts)


def _new_id(session: Session, store: Store) -> str:
    started = store.now()[: len("2026-01-31T02:00:00")]
    while True:
        name = f"{started}Z-{secrets.token_hex(2)}"
        if session.get(RunRow, name) is None:
            return name


def _set(store: Store, run: str, **values: Any) -> None:
    with store.writing() as session:
        changed = session.scalar(update(RunRow).where(RunRow.id == run).values(**values).returning(RunRow.id))
    if changed is None:
        raise _no_run(store, run)


def _no_run(store: Store, run: str) -> UsageError:
    return UsageError(f"there is no run {run!r} in {store.name}; `watchdog runs` lists them")


def _forget_environment(session: Session, run: str, environment: Environment) -> None:
    same_pins = select(RunEnvironmentRow).filter_by(run=run, pins=environment.pins)
    for row in session.scalars(same_pins):
        if tuple(row.kernels) == environment.kernels:
            session.delete(row)


def _keep_lock(session: Session, lock: Lock, now: str) -> None:
    if session.get(LockRow, lock.hash) is None:
        row = LockRow(
            hash=lock.hash, text=lock.text, packages=_packages(lock.packages), python=lock.python, created=now
        )
        session.add(row)
        session.flush()  # before the rows that point at it


def _observation_row(run: str, observation: Observation, *, at: str) -> ObservationRow:
    return ObservationRow(
        run=run,
        **cell_columns(observation.cell),
        outcome=observation.outcome.value,
        reason=observation.reason,
        fault=fault_to_json(observation.fault) if observation.fault else None,
        data=encode_numbers(observation.data),
        log_tail=observation.log_tail,
        seconds=observation.seconds,
        at=at,
    )


def _series_row(observation: int, signal: str, values: Sequence[float]) -> SeriesRow:
    packed = series.pack(values)
    return SeriesRow(
        observation=observation, signal=signal, count=packed.count, encoding=packed.encoding, blob=packed.blob
    )


def _verdict_row(run: str, verdict: Verdict) -> VerdictRow:
    figure, detectable = verdict.figure, verdict.detectable
    return VerdictRow(
        run=run,
        id=verdict.id,
        **cell_columns(verdict.cell),
        status=verdict.status.value,
        summary=verdict.summary,
        baseline=verdict.baseline,
        signal=verdict.signal,
        kind=verdict.kind,
        suspect=verdict.suspect.value if verdict.suspect else None,
        figure_value=figure.value if figure else None,
        figure_low=figure.low if figure else None,
        figure_high=figure.high if figure else None,
        figure_unit=figure.unit if figure else None,
        detectable_value=detectable.value if detectable else None,
        detectable_unit=detectable.unit if detectable else None,
        where=verdict.where,
    )


def _packages(packages: Sequence[Package]) -> list[list[str]]:
    return [[package.name, package.version] for package in packages]
