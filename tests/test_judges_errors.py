"""The classes of real errors: the corpus in tests/errors, provoked under every promised release and by pins that do not fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.errors.__main__ import corpus
from watchdog.judges import faults
from watchdog.model import Cell, Check, Environment, Fault, Observation, Outcome, Package

CORPUS = corpus()
PROMISED = {"0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.11.0", "0.12.0"}
VERSIONS = ("jax", "jaxlib", "libtpu")


def observation(entry: dict[str, Any], **data: Any) -> Observation:
    check = Check.COMPILE if entry["stage"] == "compile" else Check.LOWER
    cell = Cell("k", "custom", "small", "p", f"tpu:{entry['generations'][0]}", check)
    fault = Fault(entry["class"], entry["message"], missing=entry["missing"])
    return Observation(cell, Outcome(entry["outcome"]), fault=fault, data=data, log_tail=entry.get("log", ""))


def environment(entry: dict[str, Any]) -> Environment:
    return Environment("p", (), "sha256:p", "", "3.11.7", tuple(Package(name, entry[name]) for name in VERSIONS))


def read(entry: dict[str, Any]) -> faults.Reading:
    return faults.read(observation(entry), environment(entry))


def one(program: str, jax: str, generation: str = "v5e", **more: str) -> dict[str, Any]:
    """The stored error of a program under a release for a generation."""
    wanted = {"program": program, "jax": jax, **more}
    found = [
        entry
        for entry in CORPUS
        if generation in entry["generations"] and all(entry[key] == value for key, value in wanted.items())
    ]
    assert len(found) == 1, f"{len(found)} errors of {wanted}"
    return {**found[0], "generations": [generation]}


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=f"{entry['program']}-{entry['jax']}-{n}") for n, entry in enumerate(CORPUS)]
)
def test_every_error_has_its_class_and_a_sentence(entry: dict[str, Any]) -> None:
    """The class is the expected one; the sentence is one printable line, and no mere class of an exception."""
    reading = read(entry)
    assert reading.kind == entry["expected"]
    assert reading.what.isprintable()
    assert 12 < len(reading.what) < 420
    assert "Please" not in reading.what or "cast your input" in reading.what


def test_the_corpus_covers_every_class_and_release() -> None:
    """Every promised release has errors of each class that a kernel can provoke there."""
    seen = Counter((entry["jax"], entry["expected"]) for entry in CORPUS if entry["program"] != "nothing_wrong")
    of_all = {
        *("missing name", "wrong argument", "missing dependency", "wrong type or shape", "unsupported"),
        *("layout or alignment", "out of VMEM", "out of SMEM", "out of HBM"),
    }
    assert {(jax, kind) for jax in PROMISED for kind in of_all} <= set(seen)
    assert any(entry["expected"] == "crash" for entry in CORPUS)
    assert any(entry["expected"] == "pins mismatch" for entry in CORPUS)


def test_the_class_of_the_exception_does_not_decide() -> None:
    """With every compiler's exception called the same, its errors keep their classes."""
    compilers = [entry for entry in CORPUS if entry["stage"] == "compile" and entry["outcome"] == "failed"]
    assert {entry["class"] for entry in compilers} >= {"XlaRuntimeError", "JaxRuntimeError", "MosaicError"}
    for entry in compilers:
        assert read({**entry, "class": "SomethingElseError"}).kind in (entry["expected"], "error")
        if entry["expected"] != "compiler error":
            assert read({**entry, "class": "SomethingElseError"}).kind == entry["expected"]


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            one("huge_blocks", "0.10.2", "v4"),
            (
                "the window of input 0, f32[1280,2048] of f32[2560,2048] in 2 buffers, alone needs 20 MiB of VMEM, "
                "the device has 16 MiB; smaller blocks help"
            ),
        ),
        (
            one("huge_blocks", "0.12.0"),
            "it needs 22 MiB of scoped VMEM, the limit is 16 MiB; smaller blocks or a higher vmem_limit_bytes help",
        ),
        (
            one("low_limit", "0.5.3"),
            "it needs 512 KiB of scoped VMEM, the limit is 100 KiB; smaller blocks or a higher vmem_limit_bytes help",
        ),
        (
            one("huge_scratch", "0.6.2", "v5p"),
            "the scratch buffer f32[65536,1024] alone needs 256 MiB of VMEM, the device has 64 MiB; smaller blocks help",
        ),
        (
            one("huge_prefetch", "0.8.3"),
            "the prefetched scalar operand 0 alone needs 4 MiB of SMEM, the device has 1 MiB",
        ),
        (one("huge_temporaries", "0.12.0"), "it needs 74.67 GiB of HBM, the device has 15.75 GiB"),
        (
            one("several_temporaries", "0.9.2"),
            (
                "it needs 33.54 GiB of HBM, the device has 15.75 GiB; "
                "the largest allocation is 13.42 GiB for f32[60000,60000] by sort.8"
            ),
        ),
        (
            one("sort", "0.5.3"),
            "Pallas cannot lower sort into a TPU kernel for v5e; compute it outside the kernel or from other operations",
        ),
        (one("dot_int8", "0.9.2", "v4"), "v4 has no matrix product of int8; cast to bfloat16 or float32 first"),
        (
            one("dot_uint8", "0.9.2"),
            (
                "TPU kernels have no matrix product of uint8, for they take all integers as signed; "
                "cast to a signed type first"
            ),
        ),
        (
            one("store_of_another_shape", "0.5.3"),
            (
                "ValueError: Invalid shape for `swap`. Ref shape: (256, 256). Expected shape: (256, 256). "
                "Value shape: (8, 256)."
            ),
        ),
        (one("add_int8", "0.10.2"), "v5e has no arith.addi for int8; cast to a wider type first"),
        (one("add_float16", "0.12.0"), "TPU kernels have no float16; use bfloat16 or float32"),
        (
            one("dot_bfloat16", "0.7.2"),
            "a matrix product accumulates in 32 bits; ask for preferred_element_type float32 or int32, and cast after it",
        ),
        (one("three_dimensions_swapped", "0.5.3"), "transpose is not implemented"),
        (
            one("block_of_7_by_100", "0.12.0"),
            (
                "the block (7, 100) of args[0], an array of (14, 200), must be divisible by 8 and 128 in its last two "
                "dimensions, or be as large as the array there"
            ),
        ),
        (
            one("block_of_8_rows_int8", "0.10.2"),
            (
                "the block (..., 8, 256) of input 0 does not fit the tiles of (32, 128); each of its last two dimensions "
                "must be a multiple of the tile's or the array's own"
            ),
        ),
        (
            one("dynamic_columns", "0.5.3"),
            (
                "the compiler cannot see that the index in dimension 1 of the load of f32[256,128] is a multiple of 128; "
                "where it is one, pl.multiple_of(index, 128) says so"
            ),
        ),
        (
            one("cast_to_f8", "0.5.3", "v3"),
            (
                "its process died (signal 6 (SIGABRT)): the compiler gave up at emitter.cc:1884: "
                "Check failed: format == VpackFormat::kInterleavedBf16 CompressedB16"
            ),
        ),
    ],
)
def test_sentences(entry: dict[str, Any], sentence: str) -> None:
    """What a kernel's author reads: the sizes, shapes and types, and what helps where that is certain."""
    assert read(entry).what == sentence


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            one("nothing_wrong", "0.8.3", libtpu="0.0.20"),
            "libtpu 0.0.20 cannot read what jax 0.8.3 writes (Mosaic version 8, it knows up to 7)",
        ),
        (
            one("nothing_wrong", "0.12.0", libtpu="0.0.32.1"),
            "libtpu 0.0.32.1 cannot read what jax 0.12.0 writes (the field debug_locations is new to it)",
        ),
        (one("nothing_wrong", "0.10.2", libtpu="0.0.37"), "jax 0.10.2 refuses libtpu 0.0.37 as too old"),
        (one("nothing_wrong", "0.6.2", libtpu="0.0.11.4"), "libtpu 0.0.11.4 cannot read what jax 0.6.2 writes"),
        (
            one("nothing_wrong", "0.7.2", jaxlib="0.8.0"),
            "jaxlib 0.8.0 is too new for jax 0.7.2; install jaxlib 0.7.2 or a newer jax",
        ),
        (
            one("nothing_wrong", "0.12.0", jaxlib="0.10.2"),
            "jaxlib 0.10.2 is too old for jax 0.12.0, which requires jaxlib >=0.11.2",
        ),
    ],
)
def test_pins_that_do_not_fit(entry: dict[str, Any], sentence: str) -> None:
    """Which package does not fit which, with the numbers that the error gives; and what jax wants, where that is known."""
    assert faults.pins_sentence(observation(entry), environment(entry)) == sentence
    known = observation(
        entry, toolchain={"fits": False, "wants": "==0.0.42.*", **{name: entry[name] for name in VERSIONS}}
    )
    wanted = f"; jax {entry['jax']} wants libtpu ==0.0.42.*" if "libtpu" in sentence else ""
    assert faults.pins_sentence(known, None) == sentence + wanted


