"""From what code under watch raises to a fault that names the user's own line."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from tests.inside import checks

faults = checks("faults")
emit = checks("emit")

OBSERVED = emit.Observed("observed", data={"bundles": 1})


def load(path: Path, source: str) -> ModuleType:
    """A module of that source, as if imported from `path`, under a name that is nobody's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"under_watch_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def raised(function: Callable[[], object]) -> BaseException:
    """What a call raises, without the frames of this file, which no user has, in its traceback."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # any, as from a kernel
        function()
    trace = caught.value.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return caught.value.with_traceback(trace)


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def function() -> NoReturn:
        raise error

    return function


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the installed packages, on the import path."""
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path, where the user's kernel lies."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


class TestWhere:
    def test_is_the_users_own_line(self, project: Path, site: Path) -> None:
        """An error deep inside jax is placed at the user's line that led there, by its path from the import path."""
        library = load(site / "jax" / "inner.py", "def fail(_):\n    raise ValueError('block shape')\n")
        kernel = load(project / "mine" / "kernel.py", "def attention(call):\n    x = 1\n    return call(x)\n")
        fault = faults.describe(raised(lambda: kernel.attention(library.fail)), "mine.kernel")
        assert (fault.kind, fault.message, fault.where) == ("ValueError", "block shape", "mine/kernel.py:3")
        assert "inner.py" in fault.traceback

    def test_may_be_in_a_folder_called_jax(self, site: Path) -> None:
        """Only the installed packages of that name are a library, not a folder of that name in the user's package."""
        kernel = load(site / "mine" / "jax" / "attention.py", "def attention():\n    return 1 // 0\n")
        assert faults.describe(raised(kernel.attention), "mine.jax.attention").where == "mine/jax/attention.py:2"

    def test_of_a_library_kernel_is_its_own_module(self, site: Path) -> None:
        """Where the implementation itself lies in jax, its own line is the place, not that of a helper below it."""
        helper = load(site / "jax" / "helper.py", "def fail():\n    raise NotImplementedError('mask')\n")
        kernel = load(site / "jax" / "ops" / "flash.py", "\n\ndef attention(call):\n    call()\n")
        error = raised(lambda: kernel.attention(helper.fail))
        assert faults.describe(error, "jax.ops.flash").where == "jax/ops/flash.py:4"

    def test_is_never_what_runs_the_checks(self, tmp_path: Path, site: Path) -> None:
        """The benchmark's and pytest's own frames are no place, though they lie in no package; nor is a line of jax's."""
        library = load(site / "jax" / "inner.py", "def fail():\n    raise ValueError('x')\n")
        runner = load(tmp_path / "tools" / "pytest_benchmark" / "fixture.py", "def run(call):\n    call()\n")
        error = raised(lambda: runner.run(library.fail))
        assert faults.describe(error, "mine.kernel").where is None

    def test_of_a_syntax_error_is_the_line_that_does_not_parse(self, project: Path) -> None:
        """A module that Python cannot parse is placed where the parser stopped."""
        error = raised(lambda: load(project / "mine.py", "x = 1\ndef broken(:\n"))
        assert faults.describe(error, "mine").where == "mine.py:2"

    def test_of_an_error_from_nowhere_is_none(self) -> None:
        """An exception that was never raised has no place."""
        assert faults.describe(ValueError("x"), "mine").where is None


class TestMissing:
    def test_is_the_module_that_cannot_be_found(self) -> None:
        """A package that the pins lack is named."""
        error = raised(lambda: importlib.import_module("absl_of_nobody.logging"))
        assert faults.describe(error, "mine").missing == "absl_of_nobody"

    def test_is_the_name_that_cannot_be_imported(self, project: Path) -> None:
        """A name that a release took away is named, not the module that once had it."""
        error = raised(lambda: load(project / "mine.py", "from json import TPUCompilerParams\n"))
        assert faults.describe(error, "mine").missing == "TPUCompilerParams"

    def test_is_the_attribute(self) -> None:
        """An attribute that a release took away is named."""
        error = raised(lambda: importlib.import_module("json").TPUMemorySpace)
        assert faults.describe(error, "mine").missing == "TPUMemorySpace"

    def test_is_the_keyword_argument(self) -> None:
        """An argument that a release took away is named."""
        function: Any = lambda block: block  # noqa: E731  # called as jax would be
        assert faults.describe(raised(lambda: function(block_q=1)), "mine").missing == "block_q"

    def test_is_none_for_other_errors(self) -> None:
        """Nothing is missing where a value is wrong."""
        assert faults.describe(ValueError("has no attribute 'x'"), "mine").missing is None


