"""Which line allocated what is alive: the profile that jax hands out, a pprof message."""

from __future__ import annotations

import sysconfig
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.inside import checks
from watchdog.rooms import room

profile = checks("profile")

STRINGS = ["", "/srv/app/kernels/mine.py", "/env/lib/site-packages/jax/_src/api.py", str(room("checks") / "truth.py")]
MINE, JAX, CHECKS = 1, 2, 3  # functions and locations are numbered like the file that they lie in


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sample(stack: list[int], values: list[int], *, packed: bool = True) -> bytes:
    if packed:
        return field(2, field(1, b"".join(map(varint, stack))) + field(2, b"".join(map(varint, values))))
    return field(2, b"".join(field(1, place) for place in stack) + b"".join(field(2, value) for value in values))


def message(*samples: bytes) -> bytes:
    """Samples over three locations, one for each file, at lines 10, 20 and 30."""
    functions = [field(5, field(1, n) + field(2, 0) + field(4, n)) for n in (MINE, JAX, CHECKS)]
    locations = [field(4, field(1, n) + field(4, field(1, n) + field(2, 10 * n))) for n in (MINE, JAX, CHECKS)]
    strings = [field(6, text.encode()) for text in STRINGS]
    return b"".join([*samples, *locations, *functions, *strings])


@pytest.fixture(autouse=True)
def _import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("/srv/app/kernels")
    monkeypatch.syspath_prepend("/env/lib/site-packages")


def by_line(counts: Counter[Any]) -> dict[tuple[str, str], int]:
    """A profile's counts by kind and line, without the frames further out."""
    found: Counter[tuple[str, str]] = Counter()
    for (kind, stack), count in counts.items():
        found[kind, stack.where] += count
    return dict(found)


@pytest.mark.parametrize("packed", [True, False])
def test_samples_are_summed_by_the_users_line(*, packed: bool) -> None:
    """Objects and bytes are added up under the innermost line of the user's, in both encodings of a list."""
    samples = [
        sample([JAX, MINE, CHECKS], [1, 4096], packed=packed),
        sample([CHECKS, JAX, MINE], [2, 300], packed=packed),
    ]
    found = profile.read(message(*samples))
    assert by_line(found.objects) == {("buffer", "mine.py:10"): 3}
    assert by_line(found.bytes) == {("buffer", "mine.py:10"): 4396}


def test_kinds_are_kept_apart() -> None:
    """A label says whether a sample is a buffer or an executable; totals count each by itself."""
    executable = field(
        2, field(1, MINE) + field(2, b"".join(map(varint, [1, 77]))) + field(3, field(1, 4) + field(2, 5))
    )
    text = message(sample([MINE], [2, 8]), executable) + field(6, b"kind") + field(6, b"executable")
    found = profile.read(text)
    assert found.totals(profile.BUFFER) == (2, 8)
    assert found.totals(profile.EXECUTABLE) == (1, 77)


def test_without_a_line_of_the_users_the_innermost_of_the_others_counts() -> None:
    """What jax allocated for itself is placed in jax, never in these checks; what nobody placed is `unknown`."""
    found = profile.read(message(sample([CHECKS, JAX], [1, 8]), sample([CHECKS], [1, 16]), sample([], [1, 32])))
    assert by_line(found.bytes) == {("buffer", "jax/_src/api.py:20"): 8, ("buffer", "unknown"): 48}


def test_inlined_lines_are_seen() -> None:
    """A location with several lines, innermost first, is searched through."""
    lines = field(4, field(1, JAX) + field(2, 7)) + field(4, field(1, MINE) + field(2, 9))
    text = message(sample([9], [1, 8])) + field(4, field(1, 9) + lines)
    assert by_line(profile.read(text).bytes) == {("buffer", "mine.py:9"): 8}


def test_large_numbers_and_other_fields_are_read_past() -> None:
    """Sizes of many bytes are whole, and fields that are not asked for, of every wire type, are stepped over."""
    others = varint(9 << 3 | 1) + b"\0" * 8 + varint(15 << 3 | 5) + b"\0" * 4 + field(10, 2**40) + field(14, b"text")
    found = profile.read(others + message(sample([MINE], [1, 2**40 + 1])))
    assert by_line(found.bytes) == {("buffer", "mine.py:10"): 2**40 + 1}


def test_an_empty_profile_holds_nothing() -> None:
    """Nothing alive is nothing found."""
    assert profile.read(b"") == profile.Profile()


def held(objects: dict[str, int], sizes: dict[str, int]) -> Any:
    """A profile of buffers by line."""
    keys = {where: (profile.BUFFER, profile.Stack(where, (where,))) for where in sizes}
    return profile.Profile(
        Counter({keys[where]: count for where, count in objects.items()}),
        Counter({keys[where]: size for where, size in sizes.items()}),
    )


