"""Ways of using an implementation: a kernel that is clean in a steady loop can leak in service.

Each scenario turns one implementation with one case's inputs into requests that a service would make.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

from . import lengths
from .differentiation import defines_none, differentiated
from .faults import NotHereError, at, is_library
from .subject import Subject, end_a_fork

EVERY = 5  # of this many requests of `errors`, one raises
THREADS = 4
IN_FLIGHT = 32  # calls of `async` that are not waited for


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Requests:
    """How requests are served: `call` serves one and keeps nothing, `settle` waits for those still in flight.

    `program` compiles what is called, for its memory; None where the compile check has it already.
    """

    call: Callable[[], None]
    settle: Callable[[], None] = _nothing
    program: Callable[[], Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """What the requests are made of. `arguments` gives the positional ones, fresh where the kernel frees its inputs."""

    subject: Subject
    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    keywords: dict[str, Any]
    frees_inputs: bool = False
    process: int = field(default_factory=os.getpid)

    def arguments(self) -> tuple[Any, ...]:
        return self.fresh() if self.frees_inputs else self.arrays

    def fresh(self) -> tuple[Any, ...]:
        """Copies of the inputs on the device; the inputs themselves stay untouched."""
        import jax

        return tuple(jax.tree_util.tree_map(lambda leaf: jax.numpy.array(leaf, copy=True), self.arrays))

    def serve(self, function: Callable[..., Any]) -> None:
        """One request, waited for."""
        import jax

        jax.block_until_ready(function(*self.arguments(), **self.keywords))
        end_a_fork(self.process)


class RequestError(Exception):
    """What the failing requests of `errors` raise."""


@contextmanager
def serving(scenario: str, service: Service) -> Iterator[Requests]:
    """The requests of a scenario. Raises NotHereError where it does not apply to the implementation."""
    made = _MAKERS[scenario](service)
    try:
        yield made
    finally:
        made.settle()


def _steady(service: Service) -> Requests:
    import jax

    jitted = jax.jit(service.function)
    return Requests(lambda: service.serve(jitted))


def _eager(service: Service) -> Requests:
    """As it stands; a function that its author jitted has a program of its own, with its own donation."""
    service = _after_one_request(service)
    lower = getattr(service.function, "lower", None)
    program = None if lower is None else lambda: lower(*service.arguments(), **service.keywords).compile()
    facts = {"frees_inputs": service.frees_inputs}
    return Requests(lambda: service.serve(service.function), program=program, facts=facts)


def _after_one_request(service: Service) -> Service:
    """A kernel that frees its inputs, by donating them or by `delete`, gets fresh ones from then on."""
    import jax

    tried = replace(service, arrays=service.fresh())
    tried.serve(tried.function)
    leaves = jax.tree_util.tree_leaves(tried.arrays)
    return replace(service, frees_inputs=any(leaf.is_deleted() for leaf in leaves))


def _shapes(service: Service) -> Requests:
    import jax

    found = lengths.inputs_by_length(service.subject, service.function)
    services = [replace(service, arrays=jax.device_put(positional)) for positional in found.values()]
    jitted = jax.jit(service.function)
    turn = cycle(services)
    return Requests(lambda: next(turn).serve(jitted), facts={"lengths": list(found)})


class _Handler:
    """A service object whose method is jitted."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def handle(self, *arrays: Any, **keywords: Any) -> Any:
        return self.function(*arrays, **keywords)


def _rebuild(service: Service) -> Requests:
    """By turns a closure, a partial and a method, each jitted anew."""
    import jax

    def closure() -> Callable[..., Any]:
        def handle(*arrays: Any, **keywords: Any) -> Any:
            return service.function(*arrays, **keywords)

        return handle

    makers: Iterator[Callable[[], Callable[..., Any]]] = cycle(
        [closure, lambda: functools.partial(service.function), lambda: _Handler(service.function).handle]
    )
    return Requests(lambda: service.serve(jax.jit(next(makers)())))


