"""asv's benchmark file: the peak memory of many calls of each cell, before and after a leak is planted.

asv starts a process for each parameter. It counts what `setup` takes as well, and its documentation says so; the part
is the same on both sides.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, os.environ["LEAK_TABLE_ROOT"])  # the folder that holds `tests`

from tests.leak_table.inside.cell_requests import Batch, DoesNotApplyError, Request

BUDGET = 2.0  # seconds of calls
LEAST, MOST = 100, 10_000

_PLANS: dict[str, tuple[str, int]] = json.loads(Path(os.environ["LEAK_TABLE_PLANS"]).read_text(encoding="utf-8"))
_CHECKS = Path(os.environ["LEAK_TABLE_CHECKS"])


class Cells:
    """One parameter for each cell: its function and scenario."""

    params = (sorted(_PLANS),)
    param_names = ("cell",)
    timeout = 600

    def setup(self, cell: str) -> None:
        """Warm up; a cell that does not apply is not benchmarked."""
        plan, number = _PLANS[cell]
        self.stack = ExitStack()
        try:
            self.request: Request = self.stack.enter_context(Batch.load(Path(plan), _CHECKS).serving(number))
        except DoesNotApplyError as reason:
            raise NotImplementedError from reason
        self.calls = self.request.within(BUDGET, LEAST, MOST)

    def peakmem_calls(self, _cell: str) -> None:
        for _ in range(self.calls):
            self.request.call()
        self.request.settle()

    def teardown(self, _cell: str) -> None:
        self.stack.close()
