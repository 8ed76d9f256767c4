"""What a process holds, counter by counter. A counter that this machine or release lacks is left out."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from . import profile

Read = Callable[[], dict[str, float]]

# What a cycle of references can hold until the collector runs, and is worth a reading before it does.
UNCOLLECTED = ("device_bytes", "buffer_bytes", "buffers")


@dataclass(frozen=True)
class Samplers:
    """The groups of counters that exist here, and what was raised by those that do not."""

    groups: tuple[Read, ...]
    unreadable: tuple[str, ...]


def samplers() -> Samplers:
    """Every group tried once; one reading of a group takes microseconds to a few milliseconds.

    USS is no counter: it moves when a neighbour starts.
    """
    groups, unreadable = [], []
    for read in (*_of_jax(), *_of_python(), *_of_process(psutil.Process())):
        try:
            if read():
                groups.append(read)
        except Exception as error:  # backends and releases lack this and that, each in its own way
            unreadable.append(f"{type(error).__name__}: {str(error)[:200]}")
    return Samplers(tuple(groups), tuple(unreadable))


def read_all(groups: Iterable[Read]) -> dict[str, float]:
    """One reading of every counter, by signal name."""
    return {name: float(value) for group in groups for name, value in group().items()}


def counter(signal: str) -> Callable[[], float]:
    """One counter by itself. Raises KeyError where it does not exist here."""
    for group in samplers().groups:
        if signal in group():
            return lambda: float(group()[signal])
    raise KeyError(signal)


def _of_jax() -> Iterator[Read]:
    import jax

    yield _device_memory
    yield _buffers
    yield lambda: {"live_arrays": len(jax.live_arrays())}
    # The client is asked for each time: code under watch may clear the backends, which makes a new one.
    yield lambda: {"live_executables": len(jax.devices()[0].client.live_executables())}


def _device_memory() -> dict[str, float]:
    """Over all local devices: sums, and the smallest of the largest free blocks. Empty where no device tells (cpu)."""
    import jax

    found = [stats for device in jax.local_devices() if (stats := device.memory_stats())]
    names = {
        "device_bytes": "bytes_in_use",
        "device_peak_bytes": "peak_bytes_in_use",
        "device_allocations": "num_allocs",
    }
    sums = {ours: sum(stats[theirs] for stats in found) for ours, theirs in names.items() if _all_have(found, theirs)}
    if _all_have(found, "largest_free_block_bytes"):
        sums["device_largest_free_bytes"] = min(stats["largest_free_block_bytes"] for stats in found)
    return sums


def _all_have(found: list[dict[str, Any]], name: str) -> bool:
    return bool(found) and all(name in stats for stats in found)


def _buffers() -> dict[str, float]:
    """Counted by the runtime: two wrappers of one buffer are two live arrays and one buffer."""
    count, size = profile.take().totals(profile.BUFFER)
    return {"buffers": count, "buffer_bytes": size}


def _of_python() -> Iterator[Read]:
    yield lambda: {"objects": len(gc.get_objects()) + gc.get_freeze_count()}
    yield lambda: {"blocks": sys.getallocatedblocks()}


def _of_process(process: Any) -> Iterator[Read]:
    heap = getattr(process, "heap_info", None) or getattr(psutil, "heap_info", None)
    if heap is not None:
        yield lambda: {"heap_bytes": _handed_out(heap())}
    yield lambda: {"rss_bytes": process.memory_info().rss}
    yield lambda: {"threads": process.num_threads()}
    if hasattr(process, "num_fds"):
        yield lambda: {"fds": process.num_fds()}
    if Path("/proc/self/maps").exists():
        yield lambda: {"maps": Path("/proc/self/maps").read_bytes().count(b"\n")}


def _handed_out(info: Any) -> int:
    """Bytes that the C allocator has handed out: its heap and its mappings."""
    return int(info.heap_used + info.mmap_used)
