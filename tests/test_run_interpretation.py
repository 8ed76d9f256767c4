"""Pallas TPU kernels interpreted in real environments: six sound ones pass, each planted fault is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import NEW, Finished, Project, Results
from watchdog.model import Check, Observation, Outcome, Status, Verdict

pytestmark = pytest.mark.real

SOUND = ("softmax", "product", "attention", "normalised", "gathered", "buffered")
FAULTY = {  # kernel -> its kind, and what marks the line
    "unawaited": ("copy not awaited", "# read too early"),
    "unwritten": ("uninitialised memory", "# read unwritten"),
    "outside": ("out of bounds", "# read outside"),
    "beyond": ("out of bounds", "# written outside"),
    "contested": ("race", "# contested"),
    "carried": ("depends on order", None),
}
ARGUMENTS = {
    "product": ["f32[256,256]", "f32[256,128]"],
    "attention": ["f32[256,64]", "f32[256,64]", "f32[256,64]"],
    "gathered": ["f32[64,128]", "i32[4] randint(0, 8)"],
}
PINS = {"new": [NEW], "old": ["jax==0.5.3", "absl-py"]}  # 0.5.3 does not import without absl
WITHOUT_ABSL = {"bare": ["jax==0.9.2"]}  # whose TPU part of Pallas does not import without it

KERNELS = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import pallas_call  # by name, as many do

Params = getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams
HBM = pl.BlockSpec(memory_space=pl.ANY)


def floats(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def rows(x, size=8):
    return pl.BlockSpec((size, x.shape[1]), lambda i: (i, 0))


def softmax(x):
    def body(x, out):
        powers = jnp.exp(x[...] - x[...].max(axis=1, keepdims=True))
        out[...] = powers / powers.sum(axis=1, keepdims=True)

    parallel = Params(dimension_semantics=("parallel",))
    call = pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[rows(x)], out_specs=rows(x), out_shape=floats(*x.shape),
        compiler_params=parallel,
    )
    return call(x)


def product(x, y):
    def body(x, y, out, total):
        step = pl.program_id(2)

        @pl.when(step == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @pl.when(step == pl.num_programs(2) - 1)
        def _():
            out[...] = total[...]

    return pallas_call(
        body,
        grid=(2, 1, 2),
        in_specs=[
            pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        out_shape=floats(x.shape[0], y.shape[1]),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        compiler_params=Params(dimension_semantics=("arbitrary", "arbitrary", "arbitrary")),
    )(x, y)


def attention(q, k, v):
    size, width, block = q.shape[0], q.shape[1], 128

    def body(q, k, v, out, largest, weight, total):
        @pl.when(pl.program_id(1) == 0)
        def _():
            largest[...] = jnp.full_like(largest, -1e30)
            weight[...] = jnp.zeros_like(weight)
            total[...] = jnp.zeros_like(total)

        scores = jnp.dot(q[...], k[...].T, preferred_element_type=jnp.float32) / width**0.5
        now = jnp.maximum(largest[...], scores.max(axis=1, keepdims=True))
        fade, powers = jnp.exp(largest[...] - now), jnp.exp(scores - now)
        weight[...] = weight[...] * fade + powers.sum(axis=1, keepdims=True)
        total[...] = total[...] * fade + jnp.dot(powers, v[...], preferred_element_type=jnp.float32)
        largest[...] = now

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            out[...] = total[...] / weight[...]

    queries = pl.BlockSpec((block, width), lambda i, j: (i, 0))
    keys = pl.BlockSpec((block, width), lambda i, j: (j, 0))
    return pallas_call(
        body,
        grid=(size // block, size // block),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        out_shape=floats(size, width),
        scratch_shapes=[pltpu.VMEM((block, columns), jnp.float32) for columns in (1, 1, width)],
        compiler_params=Params(dimension_semantics=("parallel", "arbitrary")),
    )(q, k, v)


def _scale(x):
    return lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)


@jax.custom_vjp
def normalised(x):
    def body(x, out):
        out[...] = x[...] * _scale(x[...])

    return pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[rows(x)], out_specs=rows(x), out_shape=floats(*x.shape)
    )(x)


def _backward(x, given):
    def body(x, given, out):
        scale = _scale(x[...])
        out[...] = scale * given[...] - x[...] * scale**3 * jnp.mean(x[...] * given[...], axis=1, keepdims=True)

    call = pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[rows(x), rows(x)], out_specs=rows(x), out_shape=floats(*x.shape)
    )
    return (call(x, given),)


normalised.defvjp(lambda x: (normalised(x), x), _backward)


def gathered(table, pages):
    def body(pages, page, out):
        out[...] = page[...]

    width = table.shape[1]
    return pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pages.shape[0],),
            in_specs=[pl.BlockSpec((8, width), lambda i, pages: (pages[i], 0))],
            out_specs=pl.BlockSpec((8, width), lambda i, pages: (i, 0)),
        ),
        out_shape=floats(8 * pages.shape[0], width),
    )(pages, table)


def buffered(x):
    steps, size = 4, x.shape[0] // 4

    def body(x, out, buffers, semaphores):
        def copy(step, slot):
            return pltpu.make_async_copy(x.at[pl.ds(step * size, size)], buffers.at[slot], semaphores.at[slot])

        copy(0, 0).start()

        def advance(step, _):
            slot = lax.rem(step, 2)

            @pl.when(step + 1 < steps)
            def _():
                copy(step + 1, 1 - slot).start()

            copy(step, slot).wait()
            out[pl.ds(step * size, size)] = buffers[slot] * 2
            return 0

        lax.fori_loop(0, steps, advance, 0)

    return pallas_call(
        body,
        in_specs=[HBM],
        out_shape=floats(*x.shape),
        scratch_shapes=[pltpu.VMEM((2, size, x.shape[1]), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )(x)


def unawaited(x):
    def body(x, out, buffer, semaphore):
        copy = pltpu.make_async_copy(x, buffer, semaphore)
        copy.start()
        out[...] = buffer[...] * 2  # read too early
        copy.wait()

    scratch = [pltpu.VMEM(x.shape, jnp.float32), pltpu.SemaphoreType.DMA]
    return pallas_call(body, in_specs=[HBM], out_shape=floats(*x.shape), scratch_shapes=scratch)(x)


def unwritten(x):
    def body(x, out, total):
        total[...] += x[...]  # read unwritten
        out[...] = total[...] * 2

    return pallas_call(body, out_shape=floats(*x.shape), scratch_shapes=[pltpu.VMEM(x.shape, jnp.float32)])(x)


def outside(x):
    def body(x, out):
        out[...] = x[pl.ds(pl.program_id(0) * 8 + 4, 8)] * 2  # read outside

    whole = pl.BlockSpec(x.shape, lambda i: (0, 0))
    return pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[whole], out_specs=rows(x), out_shape=floats(*x.shape)
    )(x)


def beyond(x):
    def body(x, out):
        out[...] = x[...] * 2
        out[pl.ds(pl.program_id(0) * 4 + 4, x.shape[0] - 4)] = x[pl.ds(0, x.shape[0] - 4)] * 2  # written outside

    return pallas_call(body, grid=(2,), out_shape=floats(*x.shape))(x)


def contested(x):
    def body(x, out, buffer, semaphore):
        copy = pltpu.make_async_copy(x, buffer, semaphore)
        copy.start()
        copy.wait()
        buffer[...] = buffer[...] * 2
        copy = pltpu.make_async_copy(buffer, out, semaphore)
        copy.start()  # contested
        copy.wait()

    return pallas_call(
        body,
        grid=(2,),
        in_specs=[HBM],
        out_specs=HBM,
        out_shape=floats(*x.shape),
        scratch_shapes=[pltpu.VMEM(x.shape, jnp.float32), pltpu.SemaphoreType.DMA],
        compiler_params=Params(dimension_semantics=("parallel",)),
    )(x)


def carried(x):
    def body(x, out, last):
        @pl.when(pl.program_id(0) == 0)
        def _():
            last[...] = jnp.zeros_like(last)

        last[...] += x[...]
        out[...] = last[...]

    parallel = Params(dimension_semantics=("parallel",))
    return pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[rows(x)], out_specs=rows(x), out_shape=floats(*x.shape),
        scratch_shapes=[pltpu.VMEM((8, x.shape[1]), jnp.float32)], compiler_params=parallel,
    )(x)


def endless(x):
    def body(x, out, buffer, semaphore):
        pltpu.make_async_copy(x, buffer, semaphore).wait()
        out[...] = buffer[...]

    scratch = [pltpu.VMEM(x.shape, jnp.float32), pltpu.SemaphoreType.DMA]
    return pallas_call(body, in_specs=[HBM], out_shape=floats(*x.shape), scratch_shapes=scratch)(x)


def random(x):
    def body(x, out):
        pltpu.prng_seed(3)
        out[...] = x[...] * 2 + 0 * pltpu.prng_random_bits(x.shape).astype(jnp.float32)

    return pallas_call(body, out_shape=floats(*x.shape))(x)


def bounded(x):
    block = pl.BlockSpec((pl.BoundedSlice(8), x.shape[1]), lambda i: (pl.ds(i * 8, 8), 0))
    return pallas_call(
        lambda x, out: out.__setitem__(..., x[...] * 2),
        grid=(x.shape[0] // 8,),
        in_specs=[block],
        out_specs=block,
        out_shape=floats(*x.shape),
    )(x)


def picked(x):
    def body(x, out):
        out[...] = x[lax.iota(jnp.int32, x.shape[0])] * 2

    return pallas_call(body, out_shape=floats(*x.shape))(x)


def piped(x):
    def body(x, out):
        block = pl.BlockSpec((16, 128), lambda i: (i, 0))

        def step(x, out):
            out[...] = x[...] * 2

        pltpu.emit_pipeline(step, grid=(x.shape[0] // 16,), in_specs=[block], out_specs=[block])(x, out)

    return pallas_call(body, in_specs=[HBM], out_specs=HBM, out_shape=floats(*x.shape))(x)


def scoped(x):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    half = x.shape[0] // 2

    def body(x, out):
        mine = pl.ds(lax.axis_index("core") * half, half)

        def inner(buffer, semaphore):
            for source, target in ((x.at[mine], buffer), (buffer, out.at[mine])):
                copy = pltpu.make_async_copy(source, target, semaphore)
                copy.start()
                copy.wait()
                buffer[...] = buffer[...] * 2

        pl.run_scoped(inner, pltpu.VMEM((half, x.shape[1]), jnp.float32), pltpu.SemaphoreType.DMA)

    return pl.kernel(body, floats(*x.shape), mesh=mesh)(x)
"""
PLAIN = """
import jax
from jax.experimental import pallas as pl


def plain(x):
    def body(x, out):
        out[...] = x[...] * 2

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""
NATIVES = """
import jax
import jax.numpy as jnp


