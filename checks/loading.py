"""From `module:function` to a callable. Whatever goes wrong on the way is the import's own fault, not ours."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .plan import Kernel


def load(name: str) -> Any:
    """Import `module:function` (the function may be dotted). Raises what the import raises."""
    module, _, attribute = name.partition(":")
    return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


def implementation(kernel: Kernel, name: str) -> Callable[..., Any]:
    """One implementation of a kernel, adapted by its layout if it has one."""
    function: Callable[..., Any] = load(kernel.implementations[name])
    if not callable(function):
        message = f"{kernel.implementations[name]} is a {type(function).__name__}, not a function"
        raise TypeError(message)
    adapter = kernel.layout.get(name)
    return load(adapter)(function) if adapter else function
