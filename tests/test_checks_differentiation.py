"""No gradient is told from a gradient that fails: the one is skipped, the other is the kernel's fault."""

from __future__ import annotations

import pytest

from tests.inside import checks

differentiation = checks("differentiation")


@pytest.mark.parametrize(
    ("message", "none"),
    [
        (
            "Linearization failed to produce known values: an operation that does not support reverse-mode autodiff.",
            True,
        ),
        ("Reverse-mode differentiation does not work for lax.while_loop", True),
        ("Pure callbacks do not support JVP.", True),
        ("No JVP defined for custom_jvp function f using defjvp.", True),
        ("transpose permutation isn't a permutation of operand dimensions", False),
        ("my backward pass differentiates the wrong way", False),
        ("", False),
    ],
)
def test_jax_says_that_there_is_none(message: str, *, none: bool) -> None:
    """Only jax's own words count; an error of a hand-written backward pass that speaks of transposing is a fault."""
    assert differentiation.defines_none(ValueError(message)) is none


def test_pallas_cannot_derive_a_body() -> None:
    """Deriving a body with a grid or scratch memory ends in a bare AssertionError, known by where it is raised."""

    def _pallas_call_jvp_rule() -> None:
        raise AssertionError

    with pytest.raises(AssertionError) as raised:
        _pallas_call_jvp_rule()
    assert differentiation.defines_none(raised.value)
