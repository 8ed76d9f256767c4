"""One thing that is never given back, each kind in a function of its own; what it keeps per call stands beside it."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from typing import Any

import jax
import jax.numpy as jnp

SMALL, LARGE = 64, 16_384  # bytes asked of the C allocator
TEXT = 64  # bytes in an untracked object

_kept: list[Any] = []
_numbers = itertools.count()
_never = threading.Event()

# C++'s `operator new`, which calls malloc from inside a shared library, as the code of kernels does: tools that
# intercept malloc between libraries do not see a call of libc's own symbol by ctypes.
_malloc = ctypes.CDLL("libstdc++.so.6")["_Znwm"]
_malloc.argtypes = [ctypes.c_size_t]
_malloc.restype = ctypes.c_void_p


class Note:
    """A small object that the collector tracks."""

    def __init__(self, number: int) -> None:
        self.number = number


def keep_buffer(x: Any) -> None:
    """A device buffer of the size of `x`."""
    _kept.append(jnp.copy(x))  # leaks


def keep_executable(x: Any) -> None:
    """A program compiled from a new function."""
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    lowered = jax.jit(lambda y: y + 1).lower(shape)
    _kept.append(lowered.compile())  # leaks


def keep_object(_: Any) -> None:
    """An instance of a class, with an attribute."""
    _kept.append(Note(0))  # leaks


def keep_bytes(_: Any) -> None:
    """A `bytes` of its own value, which the collector does not track."""
    _kept.append(next(_numbers).to_bytes(TEXT, "little"))  # leaks


def keep_small_malloc(_: Any) -> None:
    """64 bytes of the C allocator, written to."""
    ctypes.memset(_malloc(SMALL), 1, SMALL)  # leaks


def keep_large_malloc(_: Any) -> None:
    """16 KiB of the C allocator, written to."""
    ctypes.memset(_malloc(LARGE), 1, LARGE)  # leaks


def keep_descriptor(_: Any) -> None:
    """An open file."""
    os.open(os.devnull, os.O_RDONLY)  # leaks


def keep_thread(_: Any) -> None:
    """A thread that waits for what never comes."""
    threading.Thread(target=_never.wait, daemon=True).start()  # leaks
