"""pytest-memray over the cells of a plan, as its documentation has it: the code in a loop, a limit per call stack.

The limit is the lower of the two that the table shows; a report names what each stack leaked, so that the larger limit
is told from the same run. It is the lowest that leaves room for what jax 0.9 and before holds of each call, 128 bytes,
until a thousand calls are full: 125 KiB. Hence also the many calls, beside which that is little.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.leak_table.inside import recording
from tests.leak_table.inside.cell_requests import DoesNotApplyError, Request

LIMIT = "256 KB"
BUDGET = 1.0  # seconds of calls when nobody traces them
LEAST, MOST = 30, 10_000  # calls; its documentation shows 100

_recorder = recording.current()


@pytest.fixture(params=_recorder.batch.numbers)
def served(request: pytest.FixtureRequest) -> Iterator[Request]:
    """A cell, warmed up outside of what is traced."""
    try:
        with _recorder.batch.serving(request.param) as served:
            yield served
    except DoesNotApplyError as reason:
        pytest.skip(str(reason))


@pytest.mark.limit_leaks(LIMIT)
def test_cell(served: Request) -> None:
    """The requests of one cell leak no more than the limit from any call stack."""
    calls = served.within(BUDGET, LEAST, MOST)
    _recorder.calls = calls
    for _ in range(calls):
        served.call()
    served.settle()
    gc.collect()
