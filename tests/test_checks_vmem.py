"""The search for the smallest scoped VMEM, on compilers made up: each says what it asked for, truly or too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside import checks

vmem = checks("vmem")
faults = checks("faults")
KIB = 1024


class Compiler:
    """A lowered program that needs so many KiB; its error names `told` of it."""

    def __init__(self, need: int, told: float = 1.0) -> None:
        self.need, self.told, self.asked = need, told, 0

    def asks(self, limit: int) -> float | None:
        self.asked += 1
        return None if limit >= self.need else self.need * self.told


@given(st.integers(1, 128 * KIB), st.floats(0, 1))
def test_the_answer_is_between_what_fails_and_what_compiles(need: int, told: float) -> None:
    """Whatever the compiler tells, the interval holds the need and is narrow, and it takes few compilations."""
    compiler = Compiler(need, told)
    found = vmem.search(compiler.asks)
    assert found.fails < need <= found.compiles
    assert found.compiles - found.fails <= max(8, found.compiles // 100)
    assert compiler.asked <= 45


@given(st.integers(64, 128 * KIB))
def test_a_compiler_that_tells_is_asked_less(need: int) -> None:
    """Where the error tells the need, a handful of compilations is enough."""
    compiler = Compiler(need, 1.0)
    vmem.search(compiler.asks)
    assert compiler.asked <= 9


def test_no_limit_is_enough() -> None:
    """A program that never compiles ends the search with a reason."""
    with pytest.raises(faults.NotHereError, match="does not compile even with"):
        vmem.search(Compiler(2**30, told=0.0).asks)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Scoped allocation with size 514.0K and limit 1.0K exceeded scoped vmem limit by 513.0K.", 514.0),
        ("E1001: … with size 1.50M and limit 1.00M exceeded scoped vmem limit by 0.5M", 1536.0),
        ("RESOURCE_EXHAUSTED: Allocation (size=20971520) would exceed memory :: space=vmem", 0.0),
    ],
)
def test_what_was_asked_for(text: str, asked: float) -> None:
    """The KiB that an error about VMEM names; 0 where it names none."""
    assert vmem._asked_for(RuntimeError(text)) == asked


def test_another_failure_is_no_need() -> None:
    """A compiler that fails for another reason says nothing of VMEM."""
    with pytest.raises(faults.NotHereError, match="fails otherwise: INTERNAL: Mosaic failed"):
        vmem._asked_for(RuntimeError("INTERNAL: Mosaic failed to compile"))
