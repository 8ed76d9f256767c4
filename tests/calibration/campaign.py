"""Gates over made-up series, by our rule and by those of others."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.calibration import series
from tests.calibration.series import FAMILIES
from watchdog.calibration import decided
from watchdog.judges.experiment import Decision, Rule
from watchdog.uv import Uv

OURS = "Kernel Watchdog"
SLOWDOWNS = (0.0, 0.02, 0.03, 0.05, 0.10)
_PACKAGES = ("asv", "pyperf", "pytest-benchmark", "scipy")
_CHUNK = 250  # gates of one task


@dataclass(frozen=True)
class Row:
    """What a rule said to the gates of one family and slowdown."""

    rule: str
    family: str
    slowdown: float
    gates: int
    failed: int  # of those
    undecided: int = 0
    processes: float | None = None  # of each side on average, where the rule chooses


def ours(family: str, slowdown: float, gates: int, seed: int) -> Row:
    """The rule of the gate, by which it takes process after process."""
    rng = np.random.default_rng([seed, *family.encode(), round(1000 * slowdown)])
    readings = []
    for _ in range(gates):
        gate = series.interleaved(family, slowdown, rng)
        sides = [np.median(side, axis=1).tolist() for side in (gate.base, gate.head)]
        readings.append(decided(sides[0], sides[1], Rule(processes=series.PROCESSES)))
    decisions = [reading.decision for reading in readings]
    taken = sum(reading.processes for reading in readings) / gates
    counted = decisions.count(Decision.SLOWER), decisions.count(Decision.UNDECIDED)
    return Row(OURS, family, slowdown, gates, *counted, taken)


def asked_ours(gates: Callable[[float], int], tell: Callable[[Row], object]) -> list[Row]:
    """Every family and slowdown, on all cores. `gates`: how many of a slowdown."""
    cases = [(family, slowdown) for family in FAMILIES for slowdown in SLOWDOWNS]
    rows = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for family, slowdown in cases:
            chunks = range(0, gates(slowdown), _CHUNK)
            sizes = [min(_CHUNK, gates(slowdown) - done) for done in chunks]
            count = len(sizes)
            parts = list(pool.map(ours, [family] * count, [slowdown] * count, sizes, range(count)))
            rows.append(merged(parts))
            tell(rows[-1])
    return rows


def merged(parts: list[Row]) -> Row:
    """Parts of one family and slowdown as one."""
    first, gates = parts[0], sum(part.gates for part in parts)
    taken = sum((part.processes or 0) * part.gates for part in parts) / gates
    failed, undecided = sum(part.failed for part in parts), sum(part.undecided for part in parts)
    return Row(first.rule, first.family, first.slowdown, gates, failed, undecided, taken)


def asked_peers(gates: int, tell: Callable[[Row], object]) -> Iterator[Row]:
    """Every family and slowdown, by the code of the other tools, installed beside."""
    for family in FAMILIES:
        for slowdown in SLOWDOWNS:
            rng = np.random.default_rng([1, *family.encode(), round(1000 * slowdown)])
            pairs = [series.one_after_the_other(family, slowdown, rng) for _ in range(gates)]
            for rule, failed in _failed([pair.base for pair in pairs], [pair.head for pair in pairs]).items():
                row = Row(rule, family, slowdown, gates, failed)
                tell(row)
                yield row


def _failed(base: list[series.Times], head: list[series.Times]) -> dict[str, int]:
    """How many of the gates each of the other rules fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gates.npz"
        np.savez(file, base=np.stack(base), head=np.stack(head))
        beside = [word for package in _PACKAGES for word in ("--with", package)]
        command = [
            Uv.found().binary,
            "run",
            "--no-project",
            "--quiet",
            *beside,
            "python",
            Path(__file__).with_name("peers.py"),
            file,
        ]
        answer = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True, cwd=folder)
    if answer.returncode:
        message = f"the other tools could not be asked: {answer.stderr}"
        raise RuntimeError(message)
    counts: dict[str, int] = json.loads(answer.stdout)
    return counts
