"""Whatever code under watch does, it becomes an observation of its own cell, and the rest of the run goes on."""

from __future__ import annotations

import re

import pytest

from tests.projects import NEW, Finished, Project, Results, document
from watchdog.model import Check, Outcome, Status

pytestmark = pytest.mark.real

SECRET = "hunter2-of-the-index"  # noqa: S105  # made up, to be looked for

# Implementations by name, each with the module that it lies in.
AT_IMPORT = {
    "import_raises": "raise RuntimeError('no such chip')",
    "import_exits": "import sys; sys.exit(3)",
    "import_dies": "import os; os._exit(7)",
    "import_segfaults": "import ctypes; ctypes.string_at(0)",
    "import_scribbles": "import calls; calls.scribble(b'\\xff{garbage'); f = calls.fine",
    "import_kills_its_parent": "import os, time; os.kill(os.getppid(), 9); time.sleep(1e6)",
    "import_floods": "import calls\nwhile True: calls.scribble(b'x' * 2**16)",
    "never_ends": "import atexit, time, calls; atexit.register(time.sleep, 1e6); f = calls.fine",
}
WHEN_CALLED = {
    "call_aborts": "os.abort()",
    "call_kills_itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "call_kills_its_parent": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(1e6)",
    "call_hangs": "time.sleep(1e6)",
    "call_allocates": "allocate()",
    "call_shouts": "shout()",
    "call_tells_secrets": f"print('Looking in https://user:{SECRET}@index.example/simple'); os.abort()",
    "call_raises_secrets": f"raise OSError('https://user:{SECRET}@index.example/simple is gone')",
    "call_scribbles": "scribble(b'\\xff{garbage')",
    "call_forges": "scribble(forged())",
}
WRONG = {
    "wrong_shape": "x[:4]",
    "wrong_numbers": "x * 2 + 0.25",
    "not_a_number": "x * jnp.float32('nan')",
    "nothing": "None",
}

CALLS = """
import json
import os
import signal
import sys
import time

import jax
import jax.numpy as jnp


def fine(x):
    return x * 2


def plain(x):
    return x + x


def dies_of_eight_rows(x):
    if x.shape[0] == 8:
        print("eight rows")
        os.abort()
    return x * 2


def allocate():
    held = []
    while True:
        held.append(bytearray(os.urandom(1) * 2**24))
        time.sleep(0.005)


def shout():
    for _ in range(5000):
        print("\\x1b[31mred\\x1b[0m <script>alert(1)</script> \\u202e backwards", flush=False)
    sys.stdout.flush()
    os.write(1, b"\\xff\\xfe not UTF-8 \\x00\\n")
    os.abort()


def scribble(data):
    for descriptor in range(3, 128):
        try:
            os.write(descriptor, data)
        except OSError:
            continue


def forged():
    lie = {"outcome": "observed", "data": {"forged": True}}
    return "".join(
        "\\n" + json.dumps({"event": "observation", "cell": cell, **lie}) + "\\n" for cell in range(8)
    ).encode()


def when_called(action):
    def implementation(x):
        def call(value):
            action()
            return value

        return jax.pure_callback(call, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2

    return implementation
"""

# Of each fault: the check that it befalls, the outcome, the fault's kind and the kind of the verdict.
OUTCOMES = {
    "import_raises": (Check.IMPORT, Outcome.FAILED, "RuntimeError", "error"),
    "import_exits": (Check.IMPORT, Outcome.FAILED, "SystemExit", "error"),
    "import_dies": (Check.IMPORT, Outcome.CRASHED, "exit code 7", "crash"),
    "import_segfaults": (Check.IMPORT, Outcome.CRASHED, "signal 11 (SIGSEGV)", "crash"),
    "import_kills_its_parent": (Check.IMPORT, Outcome.CRASHED, "signal 9 (SIGKILL)", "crash"),
    "import_floods": (Check.IMPORT, Outcome.HUNG, "time limit", "time limit"),
    "import_scribbles": (Check.IMPORT, Outcome.FAILED, "answer lost", "error"),
    "call_aborts": (Check.NUMERICS, Outcome.CRASHED, "signal 6 (SIGABRT)", "crash"),
    "call_kills_itself": (Check.NUMERICS, Outcome.CRASHED, "signal 9 (SIGKILL)", "crash"),
    "call_kills_its_parent": (Check.NUMERICS, Outcome.CRASHED, "signal 9 (SIGKILL)", "crash"),
    "call_hangs": (Check.NUMERICS, Outcome.HUNG, "time limit", "time limit"),
    "call_allocates": (Check.NUMERICS, Outcome.OUT_OF_MEMORY, "memory limit", "memory limit"),
    "call_shouts": (Check.NUMERICS, Outcome.CRASHED, "signal 6 (SIGABRT)", "crash"),
    "call_tells_secrets": (Check.NUMERICS, Outcome.CRASHED, "signal 6 (SIGABRT)", "crash"),
    "call_raises_secrets": (Check.NUMERICS, Outcome.FAILED, "JaxRuntimeError", None),
    "wrong_shape": (Check.NUMERICS, Outcome.FAILED, "ValueError", "wrong type or shape"),
    "nothing": (Check.NUMERICS, Outcome.FAILED, "ValueError", "wrong type or shape"),
}


