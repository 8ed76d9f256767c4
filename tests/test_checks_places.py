"""The user's own line, wherever jax and its compilers keep it: shaped as releases from 0.5.3 to 0.12.0 raise them."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.inside import checks

places = checks("places")

OWN = "/srv/project/kernels/mine.py"
JAX = "/srv/env/lib/python3.11/site-packages/jax/_src/lowering.py"
PROBE = str(Path(str(places.__file__)).parent / "probes" / "compile.py")
VMEM = "RESOURCE_EXHAUSTED: Allocation (size=9) would exceed memory (size=1) :: #allocation2 [shape = 'f32[64,9]{{1,0}}', space=vmem] :: {name}"


def raised_in(
    file: str, line: int, error: BaseException, cause: BaseException | None = None, **known: Any
) -> BaseException:
    """`error` as if raised at that line, with those local variables in its frame."""
    return raised_by("raise error from cause", file, line, error=error, cause=cause, **known)


def raised_by(source: str, file: str, line: int, **known: Any) -> BaseException:
    code = compile("\n" * (line - 1) + source, file, "exec")
    with pytest.raises(Exception) as caught:  # noqa: PT011  # any
        exec(code, known)  # noqa: S102  # the only way to a frame of that name
    trace = caught.value.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return caught.value.with_traceback(trace)


def where(error: BaseException, module: str = "mine") -> str | None:
    found: str | None = places.where(error, str(error), module)
    return found


@pytest.fixture(autouse=True)
def _project_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("/srv/project")


def pallas_call(line: int, function: str, shape: str, name: str | None = None, file: str = OWN) -> Any:
    """An equation as a jaxpr holds it, as far as a place is read from it."""
    frames = [
        SimpleNamespace(file_name=JAX, line_num=5, function_name="bind"),
        SimpleNamespace(file_name=file, line_num=line, function_name=function),
    ]
    return SimpleNamespace(
        primitive=SimpleNamespace(name="pallas_call"),
        params={"name": name, "jaxpr": f"body of f32[{shape}]"},
        source_info=SimpleNamespace(traceback=SimpleNamespace(frames=frames)),
    )


def program(*calls: Any) -> Any:
    """A probe's subject whose program holds these Pallas calls."""
    return SimpleNamespace(traced=lambda _: SimpleNamespace(jaxpr=SimpleNamespace(eqns=list(calls))))


def compiling(text: str, subject: Any) -> BaseException:
    """What a compiler raises, through jax, below a probe that has this subject."""
    compiler = functools.partial(exec, compile("raise error", JAX, "exec"), {"error": RuntimeError(text)})
    return raised_by("compiler()", PROBE, 9, compiler=compiler, subject=subject)


def test_the_stack_that_jax_hands_on_as_the_cause() -> None:
    """What does not lower is raised in jax; its cause has the stack of the operation in the kernel."""
    before = raised_in(OWN, 12, RuntimeError("the stack before the transformation"))
    assert where(raised_in(JAX, 3, NotImplementedError("sort"), before)) == "kernels/mine.py:12"


def test_the_innermost_of_jaxs_wrappings() -> None:
    """Up to 0.6 an operation in a loop is wrapped at the loop's line; the cause has the operation's."""

    class LoweringException(Exception):  # noqa: N818  # jax's name
        pass

    stack = raised_in(OWN, 12, RuntimeError("the stack before the transformation"))
    inner = raised_in(JAX, 3, NotImplementedError("digamma"), stack)
    assert where(raised_in(OWN, 40, LoweringException("NotImplementedError: digamma"), inner)) == "kernels/mine.py:12"


