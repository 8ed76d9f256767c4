"""The planted leaks leak what they say, and the selftest tells what was found from what was missed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.projects import NEW, Project
from tests.test_kernels import environment
from watchdog import cli, selftest
from watchdog.config import Config, load
from watchdog.errors import UsageError
from watchdog.model import (
    HOST,
    Amount,
    Cell,
    Check,
    Environment,
    Figure,
    Observation,
    Outcome,
    Package,
    Status,
    Verdict,
)
from watchdog.publish.selftest_table import selftest_table
from watchdog.rooms import room
from watchdog.selftest import CLEAN, PLANTS, Finding, Outcomes, Plant, Result

JAX = "0.10.2"
CONFORMANCE = Path(__file__).parent / "conformance" / "planted.py"
BY_NAME = {plant.implementation: plant for plant in PLANTS}
CALLS, BLOCKS = 200, 10
NOISE = {"objects": 2, "blocks": 12, "heap_bytes": 4096}  # in all, of a process that calls the clean kernel

CONFIG = f"""
[watchdog]
baseline = "new"
environments = "the cache"
cell_timeout = "77s"

[pins.old]
lock = "locks/requirements.txt"

[pins.new]
requirements = ["{NEW}", "./a project"]

[[kernel]]
name = "anything"
custom = "a:b"
native = "a:b"