def test_growth_names_the_lines_that_hold_more_most_bytes_first() -> None:
    """Lines that hold as much as before, or less, are not named; ten are at most; the shares are those of the growth."""
    before = held({"a": 5, "b": 1, "gone": 9}, {"a": 500, "b": 10, "gone": 90})
    lines = {"a": 500, "b": 2010, **{f"new{number:02}": 100 * number for number in range(1, 13)}}
    grown = profile.growth(before, held(dict.fromkeys(lines, 5), lines))
    assert grown[0] == {
        "kind": "buffer",
        "where": "b",
        "bytes": 2000,
        "objects": 4,
        "share": 4 / 64,
        "frames": ["b"],
    }
    assert [site["where"] for site in grown] == ["b", *(f"new{number:02}" for number in range(12, 3, -1))]


def test_one_line_under_several_stacks_is_told_once() -> None:
    """The callers differ, the line does not: counts and shares are added."""
    stacks = [profile.Stack("mine.py:3", ("mine.py:3", caller)) for caller in ("a.py:1", "b.py:2")]
    after = profile.Profile(
        Counter({(profile.BUFFER, stack): 2 for stack in stacks}),
        Counter({(profile.BUFFER, stack): 8 for stack in stacks}),
    )
    (site,) = profile.growth(profile.Profile(), after)
    assert (site["where"], site["objects"], site["bytes"], site["share"]) == ("mine.py:3", 4, 16, 1.0)


def test_the_frames_are_the_users_from_the_line_outwards() -> None:
    """What leads to the line, without jax and the checks, five at most."""
    outer = [field(4, field(1, n) + field(4, field(1, MINE) + field(2, n))) for n in range(11, 17)]
    found = profile.read(message(sample([JAX, MINE, CHECKS, *range(11, 17)], [1, 8])) + b"".join(outer))
    ((_, stack),) = found.objects
    assert stack.frames == ("mine.py:10", "mine.py:11", "mine.py:12", "mine.py:13", "mine.py:14")


def by_stack(**counts: tuple[int, int]) -> Any:
    """A profile of buffers of line 3, by caller: objects and bytes."""
    keys = {name: (profile.BUFFER, profile.Stack("mine.py:3", ("mine.py:3", name))) for name in counts}
    return profile.Profile(
        Counter({keys[name]: objects for name, (objects, _) in counts.items()}),
        Counter({keys[name]: size for name, (_, size) in counts.items()}),
    )


def test_a_line_whose_callers_change_places_does_not_grow() -> None:
    """One caller's buffers are gone when the other's come: the line holds as many as before."""
    assert profile.growth(by_stack(a=(3, 24)), by_stack(b=(3, 24))) == []


def test_a_line_is_told_with_the_callers_that_brought_most() -> None:
    """The growth is the line's as a whole, less what other callers gave back."""
    (site,) = profile.growth(by_stack(a=(3, 24), b=(1, 8)), by_stack(a=(1, 8), b=(9, 72)))
    assert (site["objects"], site["bytes"], site["frames"]) == (6, 48, ["mine.py:3", "b"])


def test_a_buffer_that_becomes_larger_is_growth() -> None:
    """A history in one array: as many buffers as before, and more bytes. It has no share in the new objects."""
    before = held({"history": 1, "new": 1}, {"history": 8, "new": 8})
    after = held({"history": 1, "new": 3}, {"history": 800, "new": 24})
    assert [(site["where"], site["bytes"], site["share"]) for site in profile.growth(before, after)] == [
        ("history", 792, 0.0),
        ("new", 16, 1.0),
    ]


def test_shares_are_those_of_each_kind_by_itself() -> None:
    """Three buffers of four and the only executable."""
    kinds = {"a": profile.BUFFER, "b": profile.BUFFER, "c": profile.EXECUTABLE}
    counts = {(kinds[where], profile.Stack(where)): count for where, count in (("a", 3), ("b", 1), ("c", 1))}
    found = profile.growth(profile.Profile(), profile.Profile(Counter(counts), Counter(counts)))
    assert {site["where"]: site["share"] for site in found} == {"a": 0.75, "b": 0.25, "c": 1.0}


def test_python_itself_is_not_the_users() -> None:
    """The standard library and the checks are passed over, an installed kernel is not."""
    faults = checks("faults")
    assert faults.is_library(str(Path(sysconfig.get_paths()["stdlib"]) / "functools.py"))
    assert faults.is_machinery(str(Path(checks("truth").__file__ or "")))
    assert not faults.is_library("/env/lib/python3.11/site-packages/mine/kernel.py")