def softmax(x):
    return jax.nn.softmax(x, axis=1)


def product(x, y):
    return x @ y


def attention(q, k, v):
    return jax.nn.softmax(q @ k.T / q.shape[1] ** 0.5, axis=1) @ v


def normalised(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)


def gathered(table, pages):
    return table.reshape(-1, 8, table.shape[1])[pages].reshape(-1, table.shape[1])


def carried(x):
    return jnp.cumsum(x.reshape(-1, 8, x.shape[1]), axis=0).reshape(x.shape)


def twice(x):
    return x * 2
"""
OWN_NATIVES = ("softmax", "product", "attention", "normalised", "gathered", "carried")


def config(kernels: tuple[str, ...], pins: tuple[str, ...], timeout: str = "2m") -> str:
    """A watchdog.toml that asks for numbers, gradients and races of these kernels."""
    head = f'[watchdog]\nchecks = ["numerics", "gradients", "races"]\ncell_timeout = "{timeout}"\n'
    known = PINS | WITHOUT_ABSL
    environments = "".join(f"[pins.{name}]\nrequirements = {known[name]}\n" for name in pins)
    return head + environments + "".join(map(table, kernels))


def table(kernel: str) -> str:
    native = kernel if kernel in OWN_NATIVES else "twice"
    module = "plain" if kernel == "plain" else "simulated"
    differentiate = "" if kernel == "normalised" else "differentiate = []\n"
    return (
        f'[[kernel]]\nname = "{kernel}"\ncustom = "{module}:{kernel}"\nnative = "natives:{native}"\npath = "."\n'
        f'{differentiate}[[kernel.case]]\nname = "small"\nargs = {ARGUMENTS.get(kernel, ["f32[64,128]"])}\n'
    )


def watched(folder: Path, text: str) -> tuple[Project, Finished, Results]:
    project = Project(folder)
    project.write("watchdog.toml", text)
    project.write("simulated.py", KERNELS)
    project.write("natives.py", NATIVES)
    project.write("plain.py", PLAIN)
    finished = project.watchdog("run")
    return project, finished, project.results()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    kernels = (*SOUND, *FAULTY, "piped", "random", "picked")
    _, finished, results = watched(tmp_path_factory.mktemp("interpreted"), config(kernels, tuple(PINS)))
    assert finished.code == 1, finished.stderr  # the planted faults
    return results


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What only later releases have."""
    return watched(tmp_path_factory.mktemp("newest"), config(("scoped", "bounded"), ("new",)))[2]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A release that has a TPU interpreter and cannot import it."""
    return watched(tmp_path_factory.mktemp("bare"), config(("plain",), tuple(WITHOUT_ABSL)))[2]


def of(results: Results, check: Check, kernel: str, pins: str) -> Verdict:
    return results.verdict(check, kernel=kernel, implementation="custom", pins=pins)


def seen(results: Results, check: Check, kernel: str, pins: str) -> Observation:
    return results.observation(check, kernel=kernel, implementation="custom", pins=pins)


def line(mark: str) -> int:
    return next(number for number, text in enumerate(KERNELS.strip("\n").splitlines(), 1) if mark in text)


@pytest.mark.parametrize("pins", PINS)
@pytest.mark.parametrize("kernel", SOUND)
def test_sound_kernels_are_right_and_do_not_race(results: Results, kernel: str, pins: str) -> None:
    """Two simulated cores split no dimension that must not be split, and both interpreters agree."""
    assert of(results, Check.NUMERICS, kernel, pins).status is Status.PASS
    races = of(results, Check.RACES, kernel, pins)
    unable = pins == "old" and kernel == "gathered"  # 0.5.3's TPU interpreter has no scalar prefetch
    assert races.status is (Status.SKIPPED if unable else Status.PASS)


@pytest.mark.parametrize("pins", PINS)
def test_gradients_are_interpreted_as_strictly(results: Results, pins: str) -> None:
    """The backward kernel runs under the TPU interpreter and under the generic one, and is right in both."""
    observation = seen(results, Check.GRADIENTS, "normalised", pins)
    assert observation.data["mode"] == "tpu interpreter"
    assert observation.data["other"]["outputs"][0]["nan"] == 0
    assert of(results, Check.GRADIENTS, "normalised", pins).status is Status.PASS


@pytest.mark.parametrize("pins", ["new"])
@pytest.mark.parametrize("kernel", FAULTY)
def test_each_fault_is_found_and_has_its_line(results: Results, kernel: str, pins: str) -> None:
    """The race check says what the kernel does wrong, and points at the line of the kernel's own file."""
    kind, mark = FAULTY[kernel]
    verdict = of(results, Check.RACES, kernel, pins)
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, kind), verdict.summary
    assert verdict.where == (f"simulated.py:{line(mark)}" if mark else None)


