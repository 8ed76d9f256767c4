"""A memory of the device that is too small: how much was asked, how much there is, what asked for it, and what helps.

The compiler's texts, seen with libtpu 0.0.11.4 to 0.0.50.1:

    Scoped allocation with size 22.00M and limit 16.00M exceeded scoped vmem limit by 6.00M.
    Allocation (size=20971520) would exceed memory (size=16777216) :: #allocation2 [shape = 'u8[20971520]{0}',
        space=vmem, size = 0x1400000, tag = 'input window allocation for operator input 0. The window shape is …
    Ran out of memory in memory space hbm. Used 223.52G of 15.25G hbm. … Largest program allocations in hbm: …
    … the total memory required for HLO temporaries (74.67G) exceeds available HBM (15.75G).
    … unlikely to have enough device memory. Requires 223.52G, has 14.71G available.
"""

from __future__ import annotations

import re

from watchdog.judges.fault_texts import quote
from watchdog.judges.wording import bytes_text, one_line, sentence
from watchdog.model import Fault

_SCOPED = re.compile(r"size (\S+) and limit (\S+) exceeded scoped vmem")
_ALLOCATION = re.compile(r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)")
_SHAPE = re.compile(r"shape = '([^'{]+)")
_TAG = re.compile(r"tag = '([^']*)'")
_WINDOW = re.compile(r"(input|output) window allocation for operator \w+ (\d+)\. The window shape is ([^,]+\[[^]]*\])")
_FULL = re.compile(r"full shape is (\w+\[[^]]*\])")
_BUFFERS = re.compile(r"has (\d+) buffering levels")
_HBM = (
    re.compile(r"\(([\d.]+\w+)\) exceeds available HBM \(([\d.]+\w+)\)"),
    re.compile(r"Used ([\d.]+\w+) of ([\d.]+\w+) hbm"),
    re.compile(r"Requires ([\d.]+\w+), has ([\d.]+\w+) available"),
)
_LARGEST = re.compile(r"1\. Size: ([\d.]+\w+)(?P<more>.*?)(?:\n\s*=====|\n\s*2\. Size|\Z)", re.DOTALL)
_OPERATOR = re.compile(r'op_name="([^"]+)"')
_LABEL = re.compile(r"XLA label: ([\w.-]+) =")
_LISTED_SHAPE = re.compile(r"Shape: ([^{\s]+)")
_COUNT = re.compile(r"([\d.]+)([KMGTB]?)B?")
_UNITS = {"K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB", "B": "B"}
_SPACES = {"vmem": "VMEM", "smem": "SMEM", "sflag": "memory for semaphores", "hbm": "HBM"}
# All the VMEM of a core in bytes, as its compilers say when a single allocation exceeds it.
_VMEM = {
    generation: mebibytes * 2**20
    for generation, mebibytes in {"v3": 16, "v4": 16, "v5e": 128, "v5p": 64, "v6e": 128, "tpu7x": 64}.items()
}
_SPACE = re.compile(r"space=(\w+)")


def vmem(fault: Fault, generation: str) -> str:
    """What needs how much VMEM. `vmem_limit_bytes` moves the scoped limit, as far as the generation has more."""
    scoped = _SCOPED.search(fault.message)
    if scoped is None:
        return _one_allocation(fault, "smaller blocks help")
    needs = f"it needs {_size(scoped[1])} of scoped VMEM, the limit is {_size(scoped[2])}"
    has = _VMEM.get(generation)
    if has is None:
        return sentence([needs, "smaller blocks help, or a higher vmem_limit_bytes where the device has more"])
    if has < _bytes(scoped[1]):
        return sentence([needs, f"smaller blocks help ({generation} has no more than {bytes_text(has)})"])
    return sentence([needs, "smaller blocks or a higher vmem_limit_bytes help"])


def smem(fault: Fault) -> str:
    """What needs how much scalar memory, or how many semaphores."""
    return _one_allocation(fault, None)


def hbm(fault: Fault) -> str:
    """What needs how much of the device's memory, and the largest allocation where the compiler lists it."""
    for pattern in _HBM:
        if found := pattern.search(fault.message):
            return sentence([f"it needs {_size(found[1])} of HBM, the device has {_size(found[2])}", _largest(fault)])
    return _one_allocation(fault, None)


def _one_allocation(fault: Fault, helps: str | None) -> str:
    found = _ALLOCATION.search(fault.message)
    if found is None:
        return quote(fault)
    named = _SPACE.search(fault.message)
    space = _SPACES.get(named[1], named[1]) if named else "memory"
    asked, there = (bytes_text(int(size)) for size in found.groups())
    needs = f"{_allocated(fault)} alone needs {asked} of {space}, the device has {there}"
    return sentence([needs, helps])


def _allocated(fault: Fault) -> str:
    """What the allocation is for, in words of a kernel's author."""
    tag = _TAG.search(fault.message)
    shape = _SHAPE.search(fault.message)
    of = f" {shape[1]}" if shape and not shape[1].startswith("u8[") else ""
    if window := _WINDOW.search(fault.message):
        return f"the window of {window[1]} {window[2]}, {window[3]}{_within(fault)},"
    said = re.sub(r"@\{[\d,]*\}", "", tag[1]) if tag else ""
    if said.startswith("operand span"):
        number = re.search(r"operand (\d+)", said)
        return f"the window of operand {number[1]}" if number else "the window of an operand"
    if said.startswith("prefetched SMEM operand"):
        return f"the prefetched scalar operand {said.rpartition(' ')[2]}"
    if said.startswith("scratch operand"):
        return f"the scratch buffer{of}"
    return one_line(f"{f'the {said}' if said else 'one allocation'}{of}")


def _within(fault: Fault) -> str:
    full, buffers = _FULL.search(fault.message), _BUFFERS.search(fault.message)
    return f"{f' of {full[1]}' if full else ''}{f' in {buffers[1]} buffers' if buffers else ''}"


def _largest(fault: Fault) -> str | None:
    found = _LARGEST.search(fault.message)
    if found is None:
        return None
    operator = _OPERATOR.search(found["more"]) or _LABEL.search(found["more"])
    shape = _LISTED_SHAPE.search(found["more"])
    made = f" by {one_line(operator[1])}" if operator else ""
    return f"the largest allocation is {_size(found[1])}{f' for {one_line(shape[1])}' if shape else ''}{made}"


def _size(text: str) -> str:
    """The compiler's `22.00M` as `22 MiB`, its `512.0K` as `512 KiB`."""
    match = _COUNT.fullmatch(text)
    if match is None:
        return one_line(text)
    return f"{float(match[1]):g} {_UNITS[match[2] or 'B']}"


def _bytes(text: str) -> float:
    match = _COUNT.fullmatch(text)
    return float(match[1]) * 1024 ** ("BKMGT".index(match[2] or "B")) if match else 0.0