def test_a_trivial_kernel_that_fails_decides() -> None:
    """Whatever a kernel's text says: where the same pins compile nothing, they are at fault; a time limit stays one."""
    toolchain = {"fits": False, "error": "JaxRuntimeError: strange\nmore", "jax": "0.10.2", "libtpu": "0.0.17"}
    for entry in (one("sort", "0.10.2"), one("huge_blocks", "0.10.2"), one("cast_to_f8", "0.5.3", "v3")):
        observed = observation(entry, toolchain=toolchain)
        assert faults.kind_of(observed) == "pins mismatch"
        assert "a trivial kernel fails as well: JaxRuntimeError: strange" in faults.pins_sentence(observed, None)
    hung = replace(observation(one("sort", "0.10.2"), toolchain=toolchain), outcome=Outcome.HUNG)
    assert faults.kind_of(hung) == "time limit"


@pytest.mark.parametrize(
    "message",
    [
        "INVALID_ARGUMENT: Failed to parse the JSON of my own configuration",
        "Dialect `sdy' not found: unregistered operation 'sdy.mesh'",
        "INVALID_ARGUMENT: Failed to retrieve the config.",
    ],
)
def test_a_trivial_kernel_that_compiles_clears_the_pins(message: str) -> None:
    """What may mean that versions do not fit does not, where they compile another kernel; what says so still does."""
    entry = {**one("sort", "0.10.2"), "message": message, "class": "JaxRuntimeError"}
    assert faults.kind_of(observation(entry)) == "pins mismatch"
    assert faults.kind_of(observation(entry, toolchain={"fits": None})) == "pins mismatch"
    assert faults.kind_of(observation(entry, toolchain={"fits": True})) != "pins mismatch"
    certain = one("nothing_wrong", "0.8.3", libtpu="0.0.20")
    assert faults.kind_of(observation(certain, toolchain={"fits": True})) == "pins mismatch"


