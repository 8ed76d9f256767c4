"""How little scoped VMEM a program compiles with: found by compiling it again and again under narrower limits.

The compiler names what it asked for when it fails, so the search begins close to the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .faults import NotHereError

_KIB = 1024
_OPTION = "xla_tpu_scoped_vmem_limit_kib"
_MOST = 256 * _KIB  # KiB; no generation has as much (v5e and v6e have 128 MiB)
_STEP = 8  # KiB; closer than this is not looked
_SHARE = 128  # nor closer than this part of the answer
_ASKED = re.compile(r"size ([\d.]+)([KMG]?) and limit \S+ exceeded scoped vmem limit")
_UNITS = {"": 1 / _KIB, "K": 1, "M": _KIB, "G": _KIB**2}  # in KiB
_OWN_LIMIT = "scoped_memory_configs"


@dataclass(frozen=True)
class Need:
    """The smallest limit that a program compiles with, and the largest that it was seen to fail with, in KiB."""

    compiles: int
    fails: int


def search(asks: Callable[[int], float | None]) -> Need:
    """Narrow down the smallest limit. `asks(limit)` is None when it compiles, else the KiB that were asked for.

    Raises NotHereError when no limit is enough.
    """
    asked = asks(1)
    if asked is None:
        return Need(1, 0)
    fails, compiles = 1, max(_STEP, int(asked) + _STEP)
    while (more := asks(compiles)) is not None:
        fails, compiles = compiles, max(compiles + compiles // 2, int(more) + _STEP)
        if fails >= _MOST:
            message = f"does not compile even with {fails // _KIB} MiB of scoped VMEM"
            raise NotHereError(message)
    fails = max(fails, min(int(asked) - 1, compiles - 1))
    while compiles - fails > max(_STEP, compiles // _SHARE):
        middle = (compiles + fails) // 2
        fails, compiles = (middle, compiles) if asks(middle) is not None else (fails, middle)
    return Need(compiles, fails)


def need(lowered: Any) -> dict[str, int | None]:
    """The scoped VMEM of a lowered program (`jax.stages.Lowered`) for a TPU, in bytes.

    `vmem_bytes` is the smallest limit that it compiles with, `vmem_fails_bytes` the largest that it fails with,
    `vmem_limit_bytes` what the kernel's author set. The kernel's own limit is taken out of `lowered`, for it would
    win over the compiler's option: compile it for another purpose before. Raises NotHereError when the compiler fails
    for another reason than VMEM.
    """
    own = _without_own_limit(lowered)

    def asks(limit: int) -> float | None:
        try:
            lowered.compile(compiler_options={_OPTION: limit})
        except Exception as error:
            return _asked_for(error)
        return None

    found = search(asks)
    return {"vmem_bytes": found.compiles * _KIB, "vmem_fails_bytes": found.fails * _KIB, "vmem_limit_bytes": own}


def _asked_for(error: Exception) -> float:
    """KiB that the compiler asked for. Raises NotHereError when it failed for another reason."""
    text = str(error)
    if match := _ASKED.search(text):
        return float(match[1]) * _UNITS[match[2]]
    if re.search(r"\bvmem\b", text, re.IGNORECASE) and re.search(r"RESOURCE_EXHAUSTED|out of memory", text):
        return 0.0  # of VMEM, without a figure
    message = f"with less VMEM the compiler fails otherwise: {' '.join(text.split())[:200]}"
    raise NotHereError(message) from error


def _without_own_limit(lowered: Any) -> int | None:
    """Take `vmem_limit_bytes` out of the kernels of a lowered program; the largest of them, None where none is set."""
    module = lowered.compiler_ir("stablehlo")
    limits: list[int] = []
    with module.context:
        for operation in _operations(module.operation):
            if operation.name == "stablehlo.custom_call" and "backend_config" in operation.attributes:
                limits += _taken_out(operation)
    return max(limits, default=None)


def _taken_out(operation: Any) -> list[int]:
    """The limits of one kernel, in bytes, which its configuration holds no more."""
    attribute = operation.attributes["backend_config"]
    try:
        configuration = json.loads(attribute.value)
    except (AttributeError, TypeError, ValueError):  # of another kind of custom call
        return []
    entries = configuration.pop(_OWN_LIMIT, None) if isinstance(configuration, dict) else None
    if not entries:
        return []
    operation.attributes["backend_config"] = type(attribute).get(json.dumps(configuration))
    return [entry["size"] for entry in entries if isinstance(entry.get("size"), int)]


def _operations(operation: Any) -> Iterator[Any]:
    """All operations below one, depth first."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                yield inner.operation
                yield from _operations(inner.operation)
