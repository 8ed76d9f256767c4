"""The race detector's words, as releases from 0.5.3 to 0.12.0 say them, become two accesses with their lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inside import checks

races = checks("probes.races")

_CORES_ONLY = """RACE DETECTED
  write of ('vmem', 103, 0)[()] from 100, /srv/kernel.py:19:8 (body)
  read of ('vmem', 103, 0)[(slice(0, 256, 1), slice(0, 256, 1))] from 0, /srv/kernel.py:20:21 (body)
"""
_TWO_CORES = """RACE DETECTED
  write of ('vmem', 103, 0, 0)[()] from 100, 0, /srv/kernel.py:19:8 (scale.<locals>.body)
  read of ('vmem', 103, 0, 0)[(slice(0, 256, 1), slice(0, 256, 1))] from 0, 0, /srv/kernel.py:20:21 (body)
"""
_WITH_CLOCKS = """RACE DETECTED
  write of ('vmem', 103, 0, 0)[()] from 100, 0, /srv/kernel.py:19:8 (body)
  clock: [1 0 0 3]
  read of ('vmem', 103, 0, 0)[()] from 0, 0 /srv/kernel.py:20:21 (body)
  clock: [2 0 0 0]

"""
_AS_TUPLES = """RACE DETECTED
  write of ('vmem', 103, 0, 0)[()] from (100, 0), /srv/kernel.py:19:8 (body)
  clock: <jax._src.pallas.mosaic.interpret.vector_clock.NpVectorClock object at 0x7f0af011bda0>
  read of ('vmem', 103, 0, 0)[()] from (0, 0), /srv/kernel.py:20:21 (body)
  clock: <jax._src.pallas.mosaic.interpret.vector_clock.NpVectorClock object at 0x7f0af011bb60>

"""
_BETWEEN_CORES = """RACE DETECTED
  write of ('any', 101, 0, 0)[(slice(0, 64, 1), slice(0, 256, 1))] from 0, 1, pallas_call
  write of ('any', 101, 0, 0)[(slice(0, 64, 1), slice(0, 256, 1))] from 0, 0, pallas_call
"""
_BETWEEN_COPIES = """RACE DETECTED
  write of ('hbm', 101, 0, 0)[(slice(0, 64, 1), slice(0, 256, 1))] from 105, 0, /srv/kernel.py:30:4 (body)
  write of ('hbm', 101, 0, 0)[(slice(0, 64, 1), slice(0, 256, 1))] from 101, 0, /srv/kernel.py:30:4 (body)
"""
_COPY_AND_CORE_IN_HBM = """RACE DETECTED
  read of ('hbm', 101, 0, 0)[()] from 105, 0, /srv/kernel.py:30:4 (body)
  write of ('hbm', 101, 0, 0)[()] from 0, 1, /srv/kernel.py:31:4 (body)
"""


def found(text: str, call: str | None = None) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = races.found_in(text, call)
    return told


@pytest.mark.parametrize("text", [_CORES_ONLY, _TWO_CORES, _WITH_CLOCKS, _AS_TUPLES], ids=["0.5", "0.6", "0.8", "0.12"])
def test_a_copy_that_nobody_waited_for(text: str) -> None:
    """A core that reads what a copy is still writing in the core's own memory: both lines, in every release's words."""
    assert found(text) == [
        {
            "kind": "copy not awaited",
            "memory": "VMEM",
            "first": {"access": "write", "where": "/srv/kernel.py:19", "core": None},
            "second": {"access": "read", "where": "/srv/kernel.py:20", "core": 0},
        }
    ]


def test_a_race_of_blocks_has_the_line_of_the_call() -> None:
    """What the interpreter does between two steps of a kernel has no line in the body; the call's is the nearest."""
    (race,) = found(_BETWEEN_CORES, "/srv/kernel.py:8")
    assert (race["kind"], race["memory"]) == ("race", "HBM")
    assert race["first"] == {"access": "write", "where": "/srv/kernel.py:8", "core": 1}
    assert race["second"] == {"access": "write", "where": "/srv/kernel.py:8", "core": 0}


def test_a_race_of_blocks_among_several_calls_has_no_line() -> None:
    """Where a program holds several kernels, no line is made up."""
    assert found(_BETWEEN_CORES)[0]["first"]["where"] is None


def test_two_copies_race() -> None:
    """Copies are numbered like devices, from 100 on: neither access is a core's."""
    (race,) = found(_BETWEEN_COPIES)
    assert race["kind"] == "race"
    assert [race[which]["core"] for which in ("first", "second")] == [None, None]


def test_in_memory_that_cores_share_a_copy_may_be_another_cores() -> None:
    """In HBM it is not known that the core itself forgot to wait, and it is not said."""
    (race,) = found(_COPY_AND_CORE_IN_HBM)
    assert race["kind"] == "race"
    assert race["second"] == {"access": "write", "where": "/srv/kernel.py:31", "core": 1}


def test_the_same_two_lines_are_told_once() -> None:
    """A loop races in every turn; two different races stay two."""
    assert len(found(_WITH_CLOCKS * 3 + _BETWEEN_COPIES)) == 2


@pytest.mark.parametrize(
    "text",
    ["", "INTERNAL: CpuCallback error: Traceback (most recent call last): IndexError", "RACE DETECTED\nand no more"],
)
def test_what_is_no_report(text: str) -> None:
    """A traceback is no race, though its name has one in it; nor is a report without two accesses."""
    assert found(text) == []