class TestStages:
    def test_an_answer_is_handed_on(self) -> None:
        """A probe that raises nothing is the observation."""
        assert faults.observe("lower", ["lower"], "mine", lambda: OBSERVED) is OBSERVED

    @pytest.mark.parametrize(
        ("check", "stage", "reason"),
        [
            ("compile", "import", "does not import: ValueError: first line"),
            ("numerics", "inputs", "its inputs cannot be made: ValueError: first line"),
            ("compile", "trace", "does not trace: ValueError: first line"),
            ("memory", "lower", "does not lower: ValueError: first line"),
            ("schedule", "compile", "does not compile: ValueError: first line"),
        ],
    )
    def test_a_failure_that_another_check_reports_is_a_reason(self, check: str, stage: str, reason: str) -> None:
        """What fails at an earlier stage skips this check with one sentence, when that stage's check is asked too."""
        observed = faults.observe(check, ["import", "lower", "compile", check], "mine", lambda: failing_at(stage))
        assert (observed.outcome, observed.reason, observed.fault) == ("skipped", reason, None)

    @pytest.mark.parametrize(
        ("check", "stage", "asked"),
        [
            ("import", "import", ["import"]),
            ("lower", "trace", ["import", "lower"]),
            ("compile", "compile", ["import", "lower", "compile"]),
            ("numerics", "run", ["import", "lower", "compile", "numerics"]),
            ("numerics", "import", ["numerics"]),  # nobody else would tell
            ("schedule", "compile", ["import", "lower", "schedule"]),
        ],
    )
    def test_a_failure_that_nobody_else_reports_is_its_own(self, check: str, stage: str, asked: list[str]) -> None:
        """The check that asks about a stage, or the only one that reaches it, reports the failure itself."""
        observed = faults.observe(check, asked, "mine", lambda: failing_at(stage))
        assert (observed.outcome, observed.fault.kind) == ("failed", "ValueError")
        assert observed.fault.message == "first line\nsecond line"

    def test_the_innermost_stage_counts(self) -> None:
        """A stage inside another keeps its own name."""

        def probe() -> Any:
            with faults.at("lower"):
                return failing_at("import")

        assert faults.observe("lower", ["import", "lower"], "mine", probe).outcome == "skipped"

    def test_what_cannot_be_asked_here_is_skipped(self) -> None:
        """A question that this machine cannot answer is skipped with its reason, at any stage."""

        def probe() -> Any:
            with faults.at("compile"):
                raising(faults.NotHereError("there is no TPU"))()

        observed = faults.observe("compile", ["compile"], "mine", probe)
        assert (observed.outcome, observed.reason) == ("skipped", "there is no TPU")

    @pytest.mark.parametrize("stage", ["import", None])
    def test_a_kernel_that_exits_has_failed(self, stage: str | None) -> None:
        """`sys.exit` of the code under watch ends nothing: it is a failure like any other."""

        def probe() -> Any:
            if stage is None:
                raise SystemExit(3)
            with faults.at(stage):
                raise SystemExit(3)

        observed = faults.observe("import", ["import"], "mine", probe)
        assert (observed.outcome, observed.fault.kind, observed.fault.message) == ("failed", "SystemExit", "3")

    @pytest.mark.parametrize("stage", ["import", "run"])
    def test_an_interrupt_passes_through(self, stage: str) -> None:
        """Ctrl-C is the user's, never the kernel's."""

        def probe() -> Any:
            with faults.at(stage):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            faults.observe("import", ["import"], "mine", probe)

    def test_an_exception_without_a_text_is_a_fault(self) -> None:
        """An exception whose own text raises is described all the same."""

        class Unprintable(Exception):  # noqa: N818  # a kernel's
            def __str__(self) -> str:
                raise RuntimeError

        observed = faults.observe("numerics", ["numerics"], "mine", raising(Unprintable()))
        assert (observed.fault.kind, observed.fault.message) == ("Unprintable", "(its text raises RuntimeError)")

    def test_a_long_traceback_keeps_its_end(self) -> None:
        """A traceback of any length is cut at its beginning: the end says most."""
        fault = faults.describe(ValueError("x" * 50_000 + " the end"), "mine")
        assert len(fault.traceback) <= 12_000
        assert fault.traceback.endswith("the end\n")


def failing_at(stage: str) -> NoReturn:
    with faults.at(stage):
        raise ValueError("first line\nsecond line")  # noqa: EM101, TRY003  # a kernel's own
    raise AssertionError
