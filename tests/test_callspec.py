"""Argument specifications, on the program's side."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.callspec import FILLS, LIMITS, ArgumentSpec, parse_argument

FLOATS = [name for name in LIMITS if name.startswith(("f", "bf"))]
INTEGERS = [name for name in LIMITS if name not in FLOATS and name != "bool"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[]", ArgumentSpec("f32", (), "normal", (0, 1))),
        ("bf16[2,8,2048,128]", ArgumentSpec("bf16", (2, 8, 2048, 128), "normal", (0, 1))),
        ("i32[8]", ArgumentSpec("i32", (8,), "randint", (0, 2))),
        ("bool[8]", ArgumentSpec("bool", (8,), "randint", (0, 2))),
        (" i32[ 8 , 128 ]\trandint ( 0 ,64 ) ", ArgumentSpec("i32", (8, 128), "randint", (0, 64))),
        ("f32[4] ones", ArgumentSpec("f32", (4,), "ones")),
        ("f8e4m3fn[0,4] arange", ArgumentSpec("f8e4m3fn", (0, 4), "arange")),
        ("f16[16] constant(-0.5)", ArgumentSpec("f16", (16,), "constant", (-0.5,))),
        ("u4[16] arange", ArgumentSpec("u4", (16,), "arange")),
        ("f64[2] uniform(-1e-3, .5)", ArgumentSpec("f64", (2,), "uniform", (-0.001, 0.5))),
    ],
)
def test_reads_what_the_documentation_describes(text: str, expected: ArgumentSpec) -> None:
    """Each form of the documented grammar gives the dtype, shape, fill and numbers that it says."""
    assert parse_argument(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "remedy"),
    [
        ("", 1, "expected a dtype"),
        ("float32[8]", 1, "did you mean 'f32'"),
        ("complex[8]", 1, "write one of f64, f32"),
        ("bf61[8]", 1, "did you mean 'bf16'"),
        ("f32 [8]", 4, "'[' directly after the dtype"),
        ("f32", 4, "'f32[]' is a scalar"),
        ("f32[8,-1]", 7, "whole number, 0 or greater"),
        ("f32[8,]", 7, "'' is not a length"),
        ("f32[8", 6, "add ']'"),
        ("f32[8]ones", 7, "expected a space"),
        ("f32[8] onse", 8, "did you mean 'ones'"),
        ("f32[8] (3)", 8, "'(3)' is not a fill"),
        ("f32[8] ones(1)", 12, "takes no parameters"),
        ("f32[8] normal", 14, "write 'normal(mean, sd)'"),
        ("f32[8] normal(1)", 14, "takes 2, not 1"),
        ("f32[8] normal(0, 1", 19, "add ')'"),
        ("f32[8] normal(0, -1)", 8, "must not be negative"),
        ("f32[8] normal(0, 1) x", 21, "'x' is left over"),
        ("f32[8] constant(inf)", 17, "no inf"),
        ("f32[8] constant(1e999)", 17, "decimal number"),
        ("f32[8] constant(1e39)", 8, "does not fit f32"),
        ("f8e4m3fn[8] constant(449)", 13, "does not fit f8e4m3fn"),
        ("i32[8] normal(0, 1)", 8, "is for float dtypes"),
        ("i32[8] constant(0.5)", 17, "not a whole number"),
        ("i8[4] randint(0, 129)", 7, "128 does not fit i8"),
        ("i32[4] randint(3, 3)", 8, "low must be less than high"),
        ("u4[17] arange", 8, "16 does not fit u4"),
        ("u64[4] randint(0, 18446744073709551615)", 8, "does not fit i64"),
        ("bool[4] arange", 9, "not for bool"),
        ("bool[4] randint(0, 3)", 9, "2 does not fit bool"),
    ],
)
def test_a_mistake_is_named_with_its_column_and_a_remedy(text: str, column: int, remedy: str) -> None:
    """Each mistake is one sentence with the specification, the exact column and how to mend it."""
    with pytest.raises(ValueError, match="column") as caught:
        parse_argument(text)
    message = str(caught.value)
    assert message.startswith(f"{text!r}, column {column}: ")
    assert remedy in message
    assert "\n" not in message


def _numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


@st.composite
def specs(draw: st.DrawFn) -> ArgumentSpec:
    dtype = draw(st.sampled_from(sorted(LIMITS)))
    shape = tuple(draw(st.lists(st.integers(0, 2), max_size=3)))
    lowest, highest = LIMITS[dtype]
    if dtype in FLOATS:
        fill = draw(st.sampled_from(sorted(FILLS)))
    elif dtype == "bool":
        return ArgumentSpec(dtype, shape, draw(st.sampled_from(["zeros", "ones"])))
    else:
        fill = draw(st.sampled_from(["zeros", "ones", "arange", "constant", "randint"]))
    match fill:
        case "constant" if dtype in FLOATS:
            return ArgumentSpec(dtype, shape, fill, (draw(_numbers(lowest, highest)),))
        case "constant":
            return ArgumentSpec(dtype, shape, fill, (draw(st.integers(int(lowest), int(highest))),))
        case "normal":
            return ArgumentSpec(dtype, shape, fill, (draw(_numbers(-8, 8)), draw(_numbers(0, 8))))
        case "uniform":
            low = draw(_numbers(-8, 7))
            return ArgumentSpec(dtype, shape, fill, (low, math.nextafter(low, 8)))
        case "randint":
            low_end, high_end = max(int(lowest), -(2**63)), min(int(highest), 2**63 - 1)
            first = draw(st.integers(low_end, high_end))
            return ArgumentSpec(dtype, shape, fill, (first, draw(st.integers(first, high_end)) + 1))
    return ArgumentSpec(dtype, shape, fill)


@given(specs())
def test_the_normal_form_reads_back_as_the_same_specification(spec: ArgumentSpec) -> None:
    """For every valid specification, reading its normal form gives it again, and the form is stable."""
    again = parse_argument(str(spec))
    assert again == spec
    assert str(again) == str(spec)


@given(st.text(alphabet="fbi1326 []()+-.,eaznros0\t", max_size=24))
def test_any_text_is_read_or_refused_with_one_sentence(text: str) -> None:
    """No text at all makes the reader fail in another way than its own one-line ValueError."""
    try:
        spec = parse_argument(text)
    except ValueError as error:
        assert str(error).startswith(f"{text!r}, column ")  # noqa: PT017 - valid text raises nothing
    else:
        assert parse_argument(str(spec)) == spec