@pytest.mark.parametrize(
    ("target", "helps"),
    [
        ("tpu:v5e", "smaller blocks or a higher vmem_limit_bytes help"),  # it has 128 MiB
        ("tpu:v4", "smaller blocks help (v4 has no more than 16 MiB)"),
        ("host", "smaller blocks help, or a higher vmem_limit_bytes where the device has more"),
    ],
)
def test_a_higher_limit_is_advised_where_it_helps(target: str, helps: str) -> None:
    """No limit makes room that the generation lacks."""
    observed = observation(one("huge_blocks", "0.12.0"))
    cell = replace(observed.cell, target=target)
    told = faults.read(replace(observed, cell=cell), None).what
    assert told == f"it needs 22 MiB of scoped VMEM, the limit is 16 MiB; {helps}"


def test_a_log_without_a_reason() -> None:
    """A process that died silently is said to have died, and how."""
    entry = {**one("cast_to_f8", "0.5.3", "v3"), "log": "I0000 all is well\n"}
    assert read(entry).what.startswith("its process died: signal 6 (SIGABRT)")


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("terminate called after throwing an instance of 'x'\n  what():  no room\n", "what(): no room"),
        ("LLVM ERROR: out of registers\n", "LLVM ERROR: out of registers"),
        ("Fatal Python error: Segmentation fault\n\nThread 0x1\n", "Fatal Python error: Segmentation fault"),
        ("*** SIGSEGV (@0x8), see go/stacktraces ***", "SIGSEGV"),
        (
            "F1201 14:30:05.3 642 /a/b.cc:64] RAW: Check failed: x > 0 \nF1201 14:30:06.1 642 c.cc:1] later",
            "b.cc:64: Check",
        ),
    ],
)
def test_reasons_in_a_log(log: str, reason: str) -> None:
    """The first line that says why, in the ways that compilers and Python say it."""
    assert reason in read({**one("cast_to_f8", "0.5.3", "v3"), "log": log}).what
