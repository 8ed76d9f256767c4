"""The clean part of the corpus: which functions, on which arguments, from which folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watchdog.rooms import room

_OURS = str(room("kernels"))
_HERE = str(Path(__file__).parent / "corpus")
_SQUARE = ("f32[64,64]",)
_ATTENTION = ("f32[1,2,64,64]",) * 3


@dataclass(frozen=True)
class Clean:
    """One function that keeps nothing; `path` is where its module is found, None where jax has it.

    `native` is what its size is measured by where it has to be interpreted; None: itself.
    """

    name: str
    function: str
    args: tuple[str, ...] = _SQUARE
    path: str | None = None
    native: str | None = None


def _here(name: str, *args: str) -> Clean:
    return Clean(name, f"clean_functions:{name}", args or _SQUARE, _HERE)


# In an order in which any beginning of the list has something of everything.
CLEAN = (
    Clean("softmax", "jax.nn:softmax"),
    _here("running_sum"),
    Clean("attention", "flash_attention.native:attention", _ATTENTION, _OURS),
    Clean("matmul", "jax.numpy:matmul", ("f32[64,64]", "f32[64,64]")),
    _here("normal_numbers", "i32[1] randint(0, 1000)"),
    _here("convolve", "f32[1,4,16,16]", "f32[4,4,3,3]"),
    Clean("sort", "jax.numpy:sort"),
    _here("halve_until_small"),
    Clean("fft", "jax.numpy.fft:fft"),
    _here("either"),
    Clean(
        "flash_attention",
        "flash_attention.pallas_tpu:attention",
        ("f32[1,1,128,128]",) * 3,
        _OURS,
        native="flash_attention.native:attention",
    ),
    _here("gather", "f32[64,64]", "i32[16] randint(0, 64)"),
    _here("mean_error_gradient", "f32[64,64]", "f32[64,64]"),
    Clean("double", "planted_leaks.clean:double", _SQUARE, _OURS),
    Clean("gelu", "jax.nn:gelu"),
    _here("row_by_row"),
    _here("contract", "f32[4,16,16]", "f32[4,16,16]"),
    Clean("cumsum", "jax.numpy:cumsum"),
    _here("one_of_three"),
    _here("draw", "f32[64,64]", "i32[1] randint(0, 1000)"),
    Clean("norm", "jax.numpy.linalg:norm"),
    _here("prefix_products"),
    _here("layer_norm"),
    _here("scatter_add", "f32[64,64]", "i32[64] randint(0, 64)"),
    Clean("log_softmax", "jax.nn:log_softmax"),
    _here("repeat"),
    _here("clipped"),
    _here("pool", "f32[1,4,16,16]"),
    _here("shuffle", "f32[64,64]", "i32[1] randint(0, 1000)"),
    Clean("argsort", "jax.numpy:argsort"),
    _here("over_a_batch", "f32[8,64]", "f32[8,64]"),
    _here("rematerialised"),
    Clean("silu", "jax.nn:silu"),
    _here("largest"),
    _here("slice_at", "f32[64,64]", "i32[2] randint(0, 32)"),
    Clean("logsumexp", "jax.nn:logsumexp"),
    _here("segments", "f32[64,8]", "i32[64] randint(0, 16)"),
    _here("update_at", "f32[64,64]", "f32[8,8]"),
    _here("attend", *_ATTENTION),
    Clean("variance", "jax.numpy:var"),
)


def chosen(cells: int, releases: int, scenarios: int) -> tuple[Clean, ...]:
    """As many functions as make at least so many cells; all of them where that is not enough."""
    return CLEAN[: max(1, -(-cells // (releases * scenarios)))]


def kernel(clean: Clean) -> dict[str, Any]:
    """Its table in watchdog.toml; nobody asks for the native implementation here."""
    return {
        "name": clean.name,
        "custom": clean.function,
        "native": clean.native or clean.function,
        "path": clean.path,
        "case": [{"name": "case", "args": list(clean.args)}],
    }
