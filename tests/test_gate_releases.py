"""Listing the releases of a package with the real uv, from a folder of wheels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.wheelhouse import Wheelhouse
from watchdog import interpreters
from watchdog.errors import IncompleteError, UsageError
from watchdog.gate.releases import Index, PreReleases, releases
from watchdog.uv import Answer, Uv

PUBLISHED = ("1.0", "1.0.post1", "1.1", "1.2", "2.0rc1", "2.0", "2.1")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An index with seven releases, and one for another Python."""
    wheelhouse = Wheelhouse(tmp_path / "house")
    for version in PUBLISHED:
        wheelhouse.add("tiles", version)
    other = wheelhouse.add("tiles", "1.3")
    other.rename(other.with_name("tiles-1.3-cp27-cp27m-any.whl"))
    uv = wheelhouse.uv()
    python = interpreters.find(None, uv)
    assert python is not None
    return Index("tiles", python, uv, tmp_path)


def test_releases_are_listed_in_the_direction_of_the_search(index: Index) -> None:
    """With both ends, without pre-releases and without what this Python cannot install."""
    listed = ("1.0", "1.0.post1", "1.1", "1.2", "2.0", "2.1")
    assert releases(index, "1.0", "2.1") == listed
    assert releases(index, "2.1", "1.0") == tuple(reversed(listed))


def test_neighbours_have_nothing_between_them(index: Index) -> None:
    """The two ends are the whole list."""
    assert releases(index, "1.1", "1.2") == ("1.1", "1.2")


def test_pre_releases_count_where_they_are_wanted(index: Index) -> None:
    """Or where one is named as an end."""
    wanted = replace(index, pre_releases=PreReleases.INCLUDED)
    assert releases(wanted, "1.2", "2.1") == ("1.2", "2.0rc1", "2.0", "2.1")
    assert releases(index, "2.0rc1", "2.1") == ("2.0rc1", "2.0", "2.1")


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("1.1.5", "2.0", "tiles has no release 1.1.5 .* near it are 1.1 and 1.2"),
        ("1.1", "1.3", "tiles has no release 1.3 .* near it are 1.2 and 2.0"),
        ("1.1", "9", "tiles has no release 9 .* near it are 2.1"),
        ("1.1", "1.1", "the same release"),
        ("1.1", "new", "'new' is no version of tiles"),
    ],
)
def test_an_end_that_is_not_there_is_refused_with_its_neighbours(index: Index, good: str, bad: str, said: str) -> None:
    """One sentence says what to write instead."""
    with pytest.raises(UsageError, match=said):
        releases(index, good, bad)


def test_an_unknown_package_is_refused(index: Index) -> None:
    """There is nothing near it."""
    with pytest.raises(UsageError, match="no release of tails at all"):
        releases(replace(index, package="tails"), "1", "2")


@pytest.mark.parametrize(
    "answer", [Answer(2, "", "error: Failed to fetch: https://index/simple/tiles/", 0.1), Answer(None, "", "", 60.0)]
)
def test_an_index_that_cannot_be_read_leaves_the_question_open(index: Index, answer: Answer) -> None:
    """It is no statement about the releases."""
    silent = Uv(index.uv.binary, {}, run=lambda *_args, **_options: answer)
    with pytest.raises(IncompleteError, match="the index could not be read"):
        releases(replace(index, uv=silent), "1.0", "2.0")
