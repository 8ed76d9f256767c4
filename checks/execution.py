"""Running an implementation: on this machine's device where it can, interpreted where it cannot, and saying which."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import artefacts, pallas
from .faults import NotHereError, StageError, at
from .subject import Subject

DEVICE = "device"
_BILLION = 1e9


@dataclass(frozen=True)
class Execution:
    """How a function is run here: `mode` is what the observation says, `interpreter` what Pallas is told."""

    mode: str
    interpreter: Any = None
    note: str | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Everything jitted and called inside is run this way."""
        import jax

        if self.interpreter is None:
            yield
            return
        with pallas.interpreted(self.interpreter), jax.default_device(jax.devices("cpu")[0]):
            yield

    def run(self, function: Callable[..., Any], positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a function once, jitted, and bring what it returns to the host.

        What is interpreted is compiled without optimisation: it runs once, and compiling takes most of the time.
        """
        import jax

        options = None if self.interpreter is None else {"xla_backend_optimization_level": 0}
        with self.active():
            compiled = jax.jit(function).lower(*positional, **keywords).compile(compiler_options=options)
            return jax.device_get(jax.block_until_ready(compiled(*positional, **keywords)))


def strictly(subject: Subject) -> Execution:
    """On the device, or under the strictest TPU interpreter that this release has, else the generic one."""
    if not needs_interpreting(subject):
        return Execution(DEVICE)
    refuse_large(subject)
    interpreter, missing = pallas.strict_interpreter()
    if interpreter is None:
        return Execution(pallas.GENERIC, interpreter=True, note=missing)
    return Execution(pallas.TPU, interpreter=interpreter)


def plainly(subject: Subject) -> Execution:
    """On the device, or under the generic interpreter, which compiles the kernel's arithmetic and keeps no state."""
    if not needs_interpreting(subject):
        return Execution(DEVICE)
    refuse_large(subject)
    return Execution(pallas.GENERIC, interpreter=True)


def needs_interpreting(subject: Subject, implementation: str | None = None) -> bool:
    """Whether an implementation holds a TPU kernel and this process computes on something else."""
    import jax

    platform = str(jax.devices()[0].platform)
    if platform == "tpu":
        return False
    function = subject.function(implementation)
    return pallas.is_tpu_kernel(subject.traced(None, function).jaxpr, platform)


def refuse_large(subject: Subject) -> None:
    """Raises NotHereError for a case whose native implementation takes more operations than may be interpreted."""
    native, limit = _operations(subject), subject.plan.interpret_limit
    if native is not None and native > limit:
        message = (
            f"too large to interpret: native takes {native / _BILLION:.3g} billion operations, "
            f"and interpret_limit is {limit / _BILLION:.3g} billion"
        )
        raise NotHereError(message)


def _operations(subject: Subject) -> float | None:
    """What XLA counts in native; None where it counts nothing. Counted once in a run's folder: it takes a tenth of a second."""
    kept = subject.plan.scratch / f"{subject.case.name}.operations"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))  # type: ignore[no-any-return]  # written below
    try:
        traced = subject.traced(None, subject.function("native"))
        with at("lower"):
            native = artefacts.flops(traced.lower())
    except StageError:  # then native's own cells tell, and this one is tried
        native = None
    kept.write_text(json.dumps(native), encoding="utf-8")
    return native
