"""Broken kernels of our own, and what is known of each: found by hand, by compiling it for all generations."""

from __future__ import annotations

from pathlib import Path

from tests.upgrades.expectations import GENERATIONS, HOST, RELEASES, Finding, Watched
from tests.upgrades.moved import forgets_absl, moved

_HERE = str(Path(__file__).parent)
_SQUARE = "f32[256,256]"


def _broken(
    function: str,
    *findings: Finding,
    native: str = "broken.blocks:native",
    args: tuple[str, ...] = (_SQUARE,),
    differentiate: tuple[int, ...] = (),
    targets: tuple[str, ...] = (HOST, *GENERATIONS),
    unanswerable: tuple[str, ...] = (),
) -> Watched:
    module, _, name = function.partition(":")
    called = f"{module}_{name}" if name == "custom" else name
    return Watched(
        called,
        f"broken.{function}",
        native,
        args,
        _HERE,
        findings,
        differentiate,
        targets=targets,
        unanswerable=unanswerable,
    )


def _refused(
    *kinds: str, check: str = "compile", where: tuple[str, ...] | str = "every generation", until: str = RELEASES[-1]
) -> Finding:
    return Finding(kinds, check, where, until=until)


def _wrong(*kinds: str, check: str = "numerics") -> Finding:
    return Finding(kinds, check, HOST)


_GONE = "missing name"
_SPELLINGS = (
    _broken("spellings:any_of_tpu", *moved(_GONE, since="0.10.0")),
    _broken("spellings:tpu_memory_space", *moved(_GONE, since="0.7.2")),
    _broken("spellings:swapped_block_arguments", *moved("wrong type or shape")),
    _broken(
        "spellings:parameters_as_a_dictionary",
        Finding(("wrong argument",), "lower", since="0.6.2", until="0.9.0"),
        Finding(("wrong type or shape",), "lower", since="0.9.1"),
        targets=GENERATIONS,  # from 0.9.1 on no interpreter takes it: skipped
    ),
    _broken("spellings:unblocked", *moved(_GONE, since="0.6.1")),
    _broken("spellings:semaphores_of_tpu", *moved(_GONE, since="0.11.0")),
    _broken("spellings:reciprocal_of_pallas"),  # deprecated, and still there: a trap
    _broken("spellings:loop_of_pallas", *moved(_GONE, until="0.6.1")),
    _broken("spellings:today", *moved(_GONE, until="0.6.1")),
)
_IMPORTS = (
    _broken(
        "imports:custom", *(Finding((_GONE,), "import", where, since="0.10.2") for where in ("every generation", HOST))
    ),
    _broken(
        "forgotten:custom", *(Finding(("missing dependency",), "import", where) for where in ("every generation", HOST))
    ),
)
_EIGHT_BITS = ("f8e4m3fn[128,128]", "f8e4m3fn[128,128]")
_LIMITS = (
    _broken("limits:large_scratch", _refused("out of VMEM", where=("v3", "v4"))),
    _broken(
        "limits:scalars_without_end",
        _refused("out of SMEM"),
        native="broken.limits:first_scalar",
        args=("i32[1024,1024]",),
    ),
    _broken("limits:odd_block", _refused("layout or alignment", check="lower"), args=("f32[256,300]",)),
    _broken("limits:odd_lanes", _refused("layout or alignment"), native="broken.limits:odd_lanes_native"),
    _broken("limits:odd_rows", _refused("layout or alignment"), native="broken.limits:odd_rows_native"),
    _broken(
        "limits:eight_bit_floats",
        _refused("unsupported", where=("v3", "v4")),
        native="broken.limits:product_in_f32",
        args=_EIGHT_BITS,
    ),
    _broken(
        "limits:eight_bit_integers",
        _refused("unsupported", where=("v3", "v4")),
        native="broken.limits:product_in_i32",
        args=("i8[256,256]", "i8[256,256]"),
    ),
    _broken(
        "limits:four_bit_integers",
        _refused("unsupported", where=("v3", "v4")),
        native="broken.limits:product_in_i32",
        args=("i8[256,256] randint(-8, 8)", "i8[256,256] randint(-8, 8)"),
        unanswerable=(HOST,),  # no interpreter runs it: XLA's CPU backend refuses int4 there
    ),
    _broken(
        "limits:cast_to_eight_bits",
        _refused("crash", where="v3", until="0.6.0"),
        _refused("compiler error", where="v4", until="0.6.0"),
        native="broken.limits:cast_native",
        args=("f32[128,128]",),
    ),
    _broken(
        "limits:grows_in_vmem",
        Finding(("more VMEM",), "schedule", since="0.8.1", compared=True),
        args=("f32[2048,1024]",),
    ),
    _broken("limits:sorts", _refused("unsupported", check="lower"), native="broken.limits:sorted_rows"),
)
_NUMBERS = (
    _broken(
        "numbers:accumulates_in_bf16",
        _refused("unsupported", where="v3"),
        _wrong("wrong numbers"),
        native="broken.numbers:product",
        args=("bf16[128,2048]", "bf16[2048,128]"),
    ),
    _broken("numbers:accumulator_not_reset", _wrong("wrong numbers"), native="broken.numbers:halves_added"),
    _broken("numbers:last_row_forgotten", _wrong("wrong numbers")),
    _broken(
        "numbers:unmasked_softmax",
        _wrong("nan"),
        native="broken.numbers:softmax",
        args=("f32[256,256] normal(100, 1)",),
    ),
    _broken(
        "numbers:half_a_gradient",
        _wrong("wrong numbers", check="gradients"),
        native="broken.numbers:squared",
        differentiate=(0,),
    ),
    _broken("numbers:reads_what_nobody_wrote", _wrong("uninitialised memory", "nan")),
    _broken("numbers:writes_past_the_end", _wrong("out of bounds")),
)
_ORDER = (
    _broken("order:steps_share_an_output", Finding(("race",), "races", HOST, since="0.6.2")),
    _broken("order:second_copy_not_awaited", _wrong("copy not awaited", check="races")),
    _broken("order:waits_for_nobody", _wrong("time limit")),
    _broken("order:buffer_reused_too_early", _wrong("copy not awaited", check="races")),
)
_BARE = (
    Watched(  # Pallas itself imports absl there, which neither jax nor libtpu requires
        "without_absl",
        "sound.softmax:custom",
        "sound.softmax:native",
        (_SQUARE,),
        _HERE,
        forgets_absl(),
        bare=True,
    ),
)
BROKEN = (*_SPELLINGS, *_IMPORTS, *_LIMITS, *_NUMBERS, *_ORDER, *_BARE)
