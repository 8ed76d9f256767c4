"""What a process holds, counter by counter. A counter that this machine lacks is left out."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil


def samplers() -> dict[str, Callable[[], float]]:
    """The counters that exist here, by signal name; each takes microseconds to a few milliseconds."""
    import jax

    process = psutil.Process()
    client = jax.devices()[0].client
    found: dict[str, Callable[[], float]] = {
        "live_arrays": lambda: len(jax.live_arrays()),
        "live_array_bytes": lambda: sum(array.nbytes for array in jax.live_arrays()),
        "objects": lambda: len(gc.get_objects()),
        "rss_bytes": lambda: process.memory_info().rss,
        "threads": threading.active_count,
    }
    if hasattr(client, "live_executables"):
        found["live_executables"] = lambda: len(client.live_executables())
    if any(device.memory_stats() for device in jax.local_devices()):
        found["device_bytes"] = _device_bytes
    if hasattr(process, "heap_info"):
        found["heap_bytes"] = lambda: _heap(process.heap_info())
    elif hasattr(psutil, "heap_info"):
        found["heap_bytes"] = lambda: _heap(psutil.heap_info())
    if hasattr(process, "num_fds"):
        found["fds"] = process.num_fds
    if Path("/proc/self/maps").exists():
        found["maps"] = lambda: Path("/proc/self/maps").read_bytes().count(b"\n")
    return found


def _device_bytes() -> float:
    import jax

    stats = [device.memory_stats() for device in jax.local_devices()]
    return float(sum(each["bytes_in_use"] for each in stats if each))


def _heap(info: Any) -> float:
    """Bytes that the C allocator has handed out: its heap and its mappings."""
    return float(info.heap_used + info.mmap_used)
