"""A run that is stopped, or killed, leaves nothing behind but what it saw, and goes on from there."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.projects import NEW, Finished, Project, Results
from watchdog.model import Cell, Observation

pytestmark = pytest.mark.real

PATIENCE = 60.0  # seconds
CONFIG = f"""
[watchdog]
scenarios = ["steady"]
memory_budget = "1s"
checks = ["install", "import", "numerics"]

[pins.only]
requirements = ["{NEW}"]

[[kernel]]
name = "patient"
custom = "steps:patient"
native = "steps:plain"
path = "."

[[kernel.case]]
name = "small"
args = ["f32[8]"]

[[kernel.case]]
name = "large"
args = ["f32[16]"]
"""

# Says that it has begun, and works on until it is let go.
STEPS = """
import pathlib
import time

import jax

HERE = pathlib.Path(__file__).parent


def _wait(x):
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return x


def patient(x):
    return jax.pure_callback(_wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2


def plain(x):
    return x + x
"""


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def left_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end by themselves, given time."""
    deadline = time.monotonic() + PATIENCE / 6
    while (left := [one for one in processes if is_alive(one)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) and process.is_running()
    except psutil.NoSuchProcess:
        return False


@dataclass
class Stopped:
    """One start of the program that was stopped in the midst of a call of the kernel."""

    code: int
    stderr: str
    children: int  # processes that it had when it was stopped
    left: list[psutil.Process]  # those of them that did not end
    beside: Finished  # what another `watchdog run --resume` said meanwhile
    results: Results


@dataclass
class Story:
    """A run that was interrupted, terminated, killed, and in the end let through."""

    project: Project
    stopped: dict[signal.Signals, Stopped] = field(default_factory=dict)
    end: Finished | None = None
    again: Finished | None = None


def stop_in_the_midst(project: Project, by: signal.Signals, *arguments: str) -> Stopped:
    begun = project.folder / "begun"
    begun.unlink(missing_ok=True)
    with project.started("run", *arguments) as process:
        wait_until(begun.exists)
        beside = project.watchdog("run", "--resume")
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(by)
        _, stderr = process.communicate(timeout=PATIENCE)
        return Stopped(process.returncode, stderr, len(family), left_of(family), beside, project.results())


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    project = Project(tmp_path_factory.mktemp("patient"))
    project.write("watchdog.toml", CONFIG)
    project.write("steps.py", STEPS)
    story = Story(project)
    story.stopped[signal.SIGINT] = stop_in_the_midst(project, signal.SIGINT)
    story.stopped[signal.SIGTERM] = stop_in_the_midst(project, signal.SIGTERM, "--resume")
    story.stopped[signal.SIGKILL] = stop_in_the_midst(project, signal.SIGKILL, "--resume")
    (project.folder / "go").touch()
    story.end = project.watchdog("run", "--resume")
    story.again = project.watchdog("run", "--resume")
    return story


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on(story: Story, by: signal.Signals) -> None:
    """Exit code 3, one sentence with the run's id, no traceback; the run is known as interrupted."""
    stopped = story.stopped[by]
    assert stopped.code == 3
    assert f"`watchdog run --resume` finishes run {stopped.results.run}" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert stopped.results.state == "interrupted"


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_that_the_program_started_outlives_it(story: Story, by: signal.Signals) -> None:
    """Processes of the kernel end too, even when the program had no time to end them."""
    stopped = story.stopped[by]
    assert stopped.children > 0
    assert stopped.left == []


def test_what_was_seen_before_the_stop_is_kept(story: Story) -> None:
    """What an interrupted run observed stands unchanged in the run that was finished."""
    before = story.stopped[signal.SIGINT].results
    after = story.project.results()
    assert after.run == before.run
    assert before.observations
    assert before.missing > 0
    assert after.observations[: len(before.observations)] == before.observations


def test_a_killed_run_is_taken_up_again_to_its_end(story: Story) -> None:
    """Every planned cell has one observation, and the exit code is that of a run without a stop."""
    assert story.stopped[signal.SIGKILL].code == -signal.SIGKILL
    assert story.stopped[signal.SIGKILL].results.state == "running"
    assert story.end is not None
    assert story.end.code == 0, story.end.stderr
    after = story.project.results()
    assert (after.state, after.missing) == ("finished", 0)
    assert set(_counts(after.observations).values()) == {1}
    assert (story.project.folder / ".watchdog" / "report" / "index.html").is_file()


def _counts(observations: tuple[Observation, ...]) -> Counter[Cell]:
    return Counter(observation.cell for observation in observations)


def test_a_run_at_work_is_not_taken_from_its_process(story: Story) -> None:
    """`--resume` refuses while the process that began the run, or took it up, is alive."""
    for stopped in story.stopped.values():
        assert stopped.beside.code == 2
        assert f"run {stopped.results.run} is still running" in stopped.beside.stderr
        assert "Traceback" not in stopped.beside.stderr


def test_a_finished_run_is_nothing_to_resume(story: Story) -> None:
    """One sentence and exit code 2."""
    assert story.again is not None
    assert story.again.code == 2
    assert story.again.stderr.startswith("error: there is no unfinished run to resume")
    assert len(story.again.stderr.splitlines()) == 1


def test_an_interrupt_ends_an_installation_too(tmp_path: Path) -> None:
    """uv, and the build that it waits for, end with the program; the run can be resumed."""
    project = Project(tmp_path)
    project.package("slow", "slow-kit", {"slow_kit.py": ""})
    backend = (tmp_path / "slow" / "backend.py").read_text(encoding="utf-8")
    wait = f"import time\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(600)\n"
    project.write("slow/backend.py", backend.replace("import pathlib, zipfile\n", f"import pathlib, zipfile\n{wait}"))
    project.write("watchdog.toml", CONFIG.replace(f'"{NEW}"', '"./slow"'))
    project.write("steps.py", STEPS)
    with project.started("run") as process:
        wait_until((tmp_path / "begun").exists)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, stderr
    assert "Traceback" not in stderr
    assert family
    assert left_of(family) == []
    assert project.results().state == "interrupted"
