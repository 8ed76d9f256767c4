"""Which line makes a counter grow: the counter read between the lines of calls that leak on purpose."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import psutil
import pytest

from tests.inside import checks

lines = checks("lines")

pytestmark = pytest.mark.skipif(
    not hasattr(psutil, "heap_info"), reason="this C library does not tell what its heap has handed out"
)

TAKES = """
import ctypes
import json
import os
import threading
import time

libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
SIZE = 1 << 16
calls, flag = [0], []


def every():
    libc.malloc(SIZE)  # every


def twentieth():
    calls[0] += 1
    if calls[0] % 20 == 0:
        libc.malloc(SIZE)  # twentieth


def raising():
    libc.malloc(SIZE)  # raising
    raise LookupError("on purpose")


def handles():
    try:
        raising()
    except LookupError:
        calls[0] += 1


def through_the_library():
    json.loads("{}", object_hook=lambda _: libc.malloc(SIZE))  # through_the_library


def borrowed():
    pointer = libc.malloc(SIZE)  # borrowed
    calls[0] += 1
    libc.free(pointer)  # given back
    libc.malloc(SIZE // 2)  # kept


def by_turns():
    flag.append(os.open(os.devnull, 0)) if not flag else os.close(flag.pop())  # by turns


def yields():
    for _ in range(2):
        libc.malloc(SIZE)  # yields
        yield


def consumes():
    for _ in yields():
        calls[0] += 1


def worker():
    time.sleep(0.005)  # until the other one waits
    libc.malloc(SIZE)  # in_a_thread


def in_a_thread():
    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()  # waits


def opens():
    flag.append(os.open(os.devnull, os.O_RDONLY))  # opens


def opens_seldom():
    calls[0] += 1
    if calls[0] % 20 == 0:
        opens()


def opens_and_closes():
    os.close(os.open(os.devnull, os.O_RDONLY))


leave = threading.Event()


def starts():
    threading.Thread(target=leave.wait, daemon=True).start()  # starts


def nothing():
    calls[0] += 1
"""
SIZE = 1 << 16


@pytest.fixture
def takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module above, imported as a user's own."""
    (tmp_path / "takes.py").write_text(TAKES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("takes")
    del sys.modules["takes"]


def line(mark: str) -> str:
    return f"takes.py:{next(n for n, text in enumerate(TAKES.splitlines(), 1) if text.endswith(f'# {mark}'))}"


def heap() -> float:
    """Bytes that the C allocator has handed out."""
    info = psutil.heap_info()
    return float(info.heap_used + info.mmap_used)


def descriptors() -> float:
    return float(psutil.Process().num_fds())


def rates(call: Callable[[], None], counter: Callable[[], float] = heap, calls: int = 100) -> dict[str, float]:
    """What each line takes per call, in the order of the answer."""
    return {one.where: one.per_call for one in lines.by_line(call, counter, calls=calls, seconds=60)}


@pytest.mark.parametrize(
    ("name", "mark", "per_call"),
    [
        ("every", "every", 1),
        ("twentieth", "twentieth", 1 / 20),
        ("handles", "raising", 1),
        ("through_the_library", "through_the_library", 1),
        ("consumes", "yields", 2),
        ("in_a_thread", "in_a_thread", 1),
    ],
)
def test_what_c_code_takes_is_booked_on_the_users_line(
    takes: ModuleType, name: str, mark: str, per_call: float
) -> None:
    """At every call or at each twentieth, in a callee that raises, below the library, in a generator, in a thread."""
    found = rates(getattr(takes, name))
    assert next(iter(found)) == line(mark)
    assert found[line(mark)] == pytest.approx(per_call * SIZE, rel=0.05)


@pytest.mark.parametrize(("name", "per_call"), [("opens", 1), ("opens_seldom", 1 / 20)])
def test_descriptors_are_booked_on_the_line_that_opens_them(takes: ModuleType, name: str, per_call: float) -> None:
    """Exactly, at every call or at each twentieth, and on no other line."""
    found = rates(getattr(takes, name), descriptors)
    for number in takes.flag:
        os.close(number)
    assert found == {line("opens"): pytest.approx(per_call)}


def test_a_descriptor_that_is_closed_in_the_same_line_is_no_growth(takes: ModuleType) -> None:
    """Nothing is named."""
    assert rates(takes.opens_and_closes, descriptors) == {}


def test_threads_are_booked_on_the_line_that_starts_them(takes: ModuleType) -> None:
    """The process's count of threads is a counter like any other."""
    found = rates(takes.starts, lambda: float(psutil.Process().num_threads()), calls=20)
    takes.leave.set()
    assert found == {line("starts"): pytest.approx(1.0, abs=0.2)}  # a library's own may start meanwhile


def test_the_caller_is_not_charged_for_its_callee(takes: ModuleType) -> None:
    """Of a growth in a function of the user's, the line that called it has no share worth a name."""
    assert [where for where, rate in rates(takes.handles).items() if rate > SIZE / 10] == [line("raising")]


def test_a_thread_that_waits_is_not_charged_for_the_one_it_waits_for(takes: ModuleType) -> None:
    """The counter is the process's: what the worker's line took is not booked on `join` as well."""
    assert [where for where, rate in rates(takes.in_a_thread).items() if rate > SIZE / 10] == [line("in_a_thread")]


def test_what_is_given_back_elsewhere_shows_in_full(takes: ModuleType) -> None:
    """A loan that another line returns is a growth of its line; the line that returns it is not named."""
    found = rates(takes.borrowed)
    assert found[line("borrowed")] == pytest.approx(SIZE, rel=0.05)
    assert found[line("kept")] == pytest.approx(SIZE / 2, rel=0.05)
    assert line("given back") not in found


@pytest.mark.parametrize("calls", [100, 101])
def test_a_line_that_takes_and_gives_by_turns_keeps_next_to_nothing(takes: ModuleType, calls: int) -> None:
    """Half of its runs take one, the others give it back: its growth is the difference, not what most runs do."""
    assert rates(takes.by_turns, descriptors, calls).get(line("by turns"), 0.0) <= 1 / calls


def test_other_threads_work_does_not_move_a_line_that_always_takes(takes: ModuleType) -> None:
    """One reading in ten is off by a thousand times the line's own; the rate is as it was."""
    readings = [0]

    def disturbed() -> float:
        readings[0] += 1
        return heap() + (1000 * SIZE if readings[0] % 10 == 0 else 0)

    assert rates(takes.every, disturbed)[line("every")] == pytest.approx(SIZE, rel=0.05)


def test_a_counter_that_stands_still_names_nothing(takes: ModuleType) -> None:
    """No growth, no line."""
    assert rates(takes.nothing, lambda: 7.0) == {}


def test_one_call_is_made_however_little_time_there_is(takes: ModuleType) -> None:
    """The rate is over the calls made, and one is made to warm up."""
    (found,) = lines.by_line(takes.every, lambda: float(takes.calls[0]) + heap(), calls=100, seconds=0)
    assert found.per_call == pytest.approx(SIZE, rel=0.05)


@pytest.mark.parametrize(
    ("name", "ends"), [("every", nullcontext()), ("raising", pytest.raises(LookupError, match="on purpose"))]
)
def test_the_former_trace_functions_come_back(
    takes: ModuleType, name: str, ends: AbstractContextManager[object]
) -> None:
    """A debugger's or a coverage tool's, of this thread and of those to come, whether the calls succeed or raise."""

    def former(_frame: FrameType, _event: str, _argument: Any) -> None:
        return None

    before, before_of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(former)
    threading.settrace(former)
    try:
        with ends:
            lines.by_line(getattr(takes, name), heap, calls=3, seconds=60)
        found = sys.gettrace(), threading.gettrace()
    finally:
        sys.settrace(before)
        threading.settrace(before_of_threads)
    assert found == (former, former)
