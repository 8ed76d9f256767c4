"""What a probe looks at: one implementation with one case's inputs, on its way from import to compiled program."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import arguments, compiler, loading, pallas
from .faults import NotHereError, StageError, at
from .plan import Case, Plan, PlannedCell

_INTERPRETED = "holds a Pallas TPU kernel, which a {} can only interpret"


def end_a_fork(process: int) -> None:
    """A child that the code under watch forked, and that came back from its call, must not ask questions as well."""
    if os.getpid() != process:
        os._exit(0)


def _abstract(tree: Any) -> Any:
    """Shapes and types of arrays and numbers, as jax takes them."""
    import jax

    return jax.eval_shape(lambda: jax.tree_util.tree_map(jax.numpy.asarray, tree))


@dataclass
class Made:
    """What this process has made so far, by case and target."""

    programs: dict[tuple[str, str], Any] = field(default_factory=dict)  # lowered
    traced_here: set[tuple[str, str]] = field(default_factory=set)  # those that compute while they are traced


@dataclass(frozen=True)
class Subject:
    """One cell under a probe. Nothing is imported or made before it is asked for."""

    plan: Plan
    cell: PlannedCell
    made: Made = field(default_factory=Made)

    @property
    def key(self) -> tuple[str, str]:
        return self.cell.case, self.cell.target

    @property
    def case(self) -> Case:
        return self.plan.cases[self.cell.case]

    @property
    def module(self) -> str:
        """The implementation's module."""
        return self.plan.kernel.implementations[self.plan.implementation].partition(":")[0]

    def function(self, implementation: str | None = None) -> Callable[..., Any]:
        """An implementation with the case's constants bound, a function of arrays alone."""
        with at("import"):
            loaded = loading.implementation(self.plan.kernel, implementation or self.plan.implementation)
        constants = self.constants
        return functools.partial(loaded, **constants) if constants else loaded

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The case's positional arguments as NumPy arrays (or whatever `inputs` makes), and its traced keywords."""
        with at("inputs"):
            if self.plan.kernel.inputs is not None:
                made = loading.load(self.plan.kernel.inputs)(self.case.seed)
                positional = tuple(made) if isinstance(made, (tuple, list)) else (made,)
            else:
                specifications = map(arguments.parse, self.case.args)
                positional = tuple(arguments.make(spec, self.case.seed, n) for n, spec in enumerate(specifications))
            return positional, self._traced()

    def shapes(self, sharding: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs as shapes placed by `sharding`; no array is made where the specification is enough."""
        import jax

        def shape(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

        with at("inputs"), compiler.on_this_machine():
            specified = self.plan.kernel.inputs is None
            positional = tuple(map(arguments.parse, self.case.args)) if specified else _abstract(self.inputs()[0])
            return jax.tree_util.tree_map(shape, (positional, _abstract(self._traced())))  # type: ignore[no-any-return]  # same structure

    def traced(self, sharding: Any, function: Callable[..., Any] | None = None) -> Any:
        """The implementation traced on the case's shapes (`jax.stages.Traced`)."""
        import jax

        function = function or self.function()
        positional, keywords = self.shapes(sharding)
        process = os.getpid()
        with at("trace"):
            traced = self._trace(jax.jit(function), positional, keywords)
        end_a_fork(process)
        return traced

    def _trace(self, function: Any, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """With the target as default device, unless something is computed meanwhile: that this machine has to do."""
        if self.key not in self.made.traced_here:
            try:
                return function.trace(*positional, **keywords)
            except Exception as error:
                if not compiler.wants_a_running_device(error):
                    raise
        self.made.traced_here.add(self.key)
        with compiler.on_this_machine():
            return function.trace(*positional, **keywords)

    def lowered(self, traced: Any) -> Any:
        """The traced program lowered for the cell's target.

        Raises NotHereError for a TPU kernel on another platform, which could only interpret it.
        """
        platform = compiler.platform_of(self.cell.target)
        if platform != "tpu" and pallas.is_tpu_kernel(traced.jaxpr, platform):
            raise NotHereError(_INTERPRETED.format(platform))
        with at("lower"):
            return traced.lower(lowering_platforms=(platform,))

    def program(self, sharding: Any) -> Any:
        """The program lowered for the cell's target; once in a process for a case and a target.

        Raises NotHereError for a TPU kernel on another platform, even where it cannot be traced there.
        """
        if self.key not in self.made.programs:
            self.made.programs[self.key] = self.lowered(self._traced_for_its_target(sharding))
        return self.made.programs[self.key]

    def _traced_for_its_target(self, sharding: Any) -> Any:
        try:
            return self.traced(sharding)
        except StageError as error:
            platform = compiler.platform_of(self.cell.target)
            if error.stage == "trace" and platform == "cpu" and self._is_a_kernel_on_a_tpu():
                raise NotHereError(_INTERPRETED.format(platform)) from error
            raise

    def _is_a_kernel_on_a_tpu(self) -> bool:
        """Whether what cannot be traced here can be for a TPU, of whose properties it may ask while it is traced."""
        try:
            with compiler.compiling_for(compiler.ANY_TPU) as sharding:
                return bool(pallas.calls(self.traced(sharding).jaxpr))
        except (NotHereError, StageError):
            return False

    @property
    def constants(self) -> dict[str, Any]:
        static = self.plan.kernel.static
        return {name: value for name, value in self.case.kwargs.items() if static is None or name in static}

    def _traced(self) -> dict[str, Any]:
        constants = self.constants
        return {name: value for name, value in self.case.kwargs.items() if name not in constants}