def _config() -> str:
    also = {name: f"{name}:f" for name in AT_IMPORT}
    also |= {name: f"faults:{name}" for name in (*WHEN_CALLED, *WRONG)}
    return f"""
[watchdog]
scenarios = ["steady"]
memory_budget = "1s"
checks = ["install", "import", "lower", "numerics"]
cell_timeout = "6s"
cell_memory = "1GiB"

[pins.only]
requirements = ["{NEW}"]

[[kernel]]
name = "faulty"
custom = "calls:fine"
native = "calls:plain"
path = "src"
also = {{ {", ".join(f'{name} = "{function}"' for name, function in also.items())} }}

[[kernel.case]]
name = "only"
args = ["f32[8,128]"]

[[kernel]]
name = "fragile"
custom = "calls:dies_of_eight_rows"
native = "calls:plain"
path = "src"

[[kernel.case]]
name = "first"
args = ["f32[8,128]"]

[[kernel.case]]
name = "second"
args = ["f32[16,128]"]
"""


def _faults() -> str:
    called = [f"def _{name}():\n    {code}\n{name} = when_called(_{name})" for name, code in WHEN_CALLED.items()]
    wrong = [f"def {name}(x):\n    return {code}" for name, code in WRONG.items()]
    return "\n\n".join(["from calls import *", "from calls import os, signal, time, jnp", *called, *wrong])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("faulty"))
    project.write("watchdog.toml", _config())
    project.write("src/calls.py", CALLS)
    project.write("src/faults.py", _faults())
    for name, code in AT_IMPORT.items():
        project.write(f"src/{name}.py", code + "\n")
    return project


@pytest.fixture(scope="module")
def finished(project: Project) -> Finished:
    """One run of everything; `--json -` beside the terminal's output, so that both can be looked through."""
    return project.watchdog("run", "--json", "-")


@pytest.fixture(scope="module")
def results(project: Project, finished: Finished) -> Results:
    assert finished.code == 1, finished.stderr
    return project.results()


def test_every_cell_has_exactly_one_observation(results: Results) -> None:
    """Whatever the others did, nothing that was planned is missing, and nothing was seen twice."""
    assert results.missing == 0
    cells = [observation.cell for observation in results.observations]
    assert len(cells) == len(set(cells))
    assert results.state == "finished"


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_fault_is_an_observation_of_its_own_cell(results: Results, name: str) -> None:
    """How it ended is known, and judged as a regression with the kernel as suspect."""
    check, outcome, kind, judged = OUTCOMES[name]
    observation = results.observation(check, implementation=name)
    assert observation.outcome is outcome
    assert observation.fault is not None
    assert observation.fault.kind == kind
    verdict = results.verdict(check, implementation=name)
    assert verdict.status is Status.REGRESSED
    assert judged in (verdict.kind, None)


@pytest.mark.parametrize("name", [name for name in OUTCOMES if OUTCOMES[name][0] is Check.NUMERICS])
def test_a_fault_when_called_leaves_the_earlier_questions_answered(results: Results, name: str) -> None:
    """What does not run may still import and lower, and that was seen."""
    for check in (Check.IMPORT, Check.LOWER):
        assert results.observation(check, implementation=name).outcome is Outcome.OBSERVED


def test_what_cannot_be_imported_is_asked_nothing_further(results: Results) -> None:
    """The later questions are skipped, with the reason, instead of failing each in its own words."""
    for name in ("import_raises", "import_exits", "import_dies", "import_segfaults", "import_floods"):
        for check in (Check.LOWER, Check.NUMERICS):
            observation = results.observation(check, implementation=name)
            assert observation.outcome is Outcome.SKIPPED
            assert observation.reason is not None
            assert observation.reason.startswith("does not import: ")


def test_an_exception_is_placed_in_the_users_file(results: Results) -> None:
    """The line is named as the user knows it, and the traceback is kept."""
    fault = results.observation(Check.IMPORT, implementation="import_raises").fault
    assert fault is not None
    assert (fault.message, fault.where) == ("no such chip", "import_raises.py:1")
    assert "RuntimeError: no such chip" in fault.traceback
    assert results.verdict(Check.IMPORT, implementation="import_exits").where == "import_exits.py:1"


