"""Lines of keys in TOML documents."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from watchdog.toml_lines import Place, key_lines, line_of

DOCUMENT = '''# a comment with [brackets] = and "quotes
[watchdog]
report = "a # not a comment"   # a comment
checks = [
    "install",  # ] not the end
    "import",

    "lower"
]
[pins]
a.requirements = ["x==1"]
"b.c".python = '3.11'

[[kernel]]
name = """three
lines ""\\"" [[kernel]]
"""
also = { one = "m:f", two = "m:g" }
[kernel.layout]
custom = "m:h"
[[kernel.case]]
name = 'first'
[[kernel.case]]
kwargs = { deep = { n = [1, [2, 3]] }, t = 1979-05-27T07:32:00Z }

[[kernel]]
[[kernel.case]]
args = ["f32[2]",
  "f32[3]"]
'''

EXPECTED: dict[Place, int] = {
    ("watchdog",): 2,
    ("watchdog", "report"): 3,
    ("watchdog", "checks"): 4,
    ("watchdog", "checks", 0): 5,
    ("watchdog", "checks", 1): 6,
    ("watchdog", "checks", 2): 8,
    ("pins",): 10,
    ("pins", "a"): 11,
    ("pins", "a", "requirements"): 11,
    ("pins", "a", "requirements", 0): 11,
    ("pins", "b.c"): 12,
    ("pins", "b.c", "python"): 12,
    ("kernel",): 14,
    ("kernel", 0): 14,
    ("kernel", 0, "name"): 15,
    ("kernel", 0, "also"): 18,
    ("kernel", 0, "also", "one"): 18,
    ("kernel", 0, "also", "two"): 18,
    ("kernel", 0, "layout"): 19,
    ("kernel", 0, "layout", "custom"): 20,
    ("kernel", 0, "case"): 21,
    ("kernel", 0, "case", 0): 21,
    ("kernel", 0, "case", 0, "name"): 22,
    ("kernel", 0, "case", 1): 23,
    ("kernel", 0, "case", 1, "kwargs"): 24,
    ("kernel", 0, "case", 1, "kwargs", "deep"): 24,
    ("kernel", 0, "case", 1, "kwargs", "deep", "n"): 24,
    ("kernel", 0, "case", 1, "kwargs", "deep", "n", 0): 24,
    ("kernel", 0, "case", 1, "kwargs", "deep", "n", 1): 24,
    ("kernel", 0, "case", 1, "kwargs", "deep", "n", 1, 0): 24,
    ("kernel", 0, "case", 1, "kwargs", "deep", "n", 1, 1): 24,
    ("kernel", 0, "case", 1, "kwargs", "t"): 24,
    ("kernel", 1): 26,
    ("kernel", 1, "case"): 27,
    ("kernel", 1, "case", 0): 27,
    ("kernel", 1, "case", 0, "args"): 28,
    ("kernel", 1, "case", 0, "args", 0): 28,
    ("kernel", 1, "case", 0, "args", 1): 29,
}


def test_every_place_of_a_document_has_its_line() -> None:
    """Tables, arrays of tables, dotted and quoted keys, inline tables and elements of arrays are found."""
    tomllib.loads(DOCUMENT)
    assert key_lines(DOCUMENT) == EXPECTED


def test_windows_line_ends_count_once() -> None:
    """A document with carriage returns has the same lines."""
    assert key_lines(DOCUMENT.replace("\n", "\r\n")) == EXPECTED


def test_what_is_missing_is_placed_at_what_is_around_it() -> None:
    """A key that is not there gets the line of its table; one with nothing around it gets none."""
    assert line_of(("kernel", 1, "case", 0, "name"), EXPECTED) == 27
    assert line_of(("pin",), EXPECTED) is None


def _places(value: Any, place: Place = ()) -> set[Place]:
    """Every place in a parsed document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return {p for key, item in inner for p in ((*place, key), *_places(item, (*place, key)))}


KEYS = st.sampled_from(["a", "b-1", '"q.r"', "'s t'", '"\\""', "x.y", 'x . "z"'])
SCALARS = st.sampled_from(
    ["1", "-0.5e3", "true", '"a"', '"\\\\"', "'\\'", '"""\n"" # \\""""', "'''\n'x''''", "1979-05-27 07:32:00", '"]}"']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # [\n" + ",\n".join(items) + "\n]"),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(lambda m: "{" + ", ".join(f"{k} = {v}" for k, v in m) + "}"),
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}  # = ["),
    KEYS.map(lambda key: f"[{key}]"),
    KEYS.map(lambda key: f"[[ {key} ]]"),
    st.sampled_from(["", "# [x]", "[[k]]", "[[k.case]]", "[k.t]"]),
)


@given(st.lists(STATEMENTS, max_size=8).map("\n".join))
def test_the_places_are_exactly_those_that_tomllib_reads(text: str) -> None:
    """For any valid document, the places found are those of the parsed value, on lines that exist."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # only documents that tomllib has accepted are scanned
    lines = key_lines(text)
    assert set(lines) == _places(parsed)
    assert set(lines.values()) <= set(range(1, text.count("\n") + 2))
