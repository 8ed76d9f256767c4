"""Broken kernels that lie in a folder of their own (`--cases DIR`), with the releases in which each breaks.

The folder holds `old_spellings.py`, `compiler_limits.py`, `hidden_faults.py` and `native_window.py`; its README tells
what was measured there. Each boundary is the very release, so that `--releases 0.8.0 0.8.1` proves it.
"""

from __future__ import annotations

from pathlib import Path

from tests.upgrades.expectations import HOST, Finding, Watched
from tests.upgrades.moved import forgets_absl, moved

_SQUARE = "f32[256,256]"
_WINDOW = ("f32[1,16,2,8]",) * 3
_HEADS = ("f32[1,2,256,128]",) * 3
_UPSTREAM = "jax.experimental.pallas.ops.tpu.flash_attention:flash_attention"


def shared_cases(folder: Path) -> tuple[Watched, ...]:
    """The kernels of a folder, by the names that their files give them."""
    path = str(folder.resolve())

    def case(function: str, native: str, args: tuple[str, ...], *findings: Finding) -> Watched:
        return Watched(function.partition(":")[2], function, native, args, path, findings)

    def spelling(name: str, since: str) -> Watched:
        return case(f"old_spellings:{name}", "old_spellings:native", (_SQUARE,), *moved("missing name", since=since))

    def hidden(name: str, *findings: Finding) -> Watched:
        return case(f"hidden_faults:{name}", "hidden_faults:native", (_SQUARE,), *findings)

    return (
        spelling("load_store", "0.9.0"),
        spelling("tpu_compiler_params", "0.7.2"),
        spelling("repeat", "0.10.2"),
        case(
            "compiler_limits:wide_blocks",
            "compiler_limits:wide_blocks_native",
            ("f32[2560,2048]",),
            Finding(("out of VMEM",), "compile", ("v3", "v4", "v5e", "v5p"), since="0.8.1"),
            Finding(("more VMEM",), "schedule", "v6e", since="0.8.1", compared=True),
        ),
        case(
            "compiler_limits:uint8_dot",
            "compiler_limits:uint8_dot_native",
            ("u8[256,256]", "u8[256,256]"),
            Finding(("unsupported",), "compile", ("v3", "v4"), until="0.9.1"),
            Finding(("unsupported",), "lower", since="0.9.2"),
        ),
        Watched(  # by another name than the sound one
            "rmsnorm_in_vmem",
            "compiler_limits:rmsnorm",
            "compiler_limits:rmsnorm_native",
            ("f32[1024,512]", "f32[1,512]"),
            path,
            (Finding(("more VMEM",), "schedule", since="0.8.1", compared=True),),
        ),
        hidden("reads_before_wait", Finding(("copy not awaited",), "races", HOST)),
        hidden(
            "reads_out_of_range",
            Finding(("out of bounds",), "numerics", HOST),
            Finding(("layout or alignment",), "compile", until="0.8.0"),
        ),
        hidden("uninitialised_accumulator", Finding(("uninitialised memory", "nan"), "numerics", HOST)),
        Watched(
            "native_window",
            "native_window:custom",
            "native_window:native",
            _WINDOW,
            path,
            (Finding(("wrong numbers",), "numerics", HOST, until="0.8.1"),),
            faulty="native",
            targets=(HOST,),
        ),
        Watched("upstream_flash_attention", _UPSTREAM, "native_window:native", _HEADS, path, forgets_absl(), bare=True),
    )
