"""The TPU compiler's quirks, with real compilers: none of them is ever told as a fault of the kernel.

Each kernel here is sound, and each would be called broken by a tool that does not know the quirk in its docstring.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import Project, Results
from watchdog.model import Check, Outcome, Status

pytestmark = pytest.mark.real

RELEASES = ("0.7.1", "0.8.3")
TARGETS = ("tpu:v5e", "tpu:v6e", "tpu:tpu7x")
KERNELS = {
    "one_dimensional": "f32[4096]",
    "asks_for_properties": "f32[256,512]",
    "computes_at_once": "f32[256,512]",
    "pipelines": "f32[256,512]",
    "own_limit": "f32[256,512]",
}
MODULE = '''
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

COMPUTED_AT_IMPORT = jnp.arange(8.0) * 2
Parameters = getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def native(x):
    return x * 2


def _rows(x, rows, **options):
    spec = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        double, grid=(x.shape[0] // rows,), in_specs=[spec], out_specs=spec, out_shape=shape, **options
    )(x)


def one_dimensional(x):
    """Its block's layout is asked of the default device."""
    spec = pl.BlockSpec((1024,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(double, grid=(4,), in_specs=[spec], out_specs=spec, out_shape=shape)(x)


@jax.jit
def asks_for_properties(x):
    """What the default device is decides its blocks, inside a jit that several generations share."""
    asked = getattr(pltpu, "get_tpu_info", None)  # jax 0.7.1 has no such question
    return _rows(x, 32 if asked and asked().generation >= 6 else 64)


def computes_at_once(x):
    """A described device cannot run what is computed while it is traced."""
    with jax.ensure_compile_time_eval():
        rows = int(jnp.sum(jnp.full(4, 16)))
    return _rows(x, rows)


def pipelines(x):
    """It cannot even be traced for a CPU."""

    def outer(x_hbm, o_hbm):
        spec = pl.BlockSpec((64, 512), lambda i: (i, 0))
        pltpu.emit_pipeline(double, grid=(4,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        outer, in_specs=[anywhere], out_specs=anywhere, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
    )(x)


def own_limit(x):
    """Its own limit would win over the one that the search for the least VMEM sets."""
    return _rows(x, 64, compiler_params=Parameters(vmem_limit_bytes=2**24))


def made(seed):
    """Inputs that are computed, on a device that can."""
    return (jax.random.normal(jax.random.key(seed), (256, 512)),)
'''


def config() -> str:
    kernels = [
        f'[[kernel]]\nname = "{name}"\ncustom = "quirks:{name}"\nnative = "quirks:native"\npath = "."\n'
        f'[[kernel.case]]\nname = "small"\nargs = ["{argument}"]\n'
        for name, argument in KERNELS.items()
    ]
    made = (
        '[[kernel]]\nname = "made"\ncustom = "quirks:own_limit"\nnative = "quirks:native"\npath = "."\n'
        'inputs = "quirks:made"\n[[kernel.case]]\nname = "small"\n'
    )
    targets = ", ".join(f'"{target}"' for target in ("host", *TARGETS))
    return (
        f"[watchdog]\ntargets = [{targets}]\n\n"
        'checks = ["import", "lower", "compile", "schedule"]\n'
        + "".join(
            f'[pins."jax-{one}"]\nrequirements = ["jax[tpu]=={one}"]\npython = "3.11"\n' for one in ("0.7.1", "0.8.3")
        )
        + "\n".join([*kernels, made])
    )


def known(version: str) -> list[str]:
    """The generations that the libtpu of a release knows."""
    return [target for target in TARGETS if version != "0.7.1" or target != "tpu:tpu7x"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    """One run over all quirks, and the folder where its temporary files lie."""
    temporary = tmp_path_factory.mktemp("temporary")
    project = Project(tmp_path_factory.mktemp("quirks"))
    project.write("watchdog.toml", config())
    project.write("quirks.py", MODULE)
    hostile = {"TMPDIR": str(temporary), "LIBTPU_INIT_ARGS": "--no_such_flag=1", "TPU_ACCELERATOR_TYPE": "v6e-8"}
    project.watchdog("run", "--implementation", "custom", variables=hostile)
    return project.results(), temporary


def test_nothing_is_called_broken(ran: tuple[Results, Path]) -> None:
    """Default device, library date (jax 0.7.1), lock file (processes side by side), the caller's TPU variables."""
    results, _ = ran
    assert results.missing == 0
    broken = [one for one in results.observations if one.outcome.is_fault]
    assert not broken, [(one.cell.address, one.fault) for one in broken]
    same = [
        one for one in results.verdicts if one.cell.kernel != "asks_for_properties"
    ]  # another kernel in each release
    failing = [one for one in same if one.status is Status.REGRESSED]
    assert not failing, [(one.cell.address, one.summary) for one in failing]


def test_every_kernel_compiles_and_is_read_for_every_generation(ran: tuple[Results, Path]) -> None:
    """Each is observed for each generation that its libtpu knows: schedule, code and least VMEM."""
    results, _ = ran
    for kernel in (*KERNELS, "made"):
        for version in RELEASES:
            for target in known(version):
                where = {"kernel": kernel, "pins": f"jax-{version}", "target": target}
                seen = results.observation(Check.SCHEDULE, **where)
                assert seen.outcome is Outcome.OBSERVED, (where, seen.reason)
                assert seen.data["complete"], where
                assert seen.data["bundles"] > 0, where
                assert 0 < seen.data["vmem_bytes"] < 2**20, where
                assert results.observation(Check.COMPILE, **where).outcome is Outcome.OBSERVED


def test_an_unknown_generation_is_skipped_with_the_reason(ran: tuple[Results, Path]) -> None:
    """libtpu 0.0.20 does not know a tpu7x, and that is no kernel's fault."""
    results, _ = ran
    seen = results.observation(Check.COMPILE, kernel="own_limit", pins="jax-0.7.1", target="tpu:tpu7x")
    assert seen.outcome is Outcome.SKIPPED
    assert (seen.reason or "").startswith("libtpu 0.0.20 cannot describe a tpu7x")


def test_a_tpu_kernel_is_skipped_on_a_cpu_however_it_is_traced(ran: tuple[Results, Path]) -> None:
    """Also one that asks for a TPU's properties while it is traced, which no CPU can answer."""
    results, _ = ran
    for kernel in KERNELS:
        seen = results.observation(Check.LOWER, kernel=kernel, pins="jax-0.8.3", target="host")
        reason = "holds a Pallas TPU kernel, which a cpu can only interpret"
        assert (seen.outcome, seen.reason) == (Outcome.SKIPPED, reason)


def test_generations_differ(ran: tuple[Results, Path]) -> None:
    """A kernel that asks what it runs on is traced anew for each generation, not taken from another's trace."""
    results, _ = ran
    found = {
        target: results.observation(Check.SCHEDULE, kernel="asks_for_properties", pins="jax-0.8.3", target=target)
        for target in ("tpu:v5e", "tpu:v6e")
    }
    assert found["tpu:v6e"].data["vmem_bytes"] < 0.6 * found["tpu:v5e"].data["vmem_bytes"]


def test_the_dump_holds_the_kernel_alone(ran: tuple[Results, Path]) -> None:
    """What is compiled while a kernel is traced is no part of its schedule: two equal kernels count the same."""
    results, _ = ran
    where = {"pins": "jax-0.8.3", "target": "tpu:v5e"}
    at_once = results.observation(Check.SCHEDULE, kernel="computes_at_once", **where)
    plain = results.observation(Check.SCHEDULE, kernel="own_limit", **where)
    assert at_once.data["bundles"] == plain.data["bundles"]
    assert not any("died" in note for note in at_once.data["notes"])


def test_a_limit_of_its_own_is_told(ran: tuple[Results, Path]) -> None:
    """The least VMEM is found beside the kernel's own limit, which is told with it."""
    results, _ = ran
    seen = results.observation(Check.SCHEDULE, kernel="own_limit", pins="jax-0.8.3", target="tpu:v5e")
    assert seen.data["vmem_limit_bytes"] == 2**24
    assert seen.data["vmem_bytes"] < 2**20


def test_nothing_is_left_in_the_temporary_folder(ran: tuple[Results, Path]) -> None:
    """Neither the compiler's logs, nor its lock file, nor its dump."""
    _, temporary = ran
    left = [str(path.relative_to(temporary)) for path in temporary.rglob("*") if path.is_file()]
    assert not left


@pytest.fixture(scope="module")
def out_of_step(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A libtpu that is older than its jax, beside one that is newer; two kernels, two generations."""
    project = Project(tmp_path_factory.mktemp("pins"))
    pins = {"older": "libtpu==0.0.20", "newer": "libtpu==0.0.42.1"}
    tables = [
        f'[pins.{name}]\nrequirements = ["jax==0.8.3", "{libtpu}"]\npython = "3.11"\n' for name, libtpu in pins.items()
    ]
    kernels = [
        f'[[kernel]]\nname = "{name}"\ncustom = "quirks:{name}"\nnative = "quirks:native"\npath = "."\n'
        f'[[kernel.case]]\nname = "small"\nargs = ["f32[256,512]"]\n'
        for name in ("own_limit", "asks_for_properties")
    ]
    head = (
        '[watchdog]\ntargets = ["tpu:v5e", "tpu:v6e"]\nbaseline = "newer"\nchecks = ["install", "lower", "compile"]\n'
    )
    project.write("watchdog.toml", head + "\n".join([*tables, *kernels]))
    project.write("quirks.py", MODULE)
    project.watchdog("run", "--implementation", "custom")
    return project.results()


def test_pins_out_of_step_are_one_finding(out_of_step: Results) -> None:
    """Whatever the compiler says of it, and for however many kernels: told once, of the pins, with the versions."""
    (finding,) = (one for one in out_of_step.verdicts if one.status is Status.REGRESSED)
    assert (finding.cell.check, finding.cell.pins, finding.kind) == (Check.INSTALL, "older", "pins mismatch")
    for part in ("libtpu 0.0.20", "jax 0.8.3", "==0.0.32.*", "own_limit"):
        assert part in finding.summary


def test_a_newer_compiler_fits(out_of_step: Results) -> None:
    """A libtpu newer than its jax compiles, and nothing is said against it."""
    newer = [one for one in out_of_step.observations if one.cell.pins == "newer" and one.cell.check is Check.COMPILE]
    assert {one.outcome for one in newer} == {Outcome.OBSERVED}
