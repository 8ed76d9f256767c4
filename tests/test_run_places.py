"""Where a fault is: the user's own line, with real compilers and the real interpreter of three releases."""

from __future__ import annotations

import pytest

from tests.projects import Project, Results
from watchdog.model import Check, Outcome

pytestmark = pytest.mark.real

RELEASES = ("0.10.2",)  # further ones take half a minute each
MODULE = '''
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

SHAPE = jax.ShapeDtypeStruct((256, 256), jnp.float32)
HUGE = pltpu.VMEM((65536, 1024), jnp.float32)


def native(x, at):
    return x


def helper(v):
    return jax.lax.digamma(v)  # place of does_not_lower


def does_not_lower(x, at):
    """The operation is in a helper, below a loop."""

    def body(x_ref, o_ref):
        def step(i, carry):
            o_ref[pl.ds(i * 8, 8), :] = helper(x_ref[pl.ds(i * 8, 8), :])
            return carry

        jax.lax.fori_loop(0, 32, step, 0)

    return pl.pallas_call(body, out_shape=SHAPE)(x)


def in_an_index_map(x, at):
    spec = pl.BlockSpec((128, 256), lambda i: (jnp.no_such_name(i), 0))  # place of in_an_index_map
    return pl.pallas_call(native, grid=(2,), in_specs=[spec], out_specs=spec, out_shape=SHAPE)(x)


def unaligned(x, at):
    """Mosaic refuses the index."""

    def body(at_ref, x_ref, o_ref):
        o_ref[:, :128] = x_ref[:, pl.ds(at_ref[0], 128)]  # place of unaligned

    whole = pl.BlockSpec((256, 256), lambda i, at_ref: (0, 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[whole], out_specs=whole)
    return pl.pallas_call(body, grid_spec=grid, out_shape=SHAPE)(at, x)


def odd_block(x, at):
    spec = pl.BlockSpec((7, 100), lambda i: (i, 0))

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(body, grid=(2,), in_specs=[spec], out_specs=spec, out_shape=SHAPE)(x)  # place of odd_block


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def through_scratch(x_ref, o_ref, scratch):
    scratch[:256, :256] = x_ref[...]
    o_ref[...] = scratch[:256, :256]


def too_large(x, at):
    call = pl.pallas_call(through_scratch, out_shape=SHAPE, scratch_shapes=[HUGE])
    return call(x)  # place of too_large


def second_is_too_large(x, at):
    first = pl.pallas_call(copy, out_shape=SHAPE)(x)
    call = pl.pallas_call(through_scratch, out_shape=SHAPE, scratch_shapes=[HUGE])
    return call(first)  # place of second_is_too_large


def out_of_range(x, at):
    """The TPU interpreter finds it in a callback."""

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.program_id(0) * 128 + 8, 128)]  # place of out_of_range

    whole, half = pl.BlockSpec((256, 256), lambda i: (0, 0)), pl.BlockSpec((128, 256), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(2,), in_specs=[whole], out_specs=half, out_shape=SHAPE)(x)
'''
STAGES = {
    "does_not_lower": Check.LOWER,
    "in_an_index_map": Check.LOWER,
    "odd_block": Check.LOWER,
    "unaligned": Check.COMPILE,
    "too_large": Check.COMPILE,
    "second_is_too_large": Check.COMPILE,
    "out_of_range": Check.NUMERICS,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    project = Project(tmp_path_factory.mktemp("places"))
    project.write("places.py", MODULE)
    pins = "".join(
        f'[pins."{one}"]\nrequirements = ["jax[tpu]=={one}", "absl-py"]\npython = "3.11"\n' for one in RELEASES
    )
    kernels = "".join(
        f'[[kernel]]\nname = "{name}"\ncustom = "places:{name}"\nnative = "places:native"\npath = "."\n'
        '[[kernel.case]]\nname = "small"\nargs = ["f32[256,256]", "i32[1] ones"]\n'
        for name in STAGES
    )
    watch = (
        '[watchdog]\ntargets = ["host", "tpu:v5e"]\nbaseline = "0.10.2"\nchecks = ["lower", "compile", "numerics"]\n'
    )
    project.write("watchdog.toml", watch + pins + kernels)
    ended = project.watchdog("run", "--implementation", "custom")
    assert ended.code == 1, ended.stderr
    return project.results()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kernel", STAGES)
def test_the_place_is_the_users_own_line(results: Results, kernel: str, release: str) -> None:
    """Raised in jax, in the compiler or in a callback: the finding shows the line of the kernel."""
    check = STAGES[kernel]
    target = "host" if check is Check.NUMERICS else "tpu:v5e"
    cell = {"kernel": kernel, "implementation": "custom", "pins": release, "target": target}
    assert results.observation(check, **cell).outcome is Outcome.FAILED
    line = next(
        n for n, text in enumerate(MODULE.lstrip("\n").splitlines(), 1) if text.endswith(f"# place of {kernel}")
    )
    assert results.verdict(check, **cell).where == f"places.py:{line}"
