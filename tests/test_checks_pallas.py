"""Having kernels interpreted, and what the TPU interpreter's callbacks tell. jax itself is not needed for these."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from inspect import Parameter, Signature
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.inside import checks

pallas = checks("pallas")
interpreter = checks("tpu_interpreter")


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A jax with nothing in it but a version and caches to clear."""
    stand_in = ModuleType("jax")
    stand_in.__version__ = "0.7.2"  # type: ignore[attr-defined]  # what a release says
    stand_in.clear_caches = lambda: None  # type: ignore[attr-defined]  # nothing is cached
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    return stand_in


def equation(name: str, **params: Any) -> SimpleNamespace:
    return SimpleNamespace(primitive=SimpleNamespace(name=name), params=params)


def jaxpr(*equations: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(eqns=list(equations))


@pytest.mark.parametrize("name", ["pallas_call", "core_map", "mpmd_map"])
def test_kernels_are_found_however_they_are_called(name: str) -> None:
    """`pallas_call`, `core_map` and `kernel` end in three primitives; each is found inside jitted and branching code."""
    kernel = equation(name)
    nested = jaxpr(equation("jit", jaxpr=jaxpr(equation("cond", branches=(jaxpr(equation("add")), jaxpr(kernel))))))
    assert pallas.calls(nested) == [kernel]
    assert pallas.is_tpu_kernel(nested, "cpu")


def test_a_program_without_a_kernel_is_none() -> None:
    """Arithmetic alone is no kernel."""
    assert not pallas.is_tpu_kernel(jaxpr(equation("jit", jaxpr=jaxpr(equation("add")))), "cpu")


def pallas_with(
    monkeypatch: pytest.MonkeyPatch, primitive: SimpleNamespace | None, call: Callable[..., Any]
) -> ModuleType:
    """Modules of a release that keeps its primitive where we know it, or has none there."""
    public = ModuleType("jax.experimental.pallas")
    public.pallas_call = call  # type: ignore[attr-defined]  # the one name that is used
    monkeypatch.setitem(sys.modules, "jax.experimental", ModuleType("jax.experimental"))
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas", public)
    sys.modules["jax"].experimental = sys.modules["jax.experimental"]  # type: ignore[attr-defined]  # as an import does
    sys.modules["jax.experimental"].pallas = public  # type: ignore[attr-defined]  # as an import does
    known = {"jax._src.pallas.pallas_call": SimpleNamespace(pallas_call_p=primitive)} if primitive else {}
    real = importlib.import_module

    def found(name: str) -> Any:
        if name.startswith("jax._src"):
            if name in known:
                return known[name]
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", found)
    return public


def told(*_: Any, interpret: Any = False, **__: Any) -> Any:
    """What a call is told about interpreting."""
    return interpret


@pytest.mark.usefixtures("jax")
def test_a_primitive_obeys_whoever_imported_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wish reaches kernels that took `pallas_call` from anywhere, and ends with the block; wrapping twice is once."""
    primitive = SimpleNamespace(bind=told)
    public = pallas_with(monkeypatch, primitive, told)
    pallas.wrap_pallas_call()
    wrapped = primitive.bind
    pallas.wrap_pallas_call()
    assert primitive.bind is wrapped
    assert public.pallas_call is told  # untouched: the primitive is enough
    with pallas.interpreted("strictly"):
        assert primitive.bind(interpret=False) == "strictly"
    assert primitive.bind(interpret=False) is False


@pytest.mark.usefixtures("jax")
def test_a_release_without_known_primitives_is_told_by_its_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """When jax moves its primitives, kernels that use the public name are interpreted still."""
    public = pallas_with(monkeypatch, None, told)
    pallas.wrap_pallas_call()
    with pallas.interpreted(True):
        assert public.pallas_call() is True
    assert public.pallas_call() is False


def test_pallas_is_told_of_a_tpu_and_only_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`emit_pipeline` asks which TPU this is: a v5e inside the block, the truth again after it."""
    module = SimpleNamespace(get_device_kind=lambda: "cpu")
    monkeypatch.setitem(sys.modules, "jax._src.pallas.mosaic.core", module)
    with pallas.as_if_on_a_tpu():
        assert module.get_device_kind() == "TPU v5 lite"
    assert module.get_device_kind() == "cpu"


PARAMETERS = {
    "0.5": ["dma_execution_mode", "detect_races"],
    "0.6": ["dma_execution_mode", "detect_races", "uninitialized_memory", "random_seed", "num_cores_per_device"],
    "0.8": [
        "detect_races",
        "out_of_bounds_reads",
        "uninitialized_memory",
        "num_cores_or_threads_per_device",
        "vector_clock_size",
        "dma_execution_mode",
        "random_seed",
    ],
    "0.12": [
        "detect_races",
        "on_race",
        "out_of_bounds_reads",
        "uninitialized_memory",
        "num_cores_or_threads",
        "vector_clock_size",
        "dma_execution_mode",
        "random_seed",
        "buffer_bounds",
    ],
}


def release(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """A release whose interpreter has these settings, and no others."""

    def make(**given: Any) -> dict[str, Any]:
        assert given.keys() <= set(names)
        return given

    make.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])  # type: ignore[attr-defined]  # read by inspect
    monkeypatch.setattr(interpreter, "_parameters", lambda: make)


