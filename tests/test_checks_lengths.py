"""One case's inputs at several lengths. jax itself is in the environments; here it only calls the function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.inside import checks

lengths, plan, subjects, faults = (checks(name) for name in ("lengths", "plan", "subject", "faults"))


@pytest.fixture(autouse=True)
def jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jax that compiles nothing and has nothing to wait for."""
    stand_in = SimpleNamespace(jit=lambda function: function, block_until_ready=lambda result: result)
    monkeypatch.setitem(sys.modules, "jax", stand_in)


def subject(*args: str, length: int | None = None, inputs: str | None = None, **kwargs: Any) -> Any:
    """A cell whose case has these arguments."""
    kernel = plan.Kernel("k", None, {"custom": "m:f"}, {}, inputs, None, None, None, None)
    case = plan.Case("small", list(args), kwargs, 0, length)
    cell = plan.PlannedCell(1, "memory", "small", "cpu", "shapes")
    return subjects.Subject(
        plan.Plan(kernel, "custom", {"small": case}, [cell], ["memory"], "cpu", "cpu", 1.0, 1.0, Path()), cell
    )


def shapes(found: dict[int, tuple[Any, ...]]) -> dict[int, list[tuple[int, ...]]]:
    return {length: [array.shape for array in arrays] for length, arrays in found.items()}


def anything(*_: Any) -> None:
    """An implementation that takes every length."""


def test_the_largest_dimension_is_varied() -> None:
    """Every dimension of its size becomes three quarters, a half and a quarter; the others stay."""
    found = lengths.inputs_by_length(subject("f32[2,64,8]", "f32[64,64]", "f32[8]"), anything)
    assert shapes(found) == {n: [(2, n, 8), (n, n), (8,)] for n in (64, 48, 32, 16)}


def test_the_cases_own_length_goes_before_the_largest() -> None:
    """A case may say which dimension is its length, where that is not the largest."""
    found = lengths.inputs_by_length(subject("f32[16,128]", length=16), anything)
    assert shapes(found) == {n: [(n, 128)] for n in (16, 12, 8, 4)}


def test_short_lengths_are_asked_once() -> None:
    """A length of two has one shorter one, and no length is less than one."""
    assert list(lengths.inputs_by_length(subject("f32[2]"), anything)) == [2, 1]


@pytest.mark.parametrize(("fill", "shift"), [("randint(0, 64)", 0), ("randint(1, 65)", 1)])
def test_numbers_that_index_the_length_stay_within_it(fill: str, shift: int) -> None:
    """An upper limit that is the length, or one more, falls with it; the lower limit stays."""
    found = lengths.inputs_by_length(subject("f32[64,4]", f"i32[1000] {fill}", length=64), anything)
    limits = {n: (int(arrays[1].min()), int(arrays[1].max())) for n, arrays in found.items()}
    assert limits == {n: (shift, n - 1 + shift) for n in (64, 48, 32, 16)}


@pytest.mark.parametrize("fill", ["randint(0, 100)", "randint(64, 1000)", "arange"])
def test_other_numbers_stay_as_they_are(fill: str) -> None:
    """A vocabulary's size, a lower limit that happens to be the length, and fills without limits."""
    found = lengths.inputs_by_length(subject("f32[64]", f"i32[500] {fill}", length=64), anything)
    first, *others = [arrays[1].tolist() for arrays in found.values()]
    assert len(others) == 3
    assert others == [first] * 3


def refusing(refuses: Callable[[int], bool]) -> Callable[..., None]:
    """An implementation that does not take some lengths."""

    def function(array: Any) -> None:
        if refuses(array.shape[0]):
            message = f"{array.shape[0]} is no multiple\nof the block"
            raise ValueError(message)

    return function


def test_lengths_that_are_refused_are_left_out() -> None:
    """A kernel that takes multiples of its block is watched at those."""
    found = lengths.inputs_by_length(subject("f32[64]"), refusing(lambda length: length % 32 > 0))
    assert list(found) == [64, 32]


def test_a_kernel_of_one_length_is_told_with_its_first_refusal() -> None:
    """Not a fault: the scenario does not apply, in one line that quotes the kernel."""
    with pytest.raises(faults.NotHereError) as reason:
        lengths.inputs_by_length(subject("f32[64]"), refusing(lambda length: length != 64))
    assert str(reason.value) == "takes no other length than 64: ValueError: 48 is no multiple"


def test_a_refusal_without_words_is_told_by_its_type() -> None:
    """An assertion may have no text."""

    def asserts(array: Any) -> None:
        assert array.shape[0] == 64, ""

    with pytest.raises(faults.NotHereError, match="AssertionError"):
        lengths.inputs_by_length(subject("f32[64]"), asserts)


def test_numbers_that_cannot_be_drawn_for_a_length_are_no_fault() -> None:
    """Indices from 40 up to the length exist for 64 and 48 only."""
    found = lengths.inputs_by_length(subject("f32[64,4]", "i32[9] randint(40, 64)"), lambda *_: None)
    assert list(found) == [64, 48]


def test_the_implementation_is_tried_with_the_cases_keywords() -> None:
    """Traced keywords belong to its inputs; its own length needs no trial."""
    tried: list[tuple[int, dict[str, Any]]] = []
    where = subject("f32[8]", scale=2.0)
    where = subjects.Subject(_with_static(where.plan), where.cell)
    lengths.inputs_by_length(where, lambda array, **keywords: tried.append((array.shape[0], keywords)))
    assert tried == [(n, {"scale": 2.0}) for n in (6, 4, 2)]


def _with_static(found: Any) -> Any:
    """The same plan, with a kernel none of whose keywords is a constant."""
    return plan.Plan(**{**vars(found), "kernel": plan.Kernel(**{**vars(found.kernel), "static": []})})


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (subject("f32[8]", inputs="m:inputs"), "not made from `args`"),
        (subject(), "not made from `args`"),
        (subject("f32[]", "i32[]"), "scalars"),
    ],
)
def test_what_has_no_length_is_not_varied(where: Any, reason: str) -> None:
    """Inputs that a function of the user's makes, no inputs, and scalars alone."""
    with pytest.raises(faults.NotHereError, match=reason):
        lengths.inputs_by_length(where, anything)
