"""Fingerprints of lowered modules and compiled programs, and the figures that stand in them.

Two fingerprints are equal only when the artefacts are: source lines, file names and metadata are left out, everything
else counts. Where a part cannot be read without its locations there is no fingerprint at all (None).
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

_BODY = re.compile(r'(body(?:\\22|\\"|"): ?(?:\\22|\\"|"))([A-Za-z0-9+/=]+)')
# From jax 0.12 on a kernel's source lines stand beside its body.
_LOCATIONS = re.compile(r'debug_locations(?:\\22|\\"|"): ?(?:\\22|\\"|")[A-Za-z0-9+/=]*')
_METADATA = re.compile(r",? ?metadata=\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_SOURCE_TABLES = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*\n?", re.MULTILINE)


def kernel_bodies(text: str) -> list[bytes]:
    """The Mosaic modules of a lowered or compiled program, serialised, in order."""
    return [base64.b64decode(body) for _, body in _BODY.findall(text)]


def fingerprint(text: str) -> str | None:
    """sha256 of a program's text without locations and metadata; None when a kernel in it cannot be read."""
    printed = [_without_locations(body) for body in kernel_bodies(text)]
    if None in printed:
        return None
    plain = _METADATA.sub("", _SOURCE_TABLES.sub("", _LOCATIONS.sub("", _BODY.sub(r"\1", text))))
    return hashlib.sha256("\0".join([plain, *map(str, printed)]).encode()).hexdigest()


def _without_locations(body: bytes) -> str | None:
    """A serialised Mosaic module as text without its source lines, or None when this jaxlib cannot read it back."""
    try:
        from jax._src.lib import tpu
        from jaxlib.mlir import ir
    except ImportError:  # internal modules: a release may move them, and then there is no fingerprint
        return None
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        tpu.register_dialect(context)
        try:
            return str(ir.Module.parse(body).operation.get_asm(enable_debug_info=False))
        except Exception:  # MLIRError, whose place moved between releases
            return None


def memory(compiled: Any) -> dict[str, int | None]:
    """temp, argument, output and code bytes of a compiled program; None where the backend does not tell."""
    analysis = compiled.memory_analysis()
    names = {"temp": "temp", "argument": "argument", "output": "output", "code": "generated_code"}
    return {f"{ours}_bytes": getattr(analysis, f"{theirs}_size_in_bytes", None) for ours, theirs in names.items()}


def flops(stage: Any) -> float | None:
    """Floating-point operations that XLA counts in a lowered or compiled program; None where it does not count.

    A Pallas kernel counts by its own `cost_estimate`, and not at all without one.
    """
    analysis = stage.cost_analysis()
    first = analysis[0] if isinstance(analysis, list) and analysis else analysis
    value = first.get("flops") if isinstance(first, dict) else None
    return float(value) if value is not None and value >= 0 else None
