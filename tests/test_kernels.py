"""The watched kernels: what needs no JAX is asked here, the rest inside real environments (`conformance/attention.py`)."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import uv

from watchdog.rooms import room

CONFORMANCE = Path(__file__).parent / "conformance" / "attention.py"
STRICT = "0.10.2"  # has the interpreter that simulates a TPU's memories and cores
WITHOUT_PUBLIC_MODULE = "0.9.2"  # its requirements lack a package that its public TPU module needs
QUESTIONS = (
    (STRICT, "numerics"),
    (STRICT, "compiles"),
    (STRICT, "refuses"),
    (WITHOUT_PUBLIC_MODULE, "compiles"),
)

Answers = dict[tuple[str, str], list[dict[str, Any]]]


def environment(version: str) -> Path:
    """The Python of a cached environment with this JAX and the TPU compiler."""
    tag = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = platformdirs.user_cache_path("kernel-watchdog") / "tests" / f"jax-{version}-python-{tag}"
    complete = folder / "complete"
    python = folder / "bin" / "python"
    if not complete.exists():
        _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        _uv("pip", "install", "--quiet", "--python", str(python), f"jax[tpu]=={version}")
        complete.touch()
    return python


def _uv(*arguments: str) -> None:
    subprocess.run([uv.find_uv_bin(), *arguments], check=True)


def ask(version: str, question: str) -> list[dict[str, Any]]:
    """The lines that the conformance program prints under this JAX; a warning there is a failure."""
    command = [str(environment(version)), "-W", "error", str(CONFORMANCE), str(room("kernels")), question]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_clean())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _clean() -> dict[str, str]:
    return {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}


@pytest.fixture(scope="module")
def answers() -> Answers:
    for version in (STRICT, WITHOUT_PUBLIC_MODULE):
        environment(version)
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(QUESTIONS, pool.map(lambda asked: ask(*asked), QUESTIONS), strict=True))


@pytest.mark.real
def test_kernel_is_as_exact_as_native(answers: Answers) -> None:
    """Output and gradients err from float64 by at most 3 times what native attention errs on the same arrays."""
    for native, custom in _pairs(answers[STRICT, "numerics"]):
        assert custom["dtypes"] == native["dtypes"]
        for name, error in custom["errors"].items():
            assert error <= 3 * native["errors"][name], (custom["case"], name)


@pytest.mark.real
def test_native_is_right(answers: Answers) -> None:
    """Native attention itself stays near float64, so that being as exact as it means something."""
    bounds = {"float32": 1e-5, "bfloat16": 4e-3}
    for native, _ in _pairs(answers[STRICT, "numerics"]):
        assert max(native["errors"].values()) < bounds[native["dtypes"][0]], native["case"]


@pytest.mark.real
def test_kernel_has_no_races(answers: Answers) -> None:
    """Two simulated cores with late copies and NaN-filled memory never touch the same block unordered."""
    for _, custom in _pairs(answers[STRICT, "numerics"]):
        assert custom["mode"] == "tpu interpreter"
        assert custom["races"] is False, custom["case"]


def _pairs(lines: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Native's and the kernel's line of each case."""
    by_implementation = {
        name: [line for line in lines if line["implementation"] == name] for name in ("native", "pallas_tpu")
    }
    assert by_implementation["native"]
    yield from zip(by_implementation["native"], by_implementation["pallas_tpu"], strict=True)


@pytest.mark.real
@pytest.mark.parametrize("version", [STRICT, WITHOUT_PUBLIC_MODULE])
def test_tpu_compiler_accepts_the_kernel(answers: Answers, version: str) -> None:
    """For both generations, the gradient compiles to one forward and two backward kernels; no score matrix is kept."""
    lines = answers[version, "compiles"]
    assert {line["target"] for line in lines} == {"v5e", "v6e"}
    for line in lines:
        assert line["kernels"] == 3, line
        assert line["temp_bytes"] < line["score_bytes"] / 4, line


@pytest.mark.real
def test_public_tpu_module_is_really_missing() -> None:
    """Under the release chosen for it, the public TPU module fails for want of absl, so compiling proves `compat`."""
    command = [str(environment(WITHOUT_PUBLIC_MODULE)), "-c", "import jax.experimental.pallas.tpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_clean())
    assert "ModuleNotFoundError: No module named 'absl'" in done.stderr


@pytest.mark.real
def test_kernel_refuses_with_a_sentence(answers: Answers) -> None:
    """Arrays that do not fit are refused by a sentence that names the shapes or the types."""
    sentences = {line["case"]: line["sentence"] for line in answers[STRICT, "refuses"]}
    assert "the 3 query heads must be a multiple of the 2 key heads" in sentences["heads"]
    assert "agree in batch and head_dim: query (1, 2, 8, 64), key (1, 2, 8, 32)" in sentences["head_dim"]
    assert "agree in batch and head_dim" in sentences["batch"]
    assert "no empty axis" in sentences["empty"]
    assert "all bfloat16 or all float32, and are float16" in sentences["dtype"]


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Any:
    return _load("flash_attention.blocks", monkeypatch)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Any:
    return _load("flash_attention.upstream", monkeypatch)


def _load(module: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(room("kernels"))
    return importlib.import_module(module)


@pytest.mark.parametrize(
    ("length", "head_dim", "block"),
    [(1, 128, 128), (256, 128, 256), (640, 128, 128), (1000, 128, 512), (2048, 128, 512), (2048, 512, 256)],
)
def test_block_pads_no_further_than_it_must(blocks: Any, length: int, head_dim: int, block: int) -> None:
    """The default block is the largest that adds no padding beyond the next multiple of 128."""
    chosen = blocks.BlockSizes.choose(query_length=length, key_length=length, head_dim=head_dim)
    assert chosen == blocks.BlockSizes(query=block, key=block)


@pytest.mark.parametrize("size", [0, -128, 64, 200])
def test_block_sizes_check_themselves(blocks: Any, size: int) -> None:
    """A block that the hardware cannot hold is refused when it is made."""
    with pytest.raises(ValueError, match=f"the key block has length {size}"):
        blocks.BlockSizes(query=128, key=size)


class Shaped:
    """Stands for an array where only the shape is asked for."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


def test_adapter_renames_the_scale(upstream: Any) -> None:
    """JAX's kernel gets 1 / sqrt(head_dim) when no scale is given, and the given one otherwise."""
    seen: list[dict[str, Any]] = []
    attention = upstream.adapt(lambda *_, **options: seen.append(options))
    array = Shaped(1, 2, 8, 64)
    attention(array, array, array, causal=True)
    attention(array, array, array, scale=3.0)
    assert seen == [{"causal": True, "sm_scale": 0.125}, {"causal": False, "sm_scale": 3.0}]


def test_adapter_refuses_grouped_heads(upstream: Any) -> None:
    """Grouped-query attention, which JAX's kernel lacks, is refused by a sentence before the kernel sees it."""
    attention = upstream.adapt(pytest.fail)
    with pytest.raises(ValueError, match="as many key heads as query heads, and was given 2 and 4"):
        attention(Shaped(1, 4, 8, 64), Shaped(1, 2, 8, 64), Shaped(1, 2, 8, 64))