def _grad(service: Service) -> Requests:
    import jax

    numbers = differentiated(service.subject, service.arrays)
    outputs = jax.tree_util.tree_leaves(jax.eval_shape(service.function, *service.arrays, **service.keywords))
    if not any(jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating) for leaf in outputs):
        message = "has no gradient: none of its outputs is a floating-point number"
        raise NotHereError(message)

    def loss(*arrays: Any, **keywords: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(service.function(*arrays, **keywords))
        floats = [leaf for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]
        return sum(jax.numpy.sum(leaf.astype("float32")) for leaf in floats)

    jitted = jax.jit(jax.grad(loss, argnums=numbers))
    try:
        jitted.lower(*service.arguments(), **service.keywords)
    except Exception as error:
        if not defines_none(error):
            raise
        message = "has no gradient"
        raise NotHereError(message) from error
    program = functools.partial(_compiled, service, jitted)
    return Requests(lambda: service.serve(jitted), program=program)


def _donate(service: Service) -> Requests:
    """Every request gives its inputs away."""
    import jax

    if not service.arrays:
        message = "it takes no arrays that could be donated"
        raise NotHereError(message)
    jitted = jax.jit(service.function, donate_argnums=tuple(range(len(service.arrays))))
    warnings.filterwarnings("ignore", message=".*donated buffers were not usable")  # inputs may outnumber outputs

    def call() -> None:
        jax.block_until_ready(jitted(*service.fresh(), **service.keywords))

    return Requests(call, program=functools.partial(_compiled, service, jitted))


def _compiled(service: Service, jitted: Any) -> Any:
    return jitted.lower(*service.fresh(), **service.keywords).compile()


def _errors(service: Service) -> Requests:
    """One request in five fails twice over: once while it is traced, once with its result at hand."""
    import jax

    jitted = jax.jit(service.function)

    def raising(*arrays: Any, **keywords: Any) -> Any:
        _refuse(service.function(*arrays, **keywords))

    failing = jax.jit(raising)
    turn = cycle(range(EVERY))

    def fail_in_tracing() -> None:
        try:
            service.serve(failing)
        except RequestError:
            return

    def fail_with_result() -> None:
        try:
            _refuse(jax.block_until_ready(jitted(*service.arguments(), **service.keywords)))
        except RequestError:
            return

    def call() -> None:
        if next(turn) > 0:
            service.serve(jitted)
            return
        fail_in_tracing()
        fail_with_result()

    return Requests(call, facts={"raises_every": EVERY})


def _refuse(result: Any) -> None:
    raise RequestError(type(result).__name__)


def _threads(service: Service) -> Requests:
    """Requests are handed to a few threads, which stay; each call waits for the one that had its thread before."""
    import jax

    jitted = jax.jit(service.function)
    pool = ThreadPoolExecutor(THREADS)
    pending: deque[Any] = deque()

    def settle() -> None:
        while pending:
            pending.popleft().result()

    def call() -> None:
        if len(pending) >= THREADS:
            pending.popleft().result()
        pending.append(pool.submit(service.serve, jitted))

    for _ in range(THREADS):  # all of them exist before anything is counted
        call()
    settle()
    return Requests(call, settle, facts={"threads": THREADS})


def _async(service: Service) -> Requests:
    import jax

    jitted = jax.jit(service.function)
    pending: deque[Any] = deque()

    def settle() -> None:
        while pending:
            jax.block_until_ready(pending.popleft())

    def call() -> None:
        if len(pending) >= IN_FLIGHT:
            jax.block_until_ready(pending.popleft())
        pending.append(jitted(*service.arguments(), **service.keywords))

    return Requests(call, settle, facts={"in_flight": IN_FLIGHT})


def _reload(service: Service) -> Requests:
    """Every request finds jax's caches cleared and the implementation's module imported anew."""
    import jax

    module = sys.modules[service.subject.module]
    own = not is_library(getattr(module, "__file__", None) or "<built-in>")

    def call() -> None:
        jax.clear_caches()
        if own:
            with at("import"):
                importlib.reload(module)
        service.serve(jax.jit(service.subject.function()))

    return Requests(call, facts={"reloads": service.subject.module if own else None})


_MAKERS: dict[str, Callable[[Service], Requests]] = {
    "steady": _steady,
    "eager": _eager,
    "shapes": _shapes,
    "rebuild": _rebuild,
    "grad": _grad,
    "donate": _donate,
    "errors": _errors,
    "threads": _threads,
    "async": _async,
    "reload": _reload,
}