@pytest.mark.parametrize(
    ("of", "cores", "missing"),
    [
        ("0.5", 1, ("num_cores", "out_of_bounds_reads", "uninitialized_memory")),
        ("0.6", 2, ("out_of_bounds_reads",)),
        ("0.8", 2, ()),
        ("0.12", 2, ()),
    ],
)
def test_settings_are_as_strict_as_a_release_allows(
    monkeypatch: pytest.MonkeyPatch, of: str, cores: int, missing: tuple[str, ...]
) -> None:
    """Under whatever name a release has them; what it lacks is told, and never asked for."""
    release(monkeypatch, PARAMETERS[of])
    made = interpreter.strict(cores=2, detect_races=True)
    assert (made.cores, made.missing) == (cores, missing)
    assert made.parameters["dma_execution_mode"] == "on_wait"
    assert made.parameters["detect_races"] is True
    assert [value for name, value in made.parameters.items() if name.startswith("num_cores")] == [2] * (cores - 1)


def test_a_race_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a release raises on a race by default, it is told to go on: the numbers are wanted, too."""
    release(monkeypatch, PARAMETERS["0.12"])
    assert interpreter.strict(cores=2, detect_races=True).parameters["on_race"] == "warn"


def test_one_setting_can_be_relaxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For finding out which one the numbers depend on."""
    release(monkeypatch, PARAMETERS["0.8"])
    parameters = interpreter.strict(dma_execution_mode="eager").parameters
    assert (parameters["dma_execution_mode"], parameters["uninitialized_memory"]) == ("eager", "nan")


@pytest.mark.usefixtures("jax")
def test_a_release_without_an_interpreter_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the release and what was not there."""
    monkeypatch.setattr(interpreter, "_HOMES", ("absent_module_of_ours",))
    with pytest.raises(checks("faults").NotHereError, match=r"jax 0\.7\.2 cannot be used: absent_module_of_ours"):
        interpreter.strict()


def failing(error: BaseException) -> Callable[[], Any]:
    def get() -> None:
        raise error

    return get


def run(watch: Any, function: Callable[..., Any], place: str | None) -> Any:
    """As XLA does it: the callback's exception is hidden in another one."""

    def program() -> Any:
        try:
            return watch.call(function, place)
        except (AssertionError, LookupError, NotImplementedError) as error:
            message = f"INTERNAL: CpuCallback error: {error}"
            raise RuntimeError(message) from None

    return interpreter.run(program, watch, "tpu interpreter")


@pytest.mark.usefixtures("jax")
def test_what_a_callback_raises_is_the_kernels_with_its_line() -> None:
    """The class and the words of the callback's own exception, ranges as people write them, and the kernel's line."""
    message = (
        "Out-of-bounds read of (0 0 vmem 102): reading [(slice(136, 264, 1), slice(0, 256, 1))] but buffer has shape "
        "(256, 256)."
    )
    with pytest.raises(IndexError) as raised:
        run(interpreter.Watch(), failing(IndexError(message)), "/srv/kernel.py:35")
    assert str(raised.value) == "Out-of-bounds read of VMEM: reading [136:264, 0:256] but buffer has shape (256, 256)"
    assert f"{raised.traceback[-1].path}:{raised.traceback[-1].lineno + 1}" == "/srv/kernel.py:35"


