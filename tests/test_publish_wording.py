"""Figures and texts as people read them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.model import Figure
from watchdog.publish import wording


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (268_628_992, "B", "256.2 MiB"),
        (1023, "B", "1,023 B"),
        (1024, "B", "1 KiB"),
        (0, "B", "0 B"),
        (-16384, "B/call", "−16 KiB/call"),
        (4.12e-4, "s", "412 µs"),
        (0.0415, "s", "41.5 ms"),
        (90, "s", "90 s"),
        (1.08, "ratio", "×1.08"),
        (12, "%", "12%"),
        (514, "bundles", "514 bundles"),
        (8.6e9, "flop", "8.6 Gflop"),
        (1_234_567, "", "1,234,567"),
        (0.0078, "", "0.0078"),
        (4.1e-7, "", "4.1e−7"),
        (float("nan"), "s", "not a number s"),
        (float("inf"), "B", "infinite B"),
    ],
)
def test_an_amount_stands_in_the_unit_that_people_use(value: float, unit: str, text: str) -> None:
    """Sizes are binary, times go down to nanoseconds, ratios carry their sign, thousands are separated."""
    assert wording.amount(value, unit) == text


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(1.083, 1.074, 1.092, "ratio"), "×1.083 ± 0.009"),
        (Figure(1.08, 1.066, 1.094, "ratio"), "×1.080 ± 0.014"),
        (Figure(4.12e-4, 4.10e-4, 4.14e-4, "s"), "412 ± 2 µs"),
        (Figure(4.12e-4, 4.03e-4, 4.51e-4, "s"), "412 µs (403 to 451)"),
        (Figure.exact(16384, "B/call"), "16 KiB/call"),
        (Figure(2048, 1024, 3072, "B/call"), "2.0 ± 1.0 KiB/call"),
        (Figure(2048, -1, 1.38e8, "B/call"), "0 MiB/call (0 to 132)"),
        (Figure(315, -7e4, 7.1e4, "B/call"), "0 ± 69 KiB/call"),
        (Figure(3, 1, float("inf"), "B"), "3 B (1 to infinite)"),
    ],
)
def test_a_figure_shows_its_interval_to_the_digits_that_mean_something(figure: Figure, text: str) -> None:
    """One digit of uncertainty (two after a 1), as many decimals of the value; lopsided intervals show both ends."""
    assert wording.figure(figure) == text


@given(st.text() | st.text(alphabet="\x1b[]0;m\x07\x9b\\ab\n\r\u202e\u2066"))
def test_cleaned_text_holds_nothing_that_moves_a_cursor_or_turns_text_around(text: str) -> None:
    """No control character but tab and newline, and no bidi control, is left, whatever comes in; it can be encoded."""
    cleaned = wording.clean(text)
    assert not [one for one in cleaned if unicodedata.category(one) == "Cc" and one not in "\n\t"]
    assert not set(cleaned) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    cleaned.encode()


def test_an_escape_sequence_that_never_ends_hides_nothing() -> None:
    """The start of a terminal title without its end does not swallow the text behind it."""
    assert "the error" in wording.clean("\x1b]0;title the error\nmore")


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    """Whatever the text, the result fits."""
    line = wording.one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_a_long_log_keeps_its_end_and_says_what_was_left_out() -> None:
    """A megabyte becomes a few kilobytes, with the last line in it and the loss stated."""
    shown = wording.tail("x" * 1_000_000 + "\nSegmentation fault\n")
    assert shown.endswith("Segmentation fault")
    assert "characters before this]" in shown
    assert len(shown) < 13_000


def test_a_short_log_is_shown_whole() -> None:
    """Nothing is said to be missing where nothing is."""
    assert wording.tail("one\ntwo\n") == "one\ntwo"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.42, "0.4 s"), (59.4, "59 s"), (125, "2 min 05 s"), (12_000, "3 h 20 min")]
)
def test_a_duration_reads_like_a_clock(seconds: float, text: str) -> None:
    """Lengths of time grow into minutes and hours."""
    assert wording.duration(seconds) == text


def test_a_moment_names_its_zone() -> None:
    """Times of other zones are told in UTC; what is not a time is told as it came."""
    assert wording.moment("2026-01-31T03:00:00+01:00") == "2026-01-31 02:00 UTC"
    assert wording.moment("soon") == "soon"
