"""A busy neighbour: imports jax, computes, compiles and allocates until it is ended."""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp

MATRIX = 1024
KEPT = 64  # arrays of 4 MiB, the oldest of which make room


def main() -> None:
    """Never returns."""
    kept: list[object] = []
    turn = 0
    while True:
        turn += 1
        scaled = jax.jit(lambda x, turn=turn: (x @ x) / (turn + 1.0))  # compiled anew each time
        kept.append(scaled(jnp.ones((MATRIX, MATRIX))).block_until_ready())
        kept = kept[-KEPT:]


if __name__ == "__main__":
    main()
