"""Schedules of a real compiler, read by the program: what is known of a kernel's grid is what is counted, every time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Project

pytestmark = pytest.mark.real

TARGETS = ("tpu:v4", "tpu:v5p", "tpu:v6e")
MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def custom(x):
    '''A grid of 5 by 3; in the steps where j <= i a loop of (i + 1) trips.'''

    def body(x_ref, o_ref):
        i, j = pl.program_id(0), pl.program_id(1)

        @pl.when(j == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        @pl.when(j <= i)
        def _():
            o_ref[...] = jax.lax.fori_loop(0, i + 1, lambda _, total: total * 0.5 + x_ref[...], o_ref[...])

    return pl.pallas_call(
        body,
        grid=(5, 3),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((40, 128), x.dtype),
    )(x)


def native(x):
    '''Several fusions.'''
    return (jax.nn.softmax(jnp.tanh(x) @ jnp.tanh(x.T), axis=-1) @ x)[:, :128]
"""
TRIPS = sum(i + 1 for i in range(5) for j in range(3) if j <= i)
BLOCK = 8 * 128 * 4  # bytes


def schedules(folder: Path) -> dict[str, Mapping[str, Any]]:
    """What the check saw of custom and native, by cell, in a project of its own."""
    project = Project(folder)
    targets = ", ".join(f'"{target}"' for target in TARGETS)
    project.write("kernels.py", MODULE)
    project.write(
        "watchdog.toml",
        f"""
        [watchdog]
        targets = [{targets}]
        checks = ["import", "lower", "compile", "schedule"]
        baseline = "jax"

        [pins.jax]
        requirements = ["jax[tpu]==0.10.2"]
        python = "3.11"

        [[kernel]]
        name = "masked"
        custom = "kernels:custom"
        native = "kernels:native"
        path = "."

        [[kernel.case]]
        name = "small"
        args = ["f32[40,384]"]
        """,
    )
    project.watchdog("run")
    seen = (one for one in project.results().observations if one.cell.check == "schedule")
    return {one.cell.address: one.data for one in seen}


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Mapping[str, Any]]]:
    return [schedules(tmp_path_factory.mktemp("schedules")) for _ in range(2)]


def test_two_runs_agree_exactly(twice: list[dict[str, Mapping[str, Any]]]) -> None:
    """Every figure, note and fingerprint of every program is the same when all is done once more."""
    first, second = twice
    assert len(first) == 2 * len(TARGETS)
    assert all(data["fingerprint"] and data["complete"] for data in first.values())
    assert first == second


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_grid_says_is_what_is_counted(target: str, twice: list[dict[str, Mapping[str, Any]]]) -> None:
    """The loop makes the trips of the steps that are not masked; each block is fetched once, each result written once."""
    (data,) = (data for address, data in twice[0].items() if target in address and "custom" in address)
    (kernel,) = (one for one in data["programs"] if one["kind"] == "kernel")
    assert [loop["executions"]["high"] for loop in kernel["loops"]] == [5 * 3 + 2, TRIPS]
    assert data["dma_bytes"] == {"low": 20 * BLOCK, "high": 20 * BLOCK}
    assert kernel["source"].startswith("kernels.py:")
