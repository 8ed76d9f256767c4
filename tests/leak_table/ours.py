"""The campaign's part of Kernel Watchdog: one run of the real pipeline, kept in the campaign's own store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.leak_table.campaign import Answer, Campaign, Said, release_of, share_off, subject_of
from watchdog import run as running
from watchdog.judges import judge_run
from watchdog.model import Cell, Check, Observation, Outcome, Status, Verdict
from watchdog.run import ShowProgress
from watchdog.selftest import Plant
from watchdog.store import reader
from watchdog.store.engine import Store, open_store
from watchdog.store.values import RunState

NAME = "kernel-watchdog"
GROWTH = ("leak", "cache growth", "collector")  # the kinds that say that something grows


def ask(campaign: Campaign, show: ShowProgress) -> None:
    """Run, or finish the run that was stopped."""
    with _store(campaign) as store:
        known = reader.runs(store)
        if known and known[0].state is RunState.FINISHED:
            return
        started = running.resumed(store) if known else running.begin(store, campaign.config, campaign.selection)
        running.run(store, started, show, refresh=False)


def answers(campaign: Campaign) -> list[Answer]:
    """What it says of every cell of the campaign, by the judges of today: they are functions of what was observed."""
    with _store(campaign) as store:
        run = reader.run(store, "latest").id
        seen = [one for one in reader.observations(store, run) if one.cell.check is Check.MEMORY]
        judged = judge_run(seen, reader.environments(store, run), campaign.config.baseline, {})
    observations = {one.cell: one for one in seen}
    verdicts: dict[Cell, list[Verdict]] = {}
    for verdict in judged:
        verdicts.setdefault(verdict.cell, []).append(verdict)
    return [_answer(observations[cell], verdicts[cell], campaign.plants) for cell in campaign.cells]


def _answer(observation: Observation, verdicts: list[Verdict], plants: Mapping[str, Plant]) -> Answer:
    cell = observation.cell
    verdict = next((one for one in verdicts if _alarms(one)), verdicts[0])
    told: dict[str, Any] = {}
    plant = plants.get(cell.implementation)
    if plant is not None and _alarms(verdict) and verdict.figure is not None:
        told["error"] = share_off(verdict.figure.value, plant.planted(verdict.signal or ""))
        told["line_is_right"] = verdict.where == plant.line()
    return Answer(
        NAME,
        release_of(cell),
        subject_of(cell),
        cell.scenario,
        _said(observation, verdict),
        kind=verdict.kind or "",
        seconds=observation.seconds,
        **told,
    )


def _alarms(verdict: Verdict) -> bool:
    return verdict.status is Status.REGRESSED and verdict.kind in GROWTH


def _said(observation: Observation, verdict: Verdict) -> Said:
    if observation.outcome is Outcome.SKIPPED:
        return Said.NOT_ASKED
    if observation.outcome.is_fault:
        return Said.BROKEN
    if _alarms(verdict):
        return Said.ALARM
    return Said.UNSURE if verdict.status is Status.INCONCLUSIVE else Said.QUIET


def _store(campaign: Campaign) -> Store:
    return open_store("sqlite:///kernel-watchdog.db", root=campaign.folder)