@pytest.mark.parametrize("kernel", ["unawaited", "outside", "beyond"])
def test_the_oldest_release_finds_what_it_can(results: Results, kernel: str) -> None:
    """With one core, no settings, and a name for HBM that its interpreter does not know by itself."""
    kind, mark = FAULTY[kernel]
    verdict = of(results, Check.RACES, kernel, "old")
    assert (verdict.status, verdict.kind, verdict.where) == (
        Status.REGRESSED,
        kind,
        f"simulated.py:{line(mark or '')}",
    )


def test_what_the_generic_interpreter_hides_is_said(results: Results) -> None:
    """Numbers that are wrong only where copies take their time: the sentence begins with the fault."""
    verdict = of(results, Check.NUMERICS, "unawaited", "new")
    assert verdict.kind == "copy not awaited"
    assert verdict.summary.startswith("reads a buffer before the copy into it was waited for, at simulated.py:")
    assert "generic interpreter, which hides this, is right" in verdict.summary


def test_both_accesses_of_a_race_are_kept(results: Results) -> None:
    """Two copies to the same place, each started in the same line by one of the cores."""
    (race, *_) = seen(results, Check.RACES, "contested", "new").data["found"]
    place = f"simulated.py:{line('# contested')}"
    assert race["memory"] == "HBM"
    assert [race[which] for which in ("first", "second")] == [{"access": "write", "where": place, "core": None}] * 2