@pytest.mark.usefixtures("jax")
@pytest.mark.parametrize("error", [NotImplementedError("masked load_p"), AssertionError(), KeyError("any")])
def test_what_an_interpreter_cannot_do_is_no_fault_of_the_kernel(error: Exception) -> None:
    """It is a limit, which names the interpreter and the release."""
    with pytest.raises(interpreter.LimitError, match=r"the tpu interpreter of jax 0\.7\.2 cannot run it") as raised:
        run(interpreter.Watch(), failing(error), "/srv/kernel.py:35")
    assert type(error).__name__ in str(raised.value)


@pytest.mark.usefixtures("jax")
def test_an_exception_of_no_callback_is_left_alone() -> None:
    """Where no callback raised, nothing is known better."""

    def program() -> None:
        message = "XLA's own"
        raise ValueError(message)

    with pytest.raises(ValueError, match="XLA's own"):
        interpreter.run(program, interpreter.Watch(), "tpu interpreter")


def test_an_endless_wait_ends_with_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said in the log at once, for the time limit may come first, and then as the answer, like a time limit's."""
    monkeypatch.setattr(interpreter, "SAY_AFTER", 0.0)
    monkeypatch.setattr(interpreter, "GIVE_UP_AFTER", 0.1)
    released = threading.Event()

    def semaphore_wait() -> None:
        released.wait()

    watch = interpreter.Watch()
    with pytest.raises(interpreter.EndlessWaitError) as raised:
        interpreter.run(lambda: watch.call(semaphore_wait, "/srv/kernel.py:7"), watch, "tpu interpreter")
    released.set()
    assert "waits for a semaphore that nothing signals, at /srv/kernel.py:7" in capsys.readouterr().out
    observed = raised.value.observed()
    assert (observed.outcome, observed.fault.where) == ("hung", "/srv/kernel.py:7")
    assert "a semaphore that nothing signals" in observed.fault.message


def test_a_wait_that_ends_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may compute for long, and wait for short: only a wait in which nothing happens counts."""
    monkeypatch.setattr(interpreter, "GIVE_UP_AFTER", 0.0)

    def dma_wait() -> int:
        return 3

    def compute() -> int:
        threading.Event().wait(0.6)  # longer than one look
        return 4

    watch = interpreter.Watch()
    assert interpreter.run(lambda: watch.call(dma_wait, None) + watch.call(compute, None), watch, "it") == 7


def test_the_first_line_that_reads_a_nan_is_kept() -> None:
    """Only reads count, only the first one, and only where it is looked for."""
    nan, fine = np.full(3, np.nan), np.ones(3)

    def get(value: Any) -> Any:
        return value

    def store(value: Any) -> Any:
        return value

    quiet, watch = interpreter.Watch(), interpreter.Watch(look_for_nan=True)
    quiet.call(get, "k.py:1", nan)
    for function, place, value in ((store, "k.py:1", nan), (get, "k.py:2", fine), (get, "k.py:3", (0, nan))):
        watch.call(function, place, value)
    watch.call(get, "k.py:4", nan)
    assert (quiet.first_nan, watch.first_nan) == (None, "k.py:3")


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("/srv/kernel.py:19:8 (scale.<locals>.body)", "/srv/kernel.py:19"),
        ("/srv/kernel.py:19 (body)", "/srv/kernel.py:19"),
        ("/srv/my kernels/k.py:19:8 (body)", "/srv/my kernels/k.py:19"),
        ("/env/lib/python3.11/site-packages/jax/_src/pallas/pallas_call.py:9 (wrapped)", None),
        ("pallas_call", None),
        ("unknown", None),
    ],
)
def test_places_are_the_users(said: str, place: str | None) -> None:
    """jax's own lines, and words that name none, are no place."""
    assert interpreter.place_in(said) == place
