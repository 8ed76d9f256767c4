"""psleak over the cells of a plan, with its own defaults; fewer calls where one takes long, for it may make 22,665."""

from __future__ import annotations

from collections.abc import Callable

from psleak import MemoryLeakTestCase  # type: ignore[import-not-found]  # installed where this runs

from tests.leak_table.inside import recording
from tests.leak_table.inside.cell_requests import DoesNotApplyError

BUDGET = 30.0  # seconds of calls, if it goes on to the last of its runs
ALL_RUNS = 113.3  # times `times`: ten runs, each half as long again
LEAST, MOST = 5, 200  # `times`; 200 is its default

_recorder = recording.current()


class TestCells(MemoryLeakTestCase):  # type: ignore[misc]  # the same
    """One test for each cell, made below."""


def _test(number: int) -> Callable[[MemoryLeakTestCase], None]:
    def test(self: MemoryLeakTestCase) -> None:
        try:
            with _recorder.batch.serving(number) as request:
                times = request.within(BUDGET / ALL_RUNS, LEAST, MOST)
                _recorder.calls = times
                self.execute(request.call, times=times, trim_callback=request.settle)
        except DoesNotApplyError as reason:
            self.skipTest(str(reason))

    return test


for _number in _recorder.batch.numbers:
    setattr(TestCells, f"test_{_number}", _test(_number))