@pytest.mark.parametrize("pins", PINS)
def test_a_pipeline_is_interpreted_without_a_tpu(results: Results, pins: str) -> None:
    """`emit_pipeline` asks which TPU this is, and is told of one."""
    assert of(results, Check.RACES, "piped", pins).status is Status.PASS


@pytest.mark.parametrize(("pins", "mode"), [("new", "tpu interpreter")])
def test_what_one_interpreter_cannot_do_the_other_answers(results: Results, pins: str, mode: str) -> None:
    """The generic interpreter has no random bits: it is said, and not held against the kernel."""
    data = seen(results, Check.NUMERICS, "random", pins).data
    assert data["mode"] == mode
    assert data["other"]["outputs"] is None
    assert "the generic interpreter of jax" in data["other"]["note"]
    assert of(results, Check.NUMERICS, "random", pins).status is Status.PASS


@pytest.mark.parametrize("pins", PINS)
def test_a_failure_of_the_interpreter_reaches_no_later_run(results: Results, pins: str) -> None:
    """Indexing by an array fails while the TPU interpreter runs; the generic one's numbers and the truth are good."""
    observation = seen(results, Check.NUMERICS, "picked", pins)
    assert observation.data["mode"] == "generic interpreter"
    assert "cannot run it: ValueError: Advanced indexers" in observation.data["note"]
    assert of(results, Check.NUMERICS, "picked", pins).status is Status.PASS
    assert seen(results, Check.RACES, "picked", pins).outcome is Outcome.SKIPPED


