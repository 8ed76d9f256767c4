"""Calls every planted leak, inside a pinned environment, and says what grew; needs jax and glibc only.

    python planted.py KERNELS

Prints one JSON object a line: a function's name and the growth of each counter over `CALLS` calls, on a warmed-up
process. The counters are read here by other means than the memory check's own.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np

CALLS = 200


_HEAP_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keep")


class _Heap(ctypes.Structure):
    """What mallinfo2 returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_FIELDS)


_mallinfo = ctypes.CDLL(None).mallinfo2
_mallinfo.restype = _Heap


def read() -> dict[str, int]:
    """Every counter, after a collection."""
    gc.collect()
    heap = _mallinfo()
    return {
        "live_arrays": len(jax.live_arrays()),
        "buffer_bytes": sum(array.nbytes for array in jax.live_arrays()),
        "live_executables": len(jax.devices()[0].client.live_executables()),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
        "heap_bytes": heap.uordblks + heap.hblkhd,
        "fds": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
    }


def growth(function: Any) -> dict[str, int]:
    """What the counters grow by over the calls."""
    x = jax.device_put(np.ones((64, 64), "float32"))
    _call(function, x)
    read()
    before = read()
    _call(function, x)
    after = read()
    return {name: after[name] - before[name] for name in after}


def _call(function: Any, x: Any) -> None:
    for _ in range(CALLS):
        jax.block_until_ready(function(x))


def main(kernels: str) -> None:
    """Print the growth of each function."""
    sys.path.insert(0, kernels)
    clean, planted = (importlib.import_module(f"planted_leaks.{name}") for name in ("clean", "planted"))
    names = [name for name, found in vars(planted).items() if getattr(found, "__name__", "") == "double_and_leak"]
    functions = {"double": clean.double, **{name: getattr(planted, name) for name in names}}
    for name, function in functions.items():
        sys.stdout.write(json.dumps({"name": name, "calls": CALLS, **growth(function)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
