"""Facts of this machine: what kind of device it has, how many cores, how much memory, which day it is."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from watchdog import __version__

Platform = Literal["cpu", "gpu", "tpu"]

ROOT = Path("/")

_GOOGLE = "0x1ae0"
# PCI device ids of TPUs, as jax's own hardware_utils knows them; v2 and v3 share one.
_TPU_GENERATIONS = {
    "0x0027": "v3",
    "0x005e": "v4",
    "0x0062": "v5p",
    "0x0063": "v5e",
    "0x006f": "v6e",
    "0x0076": "tpu7x",
}
# Google's virtual disks and network cards carry the same vendor id; their PCI class tells them apart.
_STORAGE_OR_NETWORK = ("0x01", "0x02")

# What jax needs beside a device to use it: in words, as a package name, and the platform it then calls itself.
_PLUGINS: dict[str, tuple[str, re.Pattern[str], Platform]] = {
    "tpu": ("libtpu", re.compile(r"libtpu(-nightly)?"), "tpu"),
    "nvidia": ("a CUDA plugin of jax", re.compile(r"jax-cuda\d*-(plugin|pjrt)"), "gpu"),
    "amd": ("a ROCm plugin of jax", re.compile(r"jax-rocm\d*-(plugin|pjrt)"), "gpu"),
}


@dataclass(frozen=True)
class Device:
    """An accelerator that the operating system shows."""

    kind: Literal["tpu", "nvidia", "amd"]
    path: str  # the device file
    generation: str | None = None  # of a TPU, where its PCI id is known


@dataclass(frozen=True)
class HostPlatform:
    """The platform that jax will use here under a given lock, and why."""

    platform: Platform
    reason: str


def devices(root: Path = ROOT) -> tuple[Device, ...]:
    """The accelerators that device files and PCI ids show; nothing is opened."""
    found = (_tpu(root), _first_file(root, "nvidia", "dev/nvidia0"), _first_file(root, "amd", "dev/kfd"))
    return tuple(device for device in found if device)


def host_platform(packages: Collection[str], root: Path = ROOT) -> HostPlatform:
    """Where jax will run with these `packages` (normalised names of the lock): it needs the device and its plugin."""
    missing = []
    for device in devices(root):
        name, plugin, accelerated = _PLUGINS[device.kind]
        if any(map(plugin.fullmatch, packages)):
            return HostPlatform(accelerated, f"{device.path} is here and the lock has {name}")
        missing.append(f"{device.path} is here, but the lock lacks {name}")
    return HostPlatform("cpu", "; ".join(missing) or "this machine shows no accelerator")


def facts(root: Path = ROOT) -> dict[str, object]:
    """What a run records of its machine: counts, bytes and versions, nothing that names it."""
    return {
        "cores": usable_cores(),
        "core_quota": core_quota(root),
        "memory_bytes": usable_memory(root),
        "memory_total_bytes": psutil.virtual_memory().total,
        "memory_limit_bytes": memory_limit(root),
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "program": __version__,
        "devices": [f"{device.kind} {device.generation or ''}".strip() for device in devices(root)],
    }


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def usable_memory(root: Path = ROOT) -> int:
    """Bytes of memory that processes here may use together: the machine's, or the control group's limit."""
    total = psutil.virtual_memory().total
    limit = memory_limit(root)
    return total if limit is None else min(total, limit)


def memory_limit(root: Path = ROOT) -> int | None:
    """The tightest memory limit of this process's control groups, in bytes; None where there is none."""
    limits = [
        int(text)
        for folder in _control_groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(folder / name)).isdigit()
    ]
    # Version 1 writes "no limit" as a number near 2**63.
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def core_quota(root: Path = ROOT) -> float | None:
    """How many cores' worth of time the control groups allow; None where there is no quota."""
    quotas = [quota for folder in _control_groups(root, "cpu") if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def _quota(folder: Path) -> float | None:
    together = _read(folder / "cpu.max").split()
    allowed, period = together or (_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))
    if not (allowed.isdigit() and period.isdigit() and int(period)):
        return None  # "max", -1 or no such file
    return int(allowed) / int(period)


def _control_groups(root: Path, controller: str) -> list[Path]:
    """The folders of this process's group and of all that it lies in, for both versions of control groups."""
    folders = [root / "sys/fs/cgroup", root / "sys/fs/cgroup" / controller]
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, place = line.split(":", 2)
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        if not controllers or controller in controllers.split(","):
            parts = Path(place.lstrip("/"))
            folders += [mount / part for part in (parts, *parts.parents)]
    return folders


def _tpu(root: Path) -> Device | None:
    generations = _tpu_generations(root)
    accelerator = next(iter(sorted((root / "dev").glob("accel[0-9]*"))), None)
    group = next(iter(sorted((root / "dev/vfio").glob("[0-9]*"))), None)
    file = accelerator or (group if generations is not None else None)
    if file is None:
        return None
    return Device("tpu", f"/{file.relative_to(root)}", next(iter(generations or ()), None))


def _tpu_generations(root: Path) -> list[str] | None:
    """Generations of the TPUs on the PCI bus (those known by id); None when there is no TPU on it."""
    ids = [
        _read(slot / "device")
        for slot in sorted((root / "sys/bus/pci/devices").glob("*"))
        if _read(slot / "vendor") == _GOOGLE and not _read(slot / "class").startswith(_STORAGE_OR_NETWORK)
    ]
    return [_TPU_GENERATIONS[device] for device in ids if device in _TPU_GENERATIONS] if ids else None


def _first_file(root: Path, kind: Literal["nvidia", "amd"], place: str) -> Device | None:
    return Device(kind, f"/{place}") if (root / place).exists() else None


def _read(path: Path) -> str:
    """What a small file of /sys or /proc says; empty when it is not there or may not be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:  # a fact that the kernel does not show is simply not known
        return ""


def today() -> datetime.date:
    """The day in UTC, by which acceptances expire."""
    return datetime.datetime.now(tz=datetime.UTC).date()