def test_an_interpreter_that_does_not_import_is_replaced_and_named(bare: Results) -> None:
    """0.9.2 forgot to require absl: a kernel that needs no TPU part of Pallas is answered by the generic interpreter."""
    data = seen(bare, Check.NUMERICS, "plain", "bare").data
    assert data["mode"] == "generic interpreter"
    assert "the TPU interpreter of jax 0.9.2 cannot be used" in data["note"]
    assert "absl" in data["note"]
    assert "absl" in (seen(bare, Check.RACES, "plain", "bare").reason or "")


def test_what_neither_can_do_is_skipped(results: Results, newest: Results) -> None:
    """Random bits in 0.5.3, bounded slices in all releases: the reason names both interpreters and the release."""
    for where, kernel, pins, release in ((results, "random", "old", "0.5.3"), (newest, "bounded", "new", "0.10.2")):
        observation = seen(where, Check.NUMERICS, kernel, pins)
        assert observation.outcome is Outcome.SKIPPED
        for name in ("tpu interpreter", "generic interpreter"):
            assert f"the {name} of jax {release} cannot run it" in (observation.reason or "")


def test_a_kernel_over_a_mesh_of_cores_is_interpreted(newest: Results) -> None:
    """`pl.kernel` never meets `pallas_call`; its scoped memory and its two cores are simulated all the same."""
    assert seen(newest, Check.NUMERICS, "scoped", "new").data["mode"] == "tpu interpreter"
    assert of(newest, Check.RACES, "scoped", "new").status is Status.PASS


def test_a_setting_that_a_release_lacks_is_noted(results: Results) -> None:
    """0.5.3 has neither two cores nor a choice of what fresh memory holds."""
    note = seen(results, Check.RACES, "softmax", "old").data["note"]
    assert "the TPU interpreter of jax 0.5.3 has no setting num_cores" in note
    assert seen(results, Check.RACES, "softmax", "new").data["note"] is None


@pytest.mark.parametrize("pins", ["new"])  # each takes its time limit twice
def test_an_endless_wait_ends_with_the_time_limit_and_its_reason(tmp_path: Path, pins: str) -> None:
    """The process is ended though the interpreter's threads wait; its log says what for, and in which line."""
    _, _, results = watched(tmp_path, config(("endless",), (pins,), timeout="12s"))
    for check in (Check.NUMERICS, Check.RACES):
        observation = seen(results, check, "endless", pins)
        assert observation.outcome is Outcome.HUNG
        assert "waits for a copy that nothing has started, at " in observation.log_tail
        assert f"simulated.py:{line('semaphore).wait()')}" in observation.log_tail
    assert results.missing == 0
