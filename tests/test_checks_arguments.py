"""Arrays made from argument specifications, on the environment's side."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.inside import checks
from watchdog.callspec import FILLS, LIMITS, ArgumentSpec, parse_argument

arguments = checks("arguments")

LONG_NAMES = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint"}
ROOT = {name: name.rstrip("0123456789") for name in LIMITS}


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype that a short name stands for, found in another way than the checks find it."""
    if name == "bool":
        return np.dtype(bool)
    if "e" in name:
        long_name = f"float8_{name.removeprefix('f8')}"
    else:
        long_name = LONG_NAMES[ROOT[name]] + name.removeprefix(ROOT[name])
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, long_name, None) or long_name)
    return found


def made(text: str, seed: int = 0, index: int = 0) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = arguments.make(arguments.parse(text), seed, index)
    return array


EDGES = [limit for limits in LIMITS.values() for limit in limits]
NUMBERS = (
    st.sampled_from(EDGES).map(repr)
    | st.integers(-(2**64), 2**64).map(str)
    | st.integers(-300, 300).map("{:+d}".format)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.sampled_from([".5", "1.", "-1e-3", "5e-324", "00000000000000000000000000000000000000000000000000007"])
)
SPACES = st.sampled_from(["", " ", "\t "])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Specifications, right and wrong, spaced in every way."""

    def spaced(parts: list[str]) -> str:
        return ",".join(draw(SPACES) + part + draw(SPACES) for part in parts)

    dtype, fill = draw(st.sampled_from(list(LIMITS))), draw(st.sampled_from([*FILLS, ""]))
    shape = spaced([str(length) for length in draw(st.lists(st.integers(0, 4), max_size=3))])
    numbers = [draw(NUMBERS) for _ in FILLS.get(fill, ())]
    if fill in ("uniform", "randint"):
        numbers.sort(key=float)
    parameters = f"{draw(SPACES)}({spaced(numbers)})" if numbers else ""
    return f"{draw(SPACES)}{dtype}[{shape}] {draw(SPACES)}{fill}{parameters}{draw(SPACES)}"


def parsed(text: str) -> ArgumentSpec:
    """As the program reads it; a text that it refuses never comes to the checks."""
    try:
        return parse_argument(text)
    except ValueError:
        assume(condition=False)
        raise


@given(texts(), st.integers(0, 2**32))
@example("i64[2] constant(9223372036854775807)", 0)
@example("u64[2] constant(18446744073709551615)", 0)
@example("i64[8] randint(9223372036854775806, 9223372036854775807)", 0)
@example("f64[4] uniform(-1.7976931348623157e308, 1.7976931348623157e308)", 0)
@example("f64[4] constant(1000000000000000000000000000000000000000)", 0)
@example("f16[64] normal(65504, 60000)", 0)
@example("f8e4m3fn[64] normal(400, 400)", 0)
def test_whatever_the_program_accepts_becomes_the_array_that_it_means(text: str, seed: int) -> None:
    """Every specification that the program accepts gives the dtype, the shape and the values that it says."""
    spec = parsed(text)
    array = made(text, seed)
    assert array.dtype == dtype_of(spec.dtype)
    assert array.shape == spec.shape
    low, high = expected_range(spec)
    values = [float(value) if spec.is_float else int(value) for value in array.flat]
    assert all(low <= value <= high for value in values), (low, high, values)
    if spec.fill == "arange":
        assert values == list(range(spec.size))


def expected_range(spec: ArgumentSpec) -> tuple[float, float]:
    """The least and the greatest value that may be there, rounded as the dtype rounds."""

    def rounded(value: float) -> float:
        return float(np.float64(value).astype(dtype_of(spec.dtype))) if spec.is_float else value

    match spec.fill:
        case "zeros":
            return 0, 0
        case "ones":
            return 1, 1
        case "constant":
            return rounded(spec.fill_args[0]), rounded(spec.fill_args[0])
        case "arange":
            return 0, spec.size
        case "normal":
            return LIMITS[spec.dtype]
        case "randint":
            return rounded(spec.fill_args[0]), rounded(spec.fill_args[1] - 1)
    return rounded(spec.fill_args[0]), rounded(spec.fill_args[1])


def test_arguments_of_one_seed_are_streams_of_their_own() -> None:
    """Neighbours differ, the same place gives the same array again, and it is the documented stream."""
    first, second = (made("f32[64]", seed=7, index=index) for index in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, made("f32[64]", seed=7, index=0))
    assert np.array_equal(second, np.random.default_rng([7, 1]).normal(0, 1, 64).astype(np.float32))


@pytest.mark.parametrize("text", ["f32[64] randint(0, 3)", "i8[64] randint(0, 3)", "bool[64]"])
def test_random_whole_numbers_reach_both_ends(text: str) -> None:
    """The least and the greatest number are both drawn, and nothing between them that is not whole."""
    top = 1 if text.startswith("bool") else 2
    assert {float(value) for value in made(text).flat} == set(range(top + 1))


@pytest.mark.parametrize("text", ["float32[8]", "f32", "f32[a]", "f32[8] ones ones"])
def test_what_the_grammar_lacks_is_refused(text: str) -> None:
    """A text that is no specification is named in a ValueError."""
    with pytest.raises(ValueError, match="no argument specification"):
        arguments.parse(text)


def test_an_unknown_fill_is_refused() -> None:
    """A fill that does not exist is named, with those that do."""
    with pytest.raises(ValueError, match="unknown fill 'twos'; one of zeros, ones"):
        made("f32[8] twos")
