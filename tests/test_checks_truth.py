"""How far an output is from the truth."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.inside import checks

truth = checks("truth")
NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True)
def trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the one question asked of jax: which arrays an output holds, and where."""

    def flatten(outputs: Any) -> tuple[list[tuple[list[Any], Any]], None]:
        match outputs:
            case dict():
                return [([SimpleNamespace(key=key)], leaf) for key, leaf in outputs.items()], None
            case tuple():
                return [([SimpleNamespace(idx=index)], leaf) for index, leaf in enumerate(outputs)], None
        return [([], outputs)], None

    jax = SimpleNamespace(tree_util=SimpleNamespace(tree_flatten_with_path=flatten))
    monkeypatch.setitem(sys.modules, "jax", jax)


def error(got: Any, right: Any) -> dict[str, Any]:
    (entry,) = truth.errors(np.asarray(got), np.asarray(right))
    found: dict[str, Any] = entry
    return found


def test_the_error_is_absolute_and_the_scale_is_the_truths() -> None:
    """Maximum and root mean square of the difference, beside the root mean square of the truth itself."""
    found = error(np.asarray([1, 2, 3, 5], np.float32), [1.0, 2.0, 3.0, 4.0])
    apart = [abs(a - b) for a, b in zip(found.pop("projections"), found.pop("truth_projections"), strict=True)]
    assert apart == [0.5] * 4, "an error in one element shows in each projection, over the root of the size"
    assert found == {
        "name": "output",
        "shape": [4],
        "dtype": "float32",
        "max_abs": 1.0,
        "rms": 0.5,
        "scale": pytest.approx(math.sqrt(30 / 4)),
        "nan": 0,
        "inf": 0,
    }


def test_small_dtypes_are_compared_in_float64() -> None:
    """A bfloat16's rounding shows as what it is, not rounded once more."""
    found = error(np.asarray([1 / 3], dtype=ml_dtypes.bfloat16), [1 / 3])
    assert found["max_abs"] == abs(float(ml_dtypes.bfloat16(1 / 3)) - 1 / 3) > 0
    assert found["dtype"] == "bfloat16"


def test_nan_and_inf_are_counted_and_left_out() -> None:
    """An output that is no number is counted, and the errors are those of the others."""
    found = error([NAN, INF, -INF, 2.0], [1.0, 1.0, 1.0, 1.0])
    assert (found["nan"], found["inf"], found["max_abs"], found["rms"]) == (1, 2, 1.0, 1.0)


def test_what_the_truth_has_too_is_no_fault() -> None:
    """NaN and infinity where the reference has them count neither as NaN nor as an error."""
    found = error([NAN, INF, 5.0, 1.0], [NAN, INF, INF, 1.0])
    assert (found["nan"], found["inf"], found["max_abs"], found["scale"]) == (0, 0, 0.0, 1.0)


@pytest.mark.parametrize("right", [[NAN, NAN], [INF, -INF]])
def test_a_truth_without_numbers_gives_zeros(right: list[float]) -> None:
    """Where nothing can be compared, the figures are zeros and no warning is raised."""
    found = error([1.0, NAN], right)
    assert [found[key] for key in ("max_abs", "rms", "scale", "nan", "inf")] == [0, 0, 0, 0, 0]


def test_an_empty_output_has_no_error() -> None:
    """An array without elements is compared."""
    assert error(np.zeros((0, 4)), np.zeros((0, 4)))["shape"] == [0, 4]


def test_whole_numbers_and_booleans_are_compared() -> None:
    """Outputs need not be floating point."""
    assert error(np.asarray([-128, 127], np.int8), [127, 127])["max_abs"] == 255
    assert error([True, False], [True, True])["max_abs"] == 1


def test_each_output_has_its_name() -> None:
    """A tree's arrays are named by their place in it."""
    assert [
        entry["name"] for entry in truth.errors({"o": np.ones(2), "l": np.ones(1)}, {"l": np.ones(1), "o": np.ones(2)})
    ] == ["o", "l"]
    assert [entry["name"] for entry in truth.errors((np.ones(2),), (np.ones(2),))] == ["0"]


def test_another_shape_is_said() -> None:
    """An output of another shape than the reference's is a sentence with both, and no broadcasting hides it."""
    with pytest.raises(ValueError, match=r"output has shape \(4, 1\), the reference's has \(4,\)"):
        error(np.ones((4, 1)), np.ones(4))


def test_other_outputs_are_said() -> None:
    """Outputs that the reference lacks are a sentence with the names of both."""
    with pytest.raises(ValueError, match=r"it returns \['0', '1'\], the reference \['0'\]"):
        truth.errors((np.ones(1), np.ones(1)), (np.ones(1),))


def test_two_answers_are_compared_without_a_truth() -> None:
    """How far they are apart where both are numbers, and the NaN that only one of them has."""
    here, there = np.asarray([1.0, 2.0, NAN, NAN, 5.0], np.float32), np.asarray([1.0, 4.0, 3.0, NAN, INF], np.float32)
    (found,) = truth.differences(here, there)
    assert found == {
        "name": "output",
        "max_abs": 2.0,
        "rms": pytest.approx(math.sqrt(2)),
        "nan_here": 1,
        "nan_there": 0,
    }


def test_outputs_of_two_answers_are_matched_by_name() -> None:
    """A tree's arrays are compared with their namesakes."""
    here, there = {"o": np.ones(2), "l": np.zeros(1)}, {"l": np.zeros(1), "o": np.full(2, 3.0)}
    assert {one["name"]: one["max_abs"] for one in truth.differences(here, there)} == {"o": 2.0, "l": 0.0}


def test_small_and_complex_types_are_widened_whole() -> None:
    """Subtracting neither rounds nor loses an imaginary part."""
    assert truth.wide(np.asarray([1 / 3], dtype=ml_dtypes.bfloat16)).dtype == np.float64
    (found,) = truth.differences(np.asarray([1j], np.complex64), np.asarray([0j], np.complex64))
    assert found["max_abs"] == 1.0