@pytest.mark.parametrize(
    ("name", "said", "file"),
    [
        ("import_segfaults", "Segmentation fault", "import_segfaults.py"),
        ("call_aborts", "Fatal Python error: Aborted", "faults.py"),
    ],
)
def test_a_fatal_signal_leaves_the_interpreters_last_words(results: Results, name: str, said: str, file: str) -> None:
    """The log tail says where Python was, in the process itself and in a cell's own."""
    log = results.observation(OUTCOMES[name][0], implementation=name).log_tail
    assert said in log
    assert file in log


def test_the_other_cells_of_a_dead_process_are_asked_in_a_new_one(results: Results) -> None:
    """A kernel that aborts on one shape is known to work with the other."""
    for check in (Check.LOWER, Check.NUMERICS):
        first = results.observation(check, kernel="fragile", implementation="custom", case="first")
        assert first.outcome is Outcome.CRASHED
        assert "eight rows" in first.log_tail
        second = results.observation(check, kernel="fragile", implementation="custom", case="second")
        assert second.outcome is Outcome.OBSERVED


def test_what_is_sound_passes_beside_all_that(results: Results) -> None:
    """Neither the sound kernel nor native lost anything to its neighbours."""
    for implementation in ("custom", "native"):
        for check in (Check.IMPORT, Check.LOWER, Check.NUMERICS):
            assert results.verdict(check, kernel="faulty", implementation=implementation).status is Status.PASS


def test_a_process_that_never_ends_costs_nothing(results: Results) -> None:
    """All its answers are kept; that it hung at its exit is not held against the next kernel."""
    for check in (Check.IMPORT, Check.LOWER, Check.NUMERICS):
        assert results.verdict(check, implementation="never_ends").status is Status.PASS


@pytest.mark.parametrize(("name", "kind"), [("wrong_numbers", "wrong numbers"), ("not_a_number", "nan")])
def test_wrong_results_are_regressions_without_a_baseline(results: Results, name: str, kind: str) -> None:
    """An absolute fault needs nothing to be compared with."""
    verdict = results.verdict(Check.NUMERICS, implementation=name)
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, kind)


def test_the_limits_are_named_in_the_users_words(results: Results) -> None:
    """A message says which key of the configuration stopped it."""
    hung = results.verdict(Check.NUMERICS, implementation="call_hangs").summary
    assert "no answer within 6 s (cell_timeout)" in hung
    fat = results.verdict(Check.NUMERICS, implementation="call_allocates").summary
    assert "more than the 1.0 GiB of cell_memory" in fat


def test_a_hostile_log_is_kept_harmless(results: Results, project: Project) -> None:
    """Neither terminal sequences nor markup nor broken bytes of a kernel reach a reader, and its words do."""
    log = results.observation(Check.NUMERICS, implementation="call_shouts").log_tail
    assert "red <script>alert(1)</script>  backwards" in log
    assert "not UTF-8" in log
    assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f\u202e]", log)
    pages = project.pages()
    assert "&lt;script&gt;alert(1)" in pages
    assert "<script>alert" not in pages


def test_a_secret_that_a_kernel_prints_goes_nowhere(results: Results, project: Project, finished: Finished) -> None:
    """It is neither in the database nor in the report nor in the terminal nor in the JSON; the host's name is."""
    said = results.observation(Check.NUMERICS, implementation="call_tells_secrets").log_tail
    assert "Looking in https://****@index.example/simple" in said
    assert project.watchdog("show").stdout.count("index.example") >= 1
    everything = [finished.stdout, finished.stderr, project.watchdog("show").stdout, project.pages()]
    assert not [text for text in everything if SECRET in text]
    files = [path for path in (project.folder / ".watchdog").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_scribbling_on_the_record_costs_only_ones_own_answers(results: Results) -> None:
    """What cannot be read is a fault of the cell in hand, with its beginning; what others answered stands."""
    fault = results.observation(Check.IMPORT, implementation="import_scribbles").fault
    assert fault is not None
    assert "garbage" in fault.message
    assert fault.kind == "answer lost"
    assert results.observation(Check.NUMERICS, implementation="call_scribbles").outcome.is_fault
    assert results.observation(Check.LOWER, implementation="call_scribbles").outcome is Outcome.OBSERVED


def test_a_forged_record_is_not_heard(results: Results) -> None:
    """A child does not hold the record stream: of the answers that it wrote for all numbers of cells none arrived."""
    assert not [one.cell for one in results.observations if "forged" in one.data]
    assert results.observation(Check.NUMERICS, implementation="call_forges").cell.implementation == "call_forges"


def test_the_document_tells_of_every_fault(finished: Finished) -> None:
    """`--json -` leaves nothing else on standard output, and has a regression for each fault."""
    regressed = {one["implementation"] for one in document(finished)["verdicts"] if one["status"] == "regressed"}
    assert regressed >= OUTCOMES.keys()
