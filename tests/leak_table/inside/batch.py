"""One process of pytest in an environment of the campaign: a tool's tests over the cells of a plan.

    python batch.py TOOL PLAN.json RESULTS.jsonl CHECKS

A line is written when a cell begins and one when it is done, so that what killed the process can be told and the rest
can be asked by another one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))  # the folder that holds `tests`

from tests.leak_table.inside import recording  # noqa: E402
from tests.leak_table.inside.cell_requests import Batch  # noqa: E402

OPTIONS = {
    "memray": ["-p", "pytest_memray.plugin", "--memray", "--hide-memray-summary", "--stacks=200"],
    "psleak": [],
}


def main(tool: str, plan: str, results: str, checks: str) -> int:
    """Ask a tool about every cell of a plan; returns pytest's exit status."""
    batch = Batch.load(Path(plan), Path(checks))
    recorder = recording.start(batch, Path(results))
    arguments = [
        *("-c", os.devnull),
        f"--rootdir={HERE}",
        *("--quiet", "--tb=no", "--import-mode=importlib"),
        *("-p", "no:cacheprovider"),
        *OPTIONS[tool],
        str(HERE / f"{tool}_cells.py"),
    ]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return int(pytest.main(arguments, plugins=[recorder]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
