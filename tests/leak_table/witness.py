"""Which alarms on clean cells are true: a long run of the cell, judged apart from all of the tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.leak_table import pytest_tools
from tests.leak_table.campaign import CHECKS, INSIDE, Campaign, Truth, clean_environment, release_of
from watchdog.plan import Job

SECONDS = 1800.0  # for one cell; the calls of most take two minutes

# What each part must add at least to count as growth: by the call, and in all. Other counters have no noise.
_PER_CALL = {"heap_bytes": 16.0, "blocks": 0.25, "objects": 0.1}
_PER_PART = {"heap_bytes": 16_384.0, "blocks": 50.0, "objects": 10.0}
_CACHED = ("objects", "live_arrays", "live_executables")  # what a cache that fills up holds, and what is not noisy


def ask(campaign: Campaign, job: Job, number: int) -> None:
    """Run a cell for long, once. Of one that cannot be run there are no readings, and its alarms count as false."""
    readings = _readings(campaign, job, number)
    if readings.exists():
        return
    python = campaign.python(release_of(job.cells[number]))
    plan = campaign.plan_file(job)
    command = [str(python), "-I", str(INSIDE / "witness.py"), str(plan), str(number), str(readings), str(CHECKS)]
    with readings.with_suffix(".log").open("ab") as log:
        pytest_tools.run_watched(command, clean_environment(), log, readings, seconds=SECONDS)
    if not readings.exists():
        readings.write_text(json.dumps({"calls": 0, "readings": []}), encoding="utf-8")


def truth(campaign: Campaign, job: Job, number: int) -> Truth:
    """What the long run of a cell shows."""
    return shown(json.loads(_readings(campaign, job, number).read_text(encoding="utf-8")))


def shown(run: Mapping[str, Any]) -> Truth:
    """It grows when a counter grew in every part of the run, at first when one that a cache holds grew in the first."""
    parts = [_grown(*pair, run["calls"]) for pair in itertools.pairwise(run["readings"])]
    if parts and set.intersection(*parts):
        return Truth.GROWS
    return Truth.FILLS if parts and parts[0].intersection(_CACHED) else Truth.STILL


def _grown(sooner: Mapping[str, int], later: Mapping[str, int], calls: int) -> set[str]:
    """The counters that grew over one part."""
    return {
        name
        for name in later
        if later[name] - sooner[name] > max(_PER_CALL.get(name, 0.0) * calls, _PER_PART.get(name, 0.0))
    }


def _readings(campaign: Campaign, job: Job, number: int) -> Path:
    return campaign.place("results", "witness") / f"{job.pins}.{job.kernel}.{job.implementation}.{number}.json"
