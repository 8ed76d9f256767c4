"""Running an implementation: on this machine's device where it can, interpreted where it cannot, and saying which."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from . import artefacts, pallas, tpu_interpreter
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
    cores: int = 1
    watch: tpu_interpreter.Watch = field(default_factory=tpu_interpreter.Watch)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Everything jitted and called inside is run this way."""
        import jax

        if self.interpreter is None:
            yield
            return
        watched = tpu_interpreter.watched(self.watch) if self.mode == pallas.TPU else nullcontext()
        with pallas.interpreted(self.interpreter), jax.default_device(jax.devices("cpu")[0]), watched:
            yield

    def run(self, function: Callable[..., Any], positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a function once, jitted, and bring what it returns to the host.

        What is interpreted is compiled without optimisation: it runs once, and compiling takes most of the time.
        Raises tpu_interpreter.LimitError for what only the interpreter cannot do.
        """
        import jax

        with self.active():
            traced = jax.jit(function).trace(*positional, **keywords)
            compiled = self._compiled(traced)

            def call() -> Any:
                return jax.device_get(jax.block_until_ready(compiled(*positional, **keywords)))

            return tpu_interpreter.run(call, self.watch, self.mode) if self.mode == pallas.TPU else call()

    def _compiled(self, traced: Any) -> Any:
        """What can be traced and not be lowered for an interpreter is the interpreter's own limit."""
        if self.interpreter is None:
            return traced.lower().compile()
        try:
            return traced.lower().compile(compiler_options={"xla_backend_optimization_level": 0})
        except Exception as error:
            raise tpu_interpreter.LimitError(tpu_interpreter.limit(self.mode, error)) from error


def strictly(**settings: Any) -> Execution:
    """Under the TPU interpreter, as strict as this release has it. Raises NotHereError where there is none."""
    made = tpu_interpreter.strict(**settings)
    return Execution(pallas.TPU, made.parameters, _lacking(made.missing), made.cores)


def _lacking(missing: tuple[str, ...]) -> str | None:
    import jax

    return f"the TPU interpreter of jax {jax.__version__} has no setting {', '.join(missing)}" if missing else None


def generically() -> Execution:
    """Under the generic interpreter, which compiles the kernel's arithmetic and keeps no state."""
    return Execution(pallas.GENERIC, interpreter=True)


def plainly(subject: Subject) -> Execution:
    """On the device, or under the generic interpreter."""
    if not needs_interpreting(subject):
        return Execution(DEVICE)
    refuse_large(subject)
    return generically()


def needs_interpreting(subject: Subject, implementation: str | None = None) -> bool:
    """Whether an implementation holds a TPU kernel and this process computes on something else."""
    import jax

    platform = str(jax.devices()[0].platform)
    if platform == "tpu":
        return False
    return pallas.is_tpu_kernel(traced(subject, implementation).jaxpr, platform)


def traced(subject: Subject, implementation: str | None = None) -> Any:
    """An implementation traced on this machine, as if it were a TPU where only a TPU will do."""
    with pallas.as_if_on_a_tpu():
        return subject.traced(None, subject.function(implementation))


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
        native_traced = subject.traced(None, subject.function("native"))
        with at("lower"):
            native = artefacts.flops(native_traced.lower())
    except StageError:  # then native's own cells tell, and this one is tried
        native = None
    kept.write_text(json.dumps(native), encoding="utf-8")
    return native
