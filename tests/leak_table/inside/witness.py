"""A long run of one cell, with counters read by other means than any of the tools': does it grow at all?

python witness.py PLAN.json NUMBER READINGS.json CHECKS
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))  # the folder that holds `tests`

from tests.leak_table.inside.cell_requests import Batch, Request

PARTS = 5
BUDGET = 120.0  # seconds of calls
LEAST, MOST = 500, 20_000  # calls; a fifth of the most is whole periods of what jax gives back once in 1,000 calls

_HEAP_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keep")


class _Heap(ctypes.Structure):
    """What mallinfo2 returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_FIELDS)


def main(plan: str, number: str, readings: str, checks: str) -> None:
    """Write the calls made and the counters at the beginning and after each part."""
    with Batch.load(Path(plan), Path(checks)).serving(int(number)) as request:
        calls = request.within(BUDGET, LEAST, MOST) // PARTS
        seen = [_read()]
        for _ in range(PARTS):
            _serve(request, calls)
            seen.append(_read())
    Path(readings).write_text(json.dumps({"calls": calls, "readings": seen}), encoding="utf-8")


def _serve(request: Request, calls: int) -> None:
    for _ in range(calls):
        request.call()
    request.settle()


def _read() -> dict[str, int]:
    import jax  # noqa: PLC0415 - told by the batch what to do first

    gc.collect()
    heap = _mallinfo()
    return {
        "live_arrays": len(jax.live_arrays()),
        "live_executables": len(jax.devices()[0].client.live_executables()),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
        "heap_bytes": heap.uordblks + heap.hblkhd,
        "fds": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(list(Path("/proc/self/task").iterdir())),
    }


_mallinfo = ctypes.CDLL(None).mallinfo2
_mallinfo.restype = _Heap


if __name__ == "__main__":
    main(*sys.argv[1:])
