"""Races are told by the detector's own words, and by nothing that only looks like them."""

from __future__ import annotations

import pytest

from tests.inside import checks

races = checks("probes.races")


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ("RACE DETECTED", True),
        ("Detected race condition in shared memory", True),
        ("INTERNAL: CpuCallback error: Traceback (most recent call last): IndexError", False),
        ("Out-of-bounds read while tracing", False),
    ],
)
def test_what_is_a_race(message: str, is_one: bool) -> None:
    """A traceback is no race, though its name has one in it."""
    assert races.is_race(RuntimeError(message)) is is_one