[[kernel.case]]
name = "small"
args = ["f32[8]"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    project = Project(tmp_path)
    project.write("locks/requirements.txt", "")
    project.write("a project/pyproject.toml", "")
    return load(project.write("watchdog.toml", CONFIG))


def cell(plant: Plant | None) -> Cell:
    name = plant.implementation if plant else CLEAN[0]
    return Cell(selftest.KERNEL, name, selftest.CASE, "pins", HOST, Check.MEMORY, "eager")


def observation(plant: Plant | None, per_call: float, *signals: str) -> Observation:
    """Equal blocks, in each of which some counters grow."""
    series = {name: [per_call * CALLS * block for block in range(BLOCKS + 1)] for name in signals}
    data = {"calls_per_block": CALLS, "blocks": BLOCKS}
    return Observation(cell(plant), Outcome.OBSERVED, data=data, series=series, seconds=2.0)


def verdict(plant: Plant | None, status: Status, **more: Any) -> Verdict:
    return Verdict(cell(plant), status, "a sentence", **more)


def leak(plant: Plant, value: float, *, where: str | None = None) -> Verdict:
    """What the judge says of a leak that it found."""
    figure = Figure.exact(value, "B/call")
    return verdict(plant, Status.REGRESSED, kind="leak", signal=plant.leak.signal, figure=figure, where=where)


def outcomes(*findings: Finding) -> Outcomes:
    packages = (Package("jax", JAX), Package("jaxlib", JAX))
    return Outcomes((Environment("pins", (), "sha256:0", "", "3.11.7", packages),), findings)


def finding(plant: Plant | None, seen: Observation, judged: Verdict) -> Finding:
    return selftest._finding(plant, cell(plant), seen, judged)


class TestPlants:
    @pytest.mark.real
    def test_each_keeps_what_it_says_and_nothing_else(self) -> None:
        """Exactly one more each time, at every call or at every hundredth; the clean kernel's counters stand still."""
        command = [str(environment(JAX)), str(CONFORMANCE), str(room("kernels"))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
        assert grown.keys() == {"double", *BY_NAME}
        for name in ("live_arrays", "live_executables", "fds", "threads"):
            kept = {one for one, line in grown.items() if line[name]}
            assert kept == {one for one, plant in BY_NAME.items() if name in plant.leak.keeps}
        for name, plant in BY_NAME.items():
            times = grown[name]["calls"] / plant.every
            for signal in grown[name].keys() & plant.leak.keeps.keys():
                low, high = plant.leak.keeps[signal]
                noise = NOISE.get(signal, 0)
                assert times * low - noise <= grown[name][signal] <= times * high + noise, (name, signal)

    @pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.implementation)
    def test_the_line_that_leaks_is_known(self, plant: Plant) -> None:
        """It is found by its marker, wherever it moves, inside the function that the plant names."""
        place, number = plant.line().rsplit(":", 1)
        lines = (room("kernels") / place).read_text(encoding="utf-8").splitlines()
        assert selftest.MARKER in lines[int(number) - 1]
        above = [line for line in lines[: int(number)] if line.startswith("def ")]
        assert above[-1].startswith(f"def {plant.leak.function}(")

    def test_a_seldom_leak_keeps_a_share_of_it_per_call(self) -> None:
        """A hundredth, by every counter that counts it; a counter that does not is not compared."""
        plant = BY_NAME["seldom_buffer"]
        assert plant.planted("buffer_bytes") == (163.84, 163.84)
        assert plant.planted("buffers") == (0.01, 0.01)
        assert plant.planted("fds") is None


class TestProject:
    def test_the_baseline_pins_are_taken_as_they_are(self, config: Config, tmp_path: Path) -> None:
        """With their paths made absolute, for the project lies elsewhere; limits and cache are the user's."""
        made = selftest.project(tmp_path / "elsewhere", config, (), PLANTS)
        assert list(made.pins) == ["new"]
        assert made.pins["new"].requirements == (NEW, str(tmp_path / "a project"))
        assert made.watchdog.environments == str(tmp_path / "the cache")
        assert made.watchdog.cell_timeout == 77
        assert not Path(made.database_url.removeprefix("sqlite:///")).is_relative_to(tmp_path / ".watchdog")

    def test_other_pins_are_chosen_by_name(self, config: Config, tmp_path: Path) -> None:
        """A lock is found from another folder too; a name that is not there is a usage error that helps."""
        made = selftest.project(tmp_path, config, ("old",), PLANTS)
        assert made.pins["old"].lock == str(tmp_path / "locks" / "requirements.txt")
        with pytest.raises(UsageError, match="--pins nwe: there are no such pins; did you mean 'new'"):
            selftest.project(tmp_path, config, ("nwe",), PLANTS)

    def test_without_a_configuration_the_starters_pins_are_used(self, tmp_path: Path) -> None:
        """Those that `watchdog init` writes; names mean nothing there."""
        (pins,) = selftest.project(tmp_path, None, (), PLANTS).pins.values()
        assert any(requirement.startswith("jax") for requirement in pins.requirements)
        with pytest.raises(UsageError, match="--config"):
            selftest.project(tmp_path, None, ("new",), PLANTS)

    def test_only_the_planted_kernels_are_watched_as_they_stand(self, config: Config, tmp_path: Path) -> None:
        """One scenario, in which nothing is jitted around them, and no more checks than memory needs."""
        made = selftest.project(tmp_path, config, (), PLANTS)
        assert [scenario.value for scenario in made.watchdog.scenarios] == ["eager"]
        assert {check.value for check in made.watchdog.checks} == {"install", "import", "memory"}
        assert set(made.kernel[0].implementations) == {*CLEAN, *BY_NAME}


class TestResults:
    plant = BY_NAME["large_malloc"]

    def test_a_leak_is_found_with_its_size_and_its_line(self) -> None:
        """A size within what the allocator may add is no error; beyond it the share is told."""
        seen = observation(self.plant, 16_390, "heap_bytes")
        found = finding(self.plant, seen, leak(self.plant, 16_390, where=self.plant.line()))
        assert (found.result, found.error, found.line_is_right) == (Result.FOUND, 0.0, True)
        found = finding(self.plant, seen, leak(self.plant, 2 * 16_400, where="somewhere.py:1"))
        assert (found.error, found.line_is_right) == (1.0, False)
        found = finding(self.plant, seen, leak(self.plant, 16_384 / 2))
        assert (found.error, found.line_is_right) == (-0.5, False)

    def test_a_leak_by_another_counter_has_no_size_to_compare(self) -> None:
        """A thread shows in the heap as well: found, but not measured by what was planted."""
        plant = BY_NAME["thread"]
        seen = observation(plant, 1, "threads", "heap_bytes")
        judged = replace(leak(plant, 2_000), signal="heap_bytes")
        found = finding(plant, seen, judged)
        assert (found.result, found.error) == (Result.FOUND, None)

    @pytest.mark.parametrize("kind", ["cache growth", "collector", "more memory"])
    def test_growth_of_another_kind_is_not_the_leak(self, kind: str) -> None:
        """What was planted is a leak; an alarm that calls it something that ends by itself misleads."""
        judged = replace(leak(self.plant, 16_384), kind=kind)
        found = finding(self.plant, observation(self.plant, 16_384, "heap_bytes"), judged)
        assert found.result is Result.MISSED

    @pytest.mark.parametrize("status", [Status.PASS, Status.INCONCLUSIVE])
    def test_a_leak_that_should_have_been_seen_is_missed(self, status: Status) -> None:
        """The check says that it sees less than what was planted, and did not see it."""
        found = finding(self.plant, observation(self.plant, 0, "heap_bytes"), verdict(self.plant, status))
        assert found.result is Result.MISSED
        assert found.detectable is not None
        assert found.detectable.value < 16_384

    def test_a_leak_below_what_the_check_claims_is_too_small(self) -> None:
        """No fault: the check says from what size it sees, and keeps to it."""
        plant = BY_NAME["seldom_untracked_object"]
        found = finding(plant, observation(plant, 0, "blocks"), verdict(plant, Status.PASS))
        assert found.result is Result.TOO_SMALL
        assert found.detectable is not None
        assert found.detectable.value > 0.01

    def test_what_cannot_be_read_here_is_not_measured(self) -> None:
        """A heap that psutil cannot read, a scenario that was skipped: said with the reason."""
        found = finding(self.plant, observation(self.plant, 0, "rss_bytes"), verdict(self.plant, Status.PASS))
        assert (found.result, found.said) == (Result.NOT_MEASURED, "heap_bytes cannot be read here")
        skipped = Observation(cell(self.plant), Outcome.SKIPPED, reason="could not be installed")
        found = finding(self.plant, skipped, verdict(self.plant, Status.SKIPPED))
        assert (found.result, found.said) == (Result.NOT_MEASURED, "could not be installed")

    def test_a_check_that_breaks_has_found_nothing(self) -> None:
        """A crash is regressed, and is neither a leak found nor a false alarm."""
        for plant in (self.plant, None):
            broken = Observation(cell(plant), Outcome.CRASHED)
            assert finding(plant, broken, verdict(plant, Status.REGRESSED, kind="crash")).result is Result.FAILED

    def test_the_clean_kernel_may_have_no_alarm(self) -> None:
        """Any regression of it is false; what is undecided is no alarm."""
        seen = observation(None, 0, "heap_bytes")
        told = {status: finding(None, seen, verdict(None, status)).result for status in (Status.PASS, *Status)}
        assert {status for status, result in told.items() if result is Result.ALARM} == {Status.REGRESSED}

    @pytest.mark.parametrize(
        ("results", "code"),
        [
            ((Result.FOUND, Result.CLEAN), 0),
            ((Result.FOUND, Result.TOO_SMALL, Result.NOT_MEASURED, Result.CLEAN), 0),
            ((Result.FOUND, Result.MISSED, Result.CLEAN), 1),
            ((Result.FOUND, Result.ALARM), 1),
            ((Result.FAILED, Result.CLEAN), 1),
            ((Result.NOT_MEASURED, Result.NOT_MEASURED), 3),
        ],
    )
    def test_the_exit_code_says_whether_the_check_keeps_its_word(self, results: tuple[Result, ...], code: int) -> None:
        """0 for found and too small, 1 for missed, broken and false, 3 when nothing could be measured."""
        findings = [Finding(self.plant, "pins", result, "", 1.0) for result in results]
        assert outcomes(*findings).exit_code == code


class TestTable:
    plant = BY_NAME["large_malloc"]

    def shown(self, *findings: Finding, width: int = 200) -> str:
        out = StringIO()
        selftest_table(outcomes(*findings), Console(file=out, width=width))
        return out.getvalue()

    def test_a_row_says_what_was_planted_and_what_became_of_it(self) -> None:
        """Size measured beside size planted, and the smallest leak that would have been seen."""
        seen = observation(self.plant, 16_390, "heap_bytes")
        found = finding(self.plant, seen, leak(self.plant, 16_390, where="wrong.py:7"))
        shown = self.shown(found)
        row = next(line for line in shown.splitlines() if line.startswith("16 KiB of malloc"))
        for part in (
            "every call",
            "found",
            "16.01 KiB/call",
            "16 KiB/call to 16.02 KiB/call",
            "1 KiB/call",
            "wrong.py:7",
        ):
            assert part in row
        assert "1 found" in shown

    def test_the_reason_stands_below_what_was_not_found(self) -> None:
        """Without it nobody could tell a weak check from a strange machine."""
        unread = finding(self.plant, observation(self.plant, 0, "fds"), verdict(self.plant, Status.PASS))
        assert "16 KiB of malloc: heap_bytes cannot be read here" in self.shown(unread)

    def test_a_narrow_terminal_gets_paragraphs(self) -> None:
        """Nothing is cut off."""
        missed = Finding(self.plant, "pins", Result.MISSED, "nothing is kept", 1.0, detectable=Amount(32.0, "B/call"))
        shown = " ".join(self.shown(missed, width=60).split())
        assert "16 KiB of malloc · every call · missed · 32 B/call" in shown


class TestForReal:
    """A short selection of plants, through the command line and a real environment."""

    names = ("buffer", "small_malloc", "seldom_descriptor")

    @pytest.fixture
    def watchdog(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
        text = f'[pins.new]\nrequirements = ["{NEW}"]\n{CONFIG[CONFIG.index("[[kernel]]") :]}'
        Project(tmp_path).write("watchdog.toml", text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(selftest, "PLANTS", tuple(BY_NAME[name] for name in self.names))

        def call(*arguments: str) -> int:
            monkeypatch.setattr(sys, "argv", ["watchdog", "selftest", *arguments])
            with pytest.raises(SystemExit) as ended:
                cli.main()
            return int(ended.value.code or 0)

        return call

    @pytest.mark.real
    def test_planted_leaks_are_found_and_the_clean_kernel_is_not_accused(
        self, watchdog: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Each by its own size, standard output carries the JSON alone, and nothing stays in the user's folder."""
        code = watchdog("--json", "-")
        out, err = capsys.readouterr()
        document = json.loads(out)
        found = {line["planted"]: line for line in document["findings"] if line["planted"]}
        assert {line["result"] for line in found.values()} == {"found"}, err
        assert [line["result"] for line in document["findings"] if line["planted"] is None] == ["no alarm"] * 2
        assert all(abs(line["error"]) < 0.1 for line in found.values())
        assert found["a device buffer of 16 KiB"]["line_is_right"]
        assert document["environments"][0]["packages"]["jax"] == JAX
        assert (code, document["exit_code"]) == (0, 0)
        assert "3 found, 2 no alarm" in err
        assert {path.name for path in tmp_path.iterdir()} == {"watchdog.toml"}

    def test_unknown_pins_end_it_before_it_begins(
        self, watchdog: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One sentence, exit code 2."""
        assert watchdog("--pins", "old") == 2
        assert capsys.readouterr().err.startswith("error: --pins old: there are no such pins")


@contextmanager
def _quiet(_total: int) -> Iterator[Any]:
    class Progress:
        def started(self, label: str) -> None: ...
        def finished(self, label: str, outcome: Outcome, seconds: float) -> None: ...

    yield Progress()


@pytest.mark.real
def test_pins_that_do_not_install_leave_nothing_measured(tmp_path: Path) -> None:
    """No leak is missed and no alarm is false: the exit code says that nothing is known."""
    text = f'[pins.bad]\nrequirements = ["jax==0.0.999"]\n{CONFIG[CONFIG.index("[[kernel]]") :]}'
    config = load(Project(tmp_path).write("watchdog.toml", text))
    ended = selftest.selftest(config, (), _quiet, PLANTS[:2])
    assert {one.result for one in ended.findings} == {Result.NOT_MEASURED}
    assert ended.exit_code == 3