def test_an_own_exception_keeps_its_own_line() -> None:
    """Where the kernel itself turns an error into another, the line that did so is the place."""
    inner = raised_in(OWN, 12, KeyError("block"))
    assert where(raised_in(OWN, 40, ValueError("no such block"), inner)) == "kernels/mine.py:40"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            'Invalid type:\nerror: "get:"("body"("/srv/project/kernels/mine.py":59:30 to :40)): failed',
            "kernels/mine.py:59",
        ),
        (
            'at location: loc("get:"("get"(callsite("body"("/srv/project/kernels/mine.py":5:1 to :9) at x',
            "kernels/mine.py:5",
        ),
        ('metadata={op_name="jit(f)" source_file="/srv/project/kernels/mine.py" source_line=47}', "kernels/mine.py:47"),
        (
            "Block spec for args[0] in pallas_call copy at /srv/project/kernels/mine.py:64 has block",
            "kernels/mine.py:64",
        ),
        (f'loc("{JAX}":5:1) at loc("/srv/project/kernels/mine.py":6:1)', "kernels/mine.py:6"),
        (f'loc("{JAX}":5:1)', None),
        ("=== Source Location Trace: ===\nexternal/xla+/xla/pjrt/c/pjrt_c_api_status_utils.cc:146", None),
    ],
)
def test_locations_in_a_compilers_text(text: str, place: str | None) -> None:
    """The first location that is neither jax's nor the compiler's own, in each release's spelling."""
    assert where(raised_in(JAX, 3, RuntimeError(text))) == place


def test_the_only_pallas_call() -> None:
    """An error without any location is placed at the program's pallas_call."""
    assert (
        where(compiling(VMEM.format(name="main.1"), program(pallas_call(40, "attention", "64,9"))))
        == "kernels/mine.py:40"
    )


@pytest.mark.parametrize(
    ("name", "shapes", "place"),
    [
        ("second.3", ("1,1", "2,2"), "kernels/mine.py:80"),  # by the function that makes it
        ("given.1", ("1,1", "2,2"), "kernels/mine.py:80"),  # by the name that it was given
        ("main.1", ("64,9", "2,2"), "kernels/mine.py:40"),  # by the buffer
        ("main.1", ("1,1", "2,2"), None),
        ("main.1", ("64,9", "64,9"), None),
    ],
)
def test_one_of_several_pallas_calls(name: str, shapes: tuple[str, str], place: str | None) -> None:
    """Of several calls the one that the compiler's text names or whose buffer it tells of; no guess among equals."""
    calls = pallas_call(40, "first", shapes[0]), pallas_call(80, "second", shapes[1], "given")
    assert where(compiling(VMEM.format(name=name), program(*calls))) == place


def test_the_line_that_reads_out_of_bounds() -> None:
    """The TPU interpreter says what was read beyond which shape; the only such read of the kernel is the place."""
    text = "IndexError: Out-of-bounds read of (0 0 vmem 102): reading [(slice(136, 264, 1),)] but buffer has shape (256, 9)."
    call = pallas_call(40, "attention", "256,9")
    reads = [pallas_call(line, "body", "") for line in (45, 46)]
    for read, shape in zip(reads, ((256, 9), (8, 9)), strict=True):
        read.primitive.name = "get"
        read.invars = [SimpleNamespace(aval=SimpleNamespace(shape=shape))]
    call.params["jaxpr"] = SimpleNamespace(eqns=reads)
    assert where(compiling(text, program(call))) == "kernels/mine.py:45"
    reads[1].invars[0].aval.shape = (256, 9)  # now two lines might have done it
    assert where(compiling(text, program(call))) == "kernels/mine.py:40"


def test_a_fault_of_the_checks_is_no_line_of_the_kernel() -> None:
    """What the checks themselves raise is not placed at the user's pallas_call."""
    assert where(raised_in(PROBE, 9, AttributeError("none"), subject=program(pallas_call(40, "f", "1")))) is None


def test_a_program_that_cannot_be_traced_again_has_no_place() -> None:
    """Looking for the pallas_call raises nothing of its own."""

    def refuse(_: Any) -> Any:
        raise ValueError

    assert where(compiling("INTERNAL: no", SimpleNamespace(traced=refuse))) is None


def test_a_kernel_of_jaxs_own() -> None:
    """Where the implementation lies in jax, its own pallas_call is the place."""
    file = "/srv/env/lib/python3.11/site-packages/jax/ops/flash.py"
    error = compiling(VMEM.format(name="main"), program(pallas_call(9, "flash", "1", file=file)))
    assert str(where(error, "jax.ops.flash")).endswith("jax/ops/flash.py:9")
