# ruff: noqa: ANN001, ANN202, ARG005, PLC0415  # programs as kernels' authors write them, wrong on purpose
# mypy: ignore-errors
"""Small programs, each wrong in one way that a kernel's author meets. Runs inside an environment of any release.

Every function takes arrays. `PROGRAMS` says what each is given, which class of fault it is about, and for which TPU
generations it is asked; a release or generation that accepts it has no error to tell.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

WIDE = ("v3", "v4", "v5e", "v5p", "v6e", "tpu7x")
F32 = ((256, 256), "float32")


@dataclass(frozen=True)
class Program:
    """One of them: the function, its arguments as (shape, dtype), the class it is about, the generations asked."""

    function: Callable[..., Any]
    arguments: tuple[tuple[tuple[int, ...], str], ...]
    about: str
    generations: tuple[str, ...]


PROGRAMS: dict[str, Program] = {}


def about(kind: str, *arguments: tuple[tuple[int, ...], str], generations: tuple[str, ...] = ("v5e",)) -> Any:
    """Put the decorated function into `PROGRAMS` under its own name."""

    def put(function: Any) -> Any:
        PROGRAMS[function.__name__] = Program(function, arguments or (F32,), kind, generations)
        return function

    return put


def whole(body: Any, *arrays: Any, out: Any = None, **options: Any) -> Any:
    """A call without blocks; the output has the first input's shape unless `out` is a (shape, dtype)."""
    shape = jax.ShapeDtypeStruct(*out) if out else jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)
    return pl.pallas_call(body, out_shape=shape, **options)(*arrays)


def parameters(**options: Any) -> Any:
    """The compiler's parameters, in the release's own spelling."""
    return (getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams)(**options)


