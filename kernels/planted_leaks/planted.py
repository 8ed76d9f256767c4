"""The kernels that leak: the work of `clean.double`, and something kept at every call or at every hundredth."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from . import leaks
from .clean import double

SELDOM = 100  # calls from one leak to the next


def _planted(leak: Callable[[Any], None], every: int) -> Callable[[Any], Any]:
    calls = itertools.count(1)

    def double_and_leak(x: Any) -> Any:
        if next(calls) % every == 0:
            leak(x)
        return double(x)

    return double_and_leak


buffer = _planted(leaks.keep_buffer, every=1)
executable = _planted(leaks.keep_executable, every=1)
tracked_object = _planted(leaks.keep_object, every=1)
untracked_object = _planted(leaks.keep_bytes, every=1)
small_malloc = _planted(leaks.keep_small_malloc, every=1)
large_malloc = _planted(leaks.keep_large_malloc, every=1)
descriptor = _planted(leaks.keep_descriptor, every=1)
thread = _planted(leaks.keep_thread, every=1)

seldom_buffer = _planted(leaks.keep_buffer, every=SELDOM)
seldom_executable = _planted(leaks.keep_executable, every=SELDOM)
seldom_tracked_object = _planted(leaks.keep_object, every=SELDOM)
seldom_untracked_object = _planted(leaks.keep_bytes, every=SELDOM)
seldom_large_malloc = _planted(leaks.keep_large_malloc, every=SELDOM)
seldom_descriptor = _planted(leaks.keep_descriptor, every=SELDOM)
seldom_thread = _planted(leaks.keep_thread, every=SELDOM)
