"""What the campaign asks, and where it keeps the answers: values that every tool's part starts from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import uv

from tests.leak_table import corpus_table
from watchdog import plan, selftest
from watchdog.config import Config, Kernel, Pins
from watchdog.model import Cell, Check, Scenario
from watchdog.plan import Job
from watchdog.rooms import room
from watchdog.selftest import PLANTS, Plant

INSIDE = Path(__file__).parent / "inside"
CHECKS = room("checks")
OTHER_TOOLS = ("pytest", "pytest-benchmark", "psutil>=7.2", "pytest-memray", "psleak", "asv")
BUDGET = 5.0  # seconds of calls in a scenario of a slow function, a third of the default


class Said(StrEnum):
    """What a tool said of one cell."""

    ALARM = "alarm"
    QUIET = "quiet"
    UNSURE = "unsure"
    NOT_ASKED = "not asked"  # the scenario does not apply to the function
    BROKEN = "broken"  # the test, its process or the tool failed otherwise


class Truth(StrEnum):
    """What a long run shows of a clean cell that a tool raised an alarm at."""

    GROWS = "grows all the time"
    FILLS = "grows at first"  # until a cache is full
    STILL = "false"


@dataclass(frozen=True)
class Answer:
    """One tool on one cell. `error` is the share by which the size it tells lies off what was planted."""

    tool: str
    release: str
    subject: str  # a clean function's name, or a plant's
    scenario: str
    said: Said
    kind: str = ""
    error: float | None = None
    line_is_right: bool | None = None
    seconds: float = 0.0
    truth: Truth | None = None  # of an alarm on a clean cell

    @property
    def cell(self) -> tuple[str, str, str]:
        """What it is about, whichever tool says it."""
        return self.release, self.subject, self.scenario


@dataclass(frozen=True)
class Parameters:
    """What was asked for; kept in the folder, so that a campaign is never finished with other parameters."""

    cells: int
    releases: tuple[str, ...]
    scenarios: tuple[str, ...]
    plants: tuple[str, ...]


@dataclass(frozen=True)
class Campaign:
    """Parameters and the folder that keeps what was seen."""

    parameters: Parameters
    folder: Path

    @cached_property
    def plants(self) -> dict[str, Plant]:
        return {plant.implementation: plant for plant in PLANTS if plant.implementation in self.parameters.plants}

    @cached_property
    def config(self) -> Config:
        """The planted leaks in the scenario that they leak in, and the clean functions in all of them."""
        planted = selftest.project(self.folder, None, (), tuple(self.plants.values()))
        scenarios = tuple(Scenario(name) for name in self.parameters.scenarios)
        functions = corpus_table.chosen(self.parameters.cells, len(self.parameters.releases), len(scenarios))
        leaking = planted.kernel[0].model_copy(update={"scenarios": (Scenario.EAGER,)})
        clean = tuple(Kernel.model_validate(corpus_table.kernel(one)) for one in functions)
        return planted.model_copy(
            update={
                "watchdog": planted.watchdog.model_copy(update={"scenarios": scenarios, "memory_budget": BUDGET}),
                "pins": {
                    pins(release): Pins(requirements=(f"jax=={release}",)) for release in self.parameters.releases
                },
                "kernel": (leaking, *clean),
            }
        )

    @property
    def selection(self) -> plan.Selection:
        """Without the native implementations, which are the custom ones again."""
        return plan.Selection(implementations=("custom", *self.plants))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that are compared between the tools."""
        return tuple(cell for cell in plan.cells(self.config, self.selection) if cell.check is Check.MEMORY)

    @property
    def jobs(self) -> tuple[Job, ...]:
        return plan.jobs(self.cells, lambda _: "cpu")

    @cached_property
    def places(self) -> dict[tuple[str, str, str], tuple[Job, int]]:
        """Each cell's job, and its number in it; by what answers say they are about."""
        return {
            (release_of(cell), subject_of(cell), cell.scenario): (job, number)
            for job in self.jobs
            for number, cell in enumerate(job.cells)
        }

    def plan_file(self, job: Job) -> Path:
        """The plan of a job as the memory check reads it, written where every tool can read it too."""
        folder = self.place("plans", f"{job.pins}.{job.kernel}.{job.implementation}")  # its scratch: of no other job
        file = folder / "plan.json"
        numbered = dict(enumerate(job.cells))
        document = plan.document(
            job, numbered, self.config, asked=job.cells, host="cpu", scratch=folder, tools=CHECKS.parent
        )
        file.write_text(json.dumps(document), encoding="utf-8")
        return file

    def place(self, *parts: str) -> Path:
        """A folder below the campaign's, made when it is missing."""
        folder = self.folder.joinpath(*parts)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def python(self, release: str) -> Path:
        """The Python of this release's environment with the other tools in it; built once."""
        folder = self.place("environments") / f"jax-{release}"
        if not (folder / "complete").exists():
            call_uv("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
            call_uv("pip", "install", "--quiet", "--python", str(folder), f"jax=={release}", *OTHER_TOOLS)
            (folder / "complete").touch()
        return folder / "bin" / "python"

    def versions(self, release: str) -> dict[str, str]:
        """What is installed in that environment."""
        listed = call_uv("pip", "list", "--format=json", "--python", str(self.python(release).parent.parent))
        return {entry["name"]: entry["version"] for entry in json.loads(listed)}


def call_uv(*arguments: str) -> str:
    """What uv writes. Raises CalledProcessError, with what it said on standard error left there."""
    return subprocess.run([uv.find_uv_bin(), *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def pins(release: str) -> str:
    return f"jax-{release}"


def release_of(cell: Cell) -> str:
    return cell.pins.removeprefix("jax-")


def subject_of(cell: Cell) -> str:
    """The plant's name, or the clean function's."""
    return cell.kernel if cell.implementation == "custom" else cell.implementation


def opened(folder: Path, parameters: Parameters) -> Campaign:
    """The campaign in a folder, begun or gone on with. Raises ValueError when it has other parameters."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "parameters.json"
    wanted = json.loads(json.dumps(asdict(parameters)))
    if file.exists() and (kept := json.loads(file.read_text(encoding="utf-8"))) != wanted:
        message = f"{folder} holds a campaign with other parameters, {kept}; name another folder, or remove it"
        raise ValueError(message)
    file.write_text(json.dumps(wanted), encoding="utf-8")
    return Campaign(parameters, folder)


@contextmanager
def busy_neighbour(python: Path) -> Iterator[None]:
    """Another process that computes, compiles and allocates all the time."""
    with subprocess.Popen([str(python), "-I", str(INSIDE / "neighbour.py")], env=clean_environment()) as process:
        try:
            yield
        finally:
            process.kill()


def clean_environment(**more: str) -> dict[str, str]:
    """A process's variables: no settings of the caller's that a tool could read."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1", **more}


def planted_bytes(plant: Plant) -> tuple[float, float] | None:
    """Bytes that the plant keeps per call; None where it is known by number alone."""
    return next((found for name in ("buffer_bytes", "heap_bytes") if (found := plant.planted(name))), None)


def share_off(value: float, planted: tuple[float, float] | None) -> float | None:
    """How far a size lies outside of what was planted, relative to it; None where that has no size."""
    if planted is None:
        return None
    low, high = planted
    return (value - low) / low if value < low else max(0.0, value - high) / high