def of_one(function: Any) -> Any:
    """A kernel that writes `function` of its whole input."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = function(x_ref[...])

    return body


def copy(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


@about("pins mismatch")
def nothing_wrong(x):
    return whole(copy, x)


# Names that some release removed, or that none has.


@about("missing name")
def load_and_store(x):
    def body(x_ref, o_ref):
        everything = (slice(None), slice(None))
        pl.store(o_ref, everything, pl.load(x_ref, everything))

    return whole(body, x)


@about("missing name")
def old_compiler_params(x):
    return whole(copy, x, compiler_params=pltpu.TPUCompilerParams(dimension_semantics=()))


@about("missing name")
def new_compiler_params(x):
    return whole(copy, x, compiler_params=pltpu.CompilerParams(dimension_semantics=()))


@about("missing name")
def repeat(x):
    return whole(of_one(lambda v: pltpu.repeat(v[:, :128], 2, axis=1)), x)


@about("missing name")
def old_memory_space(x):
    return whole(copy, x, in_specs=[pl.BlockSpec(memory_space=pltpu.TPUMemorySpace.VMEM)])


@about("missing name")
def atomic_add(x):
    def body(x_ref, o_ref):
        pl.atomic_add(o_ref, (0, 0), x_ref[0, 0])

    return whole(body, x)


@about("missing name")
def name_of_nobody(x):
    return whole(of_one(pltpu.flash_everything), x)


@about("missing name")
def module_removed(x):
    importlib.import_module("jax.experimental.maps")
    return x


@about("missing name")
def name_imported(x):
    from jax.experimental.pallas.tpu import TPUInterpretParams  # noqa: F401

    return x


@about("missing name")
def tree_map(x):
    return jax.tree_map(lambda leaf: leaf + 1, x)


@about("missing name")
def core_primitive(x):
    return jax.core.Primitive("mine") and jax.core.pp_eqn and x


@about("missing name")
def of_jax_numpy(x):
    return jnp.round_(x)


@about("missing name")
def of_an_array(x):
    return x.device_buffer


# Arguments.


@about("wrong argument")
def unknown_argument(x):
    return whole(copy, x, warp_size=4)


@about("wrong argument")
def unknown_compiler_parameter(x):
    return whole(copy, x, compiler_params=parameters(vmem_limit=4))


@about("wrong type or shape")
def old_order_of_block_spec(x):
    spec = pl.BlockSpec(lambda i: (i, 0), (128, 256))
    return whole(copy, x, grid=(2,), in_specs=[spec], out_specs=spec)


@about("wrong argument")
def missing_out_shape(x):
    return pl.pallas_call(copy)(x)


@about("wrong type or shape")
def parameters_in_a_dictionary(x):
    return whole(copy, x, compiler_params={"mosaic": {"dimension_semantics": ()}})


@about("wrong argument")
def body_with_too_few_references(x):
    return whole(lambda x_ref: None, x)


@about("wrong argument")
def index_map_with_too_few_arguments(x):
    spec = pl.BlockSpec((128, 128), lambda i: (i, 0))
    return whole(copy, x, grid=(2, 2), in_specs=[spec], out_specs=spec)


@about("wrong argument")
def argument_of_old(x):
    return whole(copy, x, in_specs=[pl.BlockSpec((256, 256), lambda: (0, 0), indexing_mode=None)])


@about("missing name")
def indexing_mode(x):
    spec = pl.BlockSpec((128, 256), lambda i: (i * 128, 0), indexing_mode=pl.Unblocked())
    return whole(copy, x, grid=(2,), in_specs=[spec], out_specs=pl.BlockSpec((128, 256), lambda i: (i, 0)))


@about("missing dependency")
def module_of_nobody(x):
    importlib.import_module("a_package_of_nobody.kernels")
    return x


# Types and operations that the hardware or the lowering lacks.


def _unary(name: str, function: Any, *arguments: Any, kind: str = "unsupported", **more: Any) -> None:
    def program(x):
        return whole(of_one(function), x)

    program.__name__ = name
    about(kind, *arguments, **more)(program)


for _dtype in ("bfloat16", "float16", "int8", "int16", "uint8", "float8_e4m3fn", "float8_e5m2", "int4", "uint32"):
    _unary(f"add_{_dtype}", lambda v: v + v, ((256, 256), _dtype), generations=WIDE)
for _dtype in ("float64", "int64", "complex64", "bool"):
    _unary(f"copy_{_dtype}", lambda v: v, ((256, 256), _dtype))

for _name, _function in {
    "exp_bf16": jnp.exp,
    "max_bf16": lambda v: jnp.broadcast_to(jnp.max(v, axis=-1, keepdims=True), v.shape),
    "sum_bf16": lambda v: jnp.broadcast_to(jnp.sum(v, axis=-1, keepdims=True), v.shape),
    "compare_bf16": lambda v: jnp.where(v > 0, v, -v),
    "divide_bf16": lambda v: v / (v + 1),
}.items():
    _unary(_name, _function, ((256, 256), "bfloat16"), generations=("v3", "v4", "v5e", "v6e"))

for _name, _function in {
    "sort": lambda v: jnp.sort(v, axis=-1),
    "argsort": lambda v: jnp.argsort(v, axis=-1).astype(v.dtype),
    "cumsum": lambda v: jnp.cumsum(v, axis=-1),
    "cumprod": lambda v: jnp.cumprod(v, axis=0),
    "top_k": lambda v: jnp.broadcast_to(jax.lax.top_k(v, 1)[0], v.shape),
    "argmax": lambda v: jnp.broadcast_to(jnp.argmax(v, axis=0).astype(v.dtype), v.shape),
    "gather": lambda v: v[jnp.arange(256)[::-1]],
    "take_along": lambda v: jnp.take_along_axis(v, v.astype(jnp.int32), axis=0),
    "scatter": lambda v: v.at[jnp.arange(2)].add(1.0),
    "reverse": lambda v: v[::-1],
    "fft": lambda v: jnp.fft.fft(v).real,
    "erf_inv": jax.lax.erf_inv,
    "digamma": jax.lax.digamma,
    "product": lambda v: jnp.broadcast_to(jnp.prod(v, axis=-1, keepdims=True), v.shape),
    "cholesky": jnp.linalg.cholesky,
    "convolution": lambda v: jax.lax.conv_general_dilated(v[None, None], v[None, None, :3, :3], (1, 1), "SAME")[0, 0],
    "random_bits": lambda v: jax.random.normal(jax.random.key(0), v.shape),
    "strided_value": lambda v: jnp.concatenate([v[::2], v[1::2]]),
    "dynamic_slice_of_a_value": lambda v: jnp.tile(
        jax.lax.dynamic_slice(v, (v[0, 0].astype(int), 0), (8, 256)), (32, 1)
    ),
    "flattened": lambda v: v.reshape(-1).reshape(v.shape),
    "reshaped_oddly": lambda v: v.reshape(64, 1024).reshape(v.shape),
    "stacked": lambda v: jnp.stack([v, v], axis=1)[:, 0],
    "three_dimensions_swapped": lambda v: jnp.swapaxes(v.reshape(16, 16, 256), 0, 1).reshape(v.shape),
    "while_with_vectors": lambda v: jax.lax.while_loop(lambda c: jnp.max(c) < 100, lambda c: c + 1, v),
    "scan": lambda v: jax.lax.scan(lambda c, row: (c + row, c), v[0], v)[1],
    "switch_on_a_vector": lambda v: jax.lax.cond(v[0, 0] > 0, lambda a: a, lambda a: -a, v),
    "vector_of_one_dimension": lambda v: jnp.broadcast_to(jnp.sum(v, axis=0), v.shape),
    "dot_of_three_dimensions": lambda v: jnp.tile(
        jnp.einsum("abc,acd->abd", v.reshape(4, 64, 256), v.reshape(4, 256, 64)), (1, 1, 4)
    ).reshape(v.shape),
    "dot_transposed_left": lambda v: jax.lax.dot_general(v, v, (((0,), (0,)), ((), ()))),
    "padded": lambda v: jnp.pad(v, ((1, 1), (1, 1)))[:256, :256],
    "rolled": lambda v: jnp.roll(v, 3, axis=1),
    "captured_constant": lambda v: v + jnp.arange(65536.0).reshape(256, 256),
    "population_count": lambda v: jax.lax.population_count(v.astype(jnp.int32)).astype(v.dtype),
    "custom_callback": lambda v: jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(v.shape, v.dtype), v),
    "number_of_no_type": lambda v: v.astype(jnp.float64) + v,
    "cast_to_f8": lambda v: v.astype(jnp.float8_e4m3fn).astype(v.dtype),
}.items():
    _generations = ("v3", "v5e", "v6e", "tpu7x") if _name in ("cast_to_f8", "sort", "gather") else ("v5e",)
    _unary(_name, _function, generations=_generations)


def _dot(name: str, dtype: str, wanted: str, **more: Any) -> None:
    def program(a, b):
        def body(a_ref, b_ref, o_ref):
            o_ref[...] = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=wanted)

        return whole(body, a, b, out=((256, 256), wanted))

    program.__name__ = name
    about("unsupported", ((256, 256), dtype), ((256, 256), dtype), **more)(program)


for _dtype, _wanted in {
    "float8_e4m3fn": "float32",
    "float8_e5m2": "float32",
    "int4": "int32",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "int32": "int32",
    "float16": "float32",
    "bfloat16": "bfloat16",
}.items():
    _dot(f"dot_{_dtype}", _dtype, _wanted, generations=WIDE)


# Blocks, layouts, alignment.


def _blocks(name: str, shape: tuple[int, ...], block: tuple[int, ...], **more: Any) -> None:
    def program(x):
        spec = pl.BlockSpec(block, lambda i: (i,) + (0,) * (len(block) - 1))
        return whole(copy, x, grid=(2,), in_specs=[spec], out_specs=spec)

    program.__name__ = name
    about(more.pop("kind", "layout or alignment"), (shape, more.pop("dtype", "float32")), **more)(program)


_blocks("block_of_7_by_100", (14, 200), (7, 100), generations=("v4", "v5e", "tpu7x"))
_blocks("block_of_4_rows", (64, 256), (4, 256))
_blocks("block_of_100_columns", (64, 256), (8, 100))
_blocks("block_of_one_dimension", (2000,), (1000,))
_blocks("block_of_one_dimension_of_100", (200,), (100,))
_blocks("block_of_8_rows_int8", (64, 256), (8, 256), dtype="int8")
_blocks("block_of_three_dimensions", (4, 12, 200), (2, 6, 100))
_blocks("block_of_other_rank", (64, 256), (8,), kind="wrong type or shape")


@about("layout or alignment", ((256, 256), "float32"), ((1,), "int32"), generations=("v4", "v5e", "tpu7x"))
def dynamic_rows(x, at):
    def body(at_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(at_ref[0], 8), :]

    return _prefetched(body, at, x, ((8, 256), "float32"))


@about("layout or alignment", ((256, 256), "bfloat16"), ((1,), "int32"), generations=("v4", "v5e", "tpu7x"))
def dynamic_rows_of_bfloat16(x, at):
    def body(at_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(at_ref[0], 16), :]

    return _prefetched(body, at, x, ((16, 256), "bfloat16"))


@about("layout or alignment", ((256, 256), "float32"), ((1,), "int32"), generations=("v4", "v5e", "tpu7x"))
def dynamic_columns(x, at):
    def body(at_ref, x_ref, o_ref):
        o_ref[...] = x_ref[:, pl.ds(at_ref[0], 128)]

    return _prefetched(body, at, x, ((256, 128), "float32"))


@about("layout or alignment", ((256, 256), "float32"), ((1,), "int32"))
def dynamic_element(x, at):
    def body(at_ref, x_ref, o_ref):
        o_ref[...] = jnp.full((8, 128), x_ref[at_ref[0], at_ref[0]])

    return _prefetched(body, at, x, ((8, 128), "float32"))


@about("layout or alignment", ((256, 256), "float32"), ((1,), "int32"))
def dynamic_store_of_columns(x, at):
    def body(at_ref, x_ref, o_ref):
        o_ref[:, pl.ds(at_ref[0], 100)] = x_ref[:, :100]

    return _prefetched(body, at, x, ((256, 256), "float32"))


def _prefetched(body: Any, at: Any, x: Any, out: Any) -> Any:
    specification = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[pl.BlockSpec(x.shape, lambda i, at_ref: (0, 0))],
        out_specs=pl.BlockSpec(out[0], lambda i, at_ref: (0, 0)),
    )
    return pl.pallas_call(body, grid_spec=specification, out_shape=jax.ShapeDtypeStruct(*out))(at, x)


for _name, _arguments, _function, _kind in (
    ("transposed_oddly", ((100, 60), "float32"), lambda v: jnp.swapaxes(v, 0, 1), "layout or alignment"),
    ("transposed_int8", ((96, 160), "int8"), lambda v: jnp.swapaxes(v, 0, 1), "layout or alignment"),
    ("transposed_bfloat16", ((24, 72), "bfloat16"), lambda v: jnp.swapaxes(v, 0, 1), "layout or alignment"),
):

    def _transposing(x, function=_function):
        return whole(of_one(function), x, out=(x.shape[::-1], x.dtype))

    _transposing.__name__ = _name
    about(_kind, _arguments, generations=("v3", "v5e", "tpu7x"))(_transposing)

_unary(
    "odd_reduction",
    lambda v: v + jnp.sum(v, axis=1, keepdims=True),
    ((7, 3, 50), "float32"),
    kind="layout or alignment",
)
_unary(
    "odd_reduction_bf16",
    lambda v: v + jnp.max(v, axis=1, keepdims=True),
    ((7, 3, 50), "bfloat16"),
    kind="layout or alignment",
)
_unary(
    "odd_slices",
    lambda v: jnp.concatenate([jnp.concatenate([v[3:, 5:], v[:3, 5:]]) + v[:, :251], v[:, :5]], axis=1),
    ((256, 256), "bfloat16"),
    kind="layout or alignment",
)
_unary(
    "merged_dimensions",
    lambda v: v.reshape(6, 250).reshape(v.shape),
    ((6, 5, 50), "float32"),
    kind="layout or alignment",
)
_unary(
    "merged_dimensions_bf16",
    lambda v: v.reshape(35, 128).reshape(v.shape),
    ((7, 5, 128), "bfloat16"),
    kind="layout or alignment",
)
_unary("split_lanes", lambda v: v.reshape(8, 4, 64).reshape(v.shape), ((8, 256), "float32"), kind="layout or alignment")


@about("layout or alignment", ((256, 256), "float32"))
def strided_columns(x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[:, pl.ds(0, 128, stride=2)]

    return whole(body, x, out=((256, 128), "float32"))


@about("unsupported", ((256, 256), "bfloat16"))
def strided_rows_of_bfloat16(x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(0, 128, stride=2), :]

    return whole(body, x, out=((128, 256), "bfloat16"))


@about("layout or alignment", ((256, 256), "float32"))
def copy_of_odd_columns(x):
    def body(x_ref, o_ref, semaphore):
        pltpu.async_copy(x_ref.at[:, pl.ds(5, 100)], o_ref.at[:, pl.ds(0, 100)], semaphore).wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return whole(body, x, in_specs=[anywhere], out_specs=anywhere, scratch_shapes=[pltpu.SemaphoreType.DMA])


@about("layout or alignment", ((256, 256), "bfloat16"))
def bitcast_oddly(x):
    return whole(of_one(lambda v: pltpu.bitcast(v[:3], jnp.uint32)), x, out=((2, 256), "uint32"))


@about("unsupported")
def read_of_any_memory(x):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return whole(copy, x, in_specs=[anywhere])


@about("unsupported")
def scalar_store_to_vmem(x):
    def body(x_ref, o_ref):
        o_ref[0, 0] = x_ref[0, 0] + 1

    return whole(body, x)


@about("wrong type or shape")
def store_of_another_shape(x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[:8]

    return whole(body, x)


@about("wrong type or shape")
def store_of_another_type(x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(jnp.int32)

    return whole(body, x)


@about("wrong type or shape")
def index_map_of_another_rank(x):
    spec = pl.BlockSpec((128, 256), lambda i: (i,))
    return whole(copy, x, grid=(2,), in_specs=[spec], out_specs=spec)


@about("wrong type or shape")
def traced_condition(x):
    return whole(of_one(lambda v: v if v[0, 0] > 0 else -v), x)


# Memories.


def _rows(i):
    return i, 0


@about("out of VMEM", ((2560, 2048), "float32"), generations=WIDE)
def huge_blocks(x):
    return pl.pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[:128, :] * 2),
        grid=(2,),
        in_specs=[pl.BlockSpec((1280, 2048), _rows)],
        out_specs=pl.BlockSpec((128, 2048), _rows),
        out_shape=jax.ShapeDtypeStruct((256, 2048), jnp.float32),
    )(x)


@about("out of VMEM", ((32768, 2048), "float32"), generations=WIDE)
def whole_array_in_vmem(x):
    def body(x_ref, o_ref):
        o_ref[:8] = x_ref[:8]

    return whole(body, x)


@about("out of VMEM", generations=WIDE)
def huge_scratch(x):
    def body(x_ref, o_ref, scratch):
        scratch[:256, :256] = x_ref[...]
        o_ref[...] = scratch[:256, :256]

    return whole(body, x, scratch_shapes=[pltpu.VMEM((65536, 1024), jnp.float32)])


@about("out of VMEM", ((4096, 4096), "float32"), generations=("v5e", "v5p"))
def huge_values(x):
    def body(x_ref, o_ref):
        v = x_ref[...]
        o_ref[...] = jnp.dot(v, v) + jnp.dot(v, v + 1)

    spec = pl.BlockSpec((1024, 1024), lambda i: (i, 0))
    return whole(body, x, grid=(4,), in_specs=[spec], out_specs=spec)


@about("out of VMEM")
def low_limit(x):
    return whole(copy, x, compiler_params=parameters(vmem_limit_bytes=100 * 1024))


@about("out of VMEM")
def limit_beyond_the_memory(x):
    return whole(copy, x, compiler_params=parameters(vmem_limit_bytes=10**10))


@about("out of SMEM", generations=WIDE)
def huge_smem_scratch(x):
    def body(x_ref, o_ref, scratch):
        scratch[0, 0] = 1
        o_ref[...] = x_ref[...] + scratch[0, 0]

    return whole(body, x, scratch_shapes=[pltpu.SMEM((1024, 1024), jnp.int32)])


@about("out of SMEM", generations=WIDE)
def many_semaphores(x):
    def body(x_ref, o_ref, semaphores):
        pltpu.async_copy(x_ref, o_ref, semaphores.at[0]).wait()

    return whole(body, x, scratch_shapes=[pltpu.SemaphoreType.DMA((200_000,))])


@about("out of SMEM", ((1024, 1024), "int32"), ((256, 256), "float32"), generations=("v4", "v5e", "tpu7x"))
def huge_prefetch(at, x):
    def body(at_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + at_ref[0, 0]

    return _prefetched(body, at, x, ((256, 256), "float32"))


@about("out of HBM", ((100_000, 128), "float32"), generations=WIDE)
def huge_temporaries(x):
    scores = jax.nn.softmax(x @ x.T)
    return jnp.sort(scores, axis=-1) @ x


@about("out of HBM", ((60_000, 128), "float32"), generations=("v3", "v5e"))
def several_temporaries(x):
    scores = x @ x.T
    return jnp.sort(scores, axis=-1) @ x + jnp.argsort(scores, axis=-1).astype(x.dtype) @ x


@about("out of HBM", ((60_000_000_000,), "float32"), generations=WIDE)
def huge_argument(x):
    return x + 1


@about("out of HBM", ((64, 128), "float32"))
def huge_output_of_a_kernel(x):
    return pl.pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
        grid=(1_000_000,),
        in_specs=[pl.BlockSpec((64, 128), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((64, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((64_000_000, 128), jnp.float32),
    )(x)


# In an index map, under a helper: places that are hard to find.


@about("missing name")
def fault_in_an_index_map(x):
    spec = pl.BlockSpec((128, 256), lambda i: (jnp.no_such_thing(i), 0))
    return whole(copy, x, grid=(2,), in_specs=[spec], out_specs=spec)


@about("unsupported")
def fault_below_a_helper(x):
    def body(x_ref, o_ref):
        def step(i, carry):
            o_ref[pl.ds(i * 8, 8), :] = _helper(x_ref[pl.ds(i * 8, 8), :])
            return carry

        jax.lax.fori_loop(0, 32, step, 0)

    return whole(body, x)


def _helper(v):
    return jax.lax.digamma(v)


@about("unsupported")
def fault_under_jit(x):
    return whole(of_one(jax.jit(functools.partial(jnp.linalg.cholesky))), x)
