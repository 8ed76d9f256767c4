"""Small projects made for a test, as a user's folder would be: a watchdog.toml, kernels, and the program run in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from watchdog.model import Check, Observation, Verdict
from watchdog.store import reader
from watchdog.store.engine import Store, open_store

ROOT = Path(__file__).resolve().parent.parent
NEW, OLD = "jax==0.10.2", "jax==0.9.2"  # pins for the CPU alone: they install within seconds

_PROGRAM = (sys.executable, "-c", "from watchdog.cli import main; main()")
_DATABASE = "sqlite:///.watchdog/watchdog.db"
_PATIENCE = 300.0  # seconds; a test that needs them has failed

_BACKEND = """\
import pathlib, zipfile

FILES = {files!r}
INFO = {distribution!r} + "-1.0.dist-info"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel = {distribution!r} + "-1.0-py3-none-any.whl"
    texts = {{file: pathlib.Path(file).read_text() for file in FILES}}
    texts[INFO + "/METADATA"] = "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n"
    texts[INFO + "/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    texts[INFO + "/RECORD"] = "".join(file + ",,\\n" for file in texts) + INFO + "/RECORD,,\\n"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w") as archive:
        for file, text in texts.items():
            archive.writestr(file, text)
    return wheel
"""


@dataclass(frozen=True)
class Finished:
    """How the program ended, and what it said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Project:
    """A folder in which the program is run."""

    folder: Path

    def write(self, place: str, text: str) -> Path:
        """Put a file there; the text may be indented as in a test."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def package(self, folder: str, name: str, modules: Mapping[str, str]) -> None:
        """A local project of the distribution `name`, whose modules lie under `src`-less paths; it builds itself."""
        for place, text in modules.items():
            self.write(f"{folder}/{place}", text)
        distribution = name.replace("-", "_").replace(".", "_")
        self.write(f"{folder}/backend.py", _BACKEND.format(files=list(modules), distribution=distribution, name=name))
        self.write(
            f"{folder}/pyproject.toml",
            f"""
            [build-system]
            requires = []
            build-backend = "backend"
            backend-path = ["."]

            [project]
            name = "{name}"
            version = "1.0"
            """,
        )

    def watchdog(
        self, *arguments: str, variables: Mapping[str, str] | None = None, into: Path | None = None
    ) -> Finished:
        """Run the program to its end; its standard output goes into a file where one is named."""
        with self.started(*arguments, variables=variables, into=into) as process:
            stdout, stderr = process.communicate(timeout=_PATIENCE)
        return Finished(process.returncode, stdout or "", stderr)

    @contextmanager
    def started(
        self, *arguments: str, variables: Mapping[str, str] | None = None, into: Path | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """The program at work; whatever the test does, none of its processes outlives the block."""
        with (
            nullcontext(subprocess.PIPE) if into is None else into.open("w") as stdout,
            subprocess.Popen(
                [*_PROGRAM, *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})},
                stdout=stdout,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            ) as process,
        ):
            try:
                yield process
            finally:
                end(process)

    @contextmanager
    def store(self) -> Iterator[Store]:
        with open_store(_DATABASE, root=self.folder) as store:
            yield store

    def results(self, run: str = "latest") -> Results:
        """What a run observed and how it was judged."""
        with self.store() as store:
            found = reader.run(store, run)
            return Results(
                found.id,
                found.state.value,
                tuple(reader.observations(store, found.id)),
                tuple(reader.verdicts(store, found.id)),
                len(reader.missing_cells(store, found.id)),
            )

    def pages(self) -> str:
        """The whole report, as it is written."""
        report = self.folder / ".watchdog" / "report"
        return "\n".join(page.read_text(encoding="utf-8") for page in sorted(report.rglob("*.html")))


@dataclass(frozen=True)
class Results:
    """A run as it lies in the store."""

    run: str
    state: str
    observations: tuple[Observation, ...]
    verdicts: tuple[Verdict, ...]
    missing: int

    def observation(self, check: Check, **cell: str) -> Observation:
        """The one observation of a cell, named by the parts that tell it from others."""
        (found,) = (one for one in self.observations if one.cell.check is check and _matches(one, cell))
        return found

    def verdict(self, check: Check, **cell: str) -> Verdict:
        """The one verdict on a cell, named by the parts that tell it from others."""
        (found,) = (one for one in self.verdicts if one.cell.check is check and _matches(one, cell))
        return found


def _matches(one: Observation | Verdict, parts: Mapping[str, str]) -> bool:
    return all(getattr(one.cell, name) == value for name, value in parts.items())


def end(process: subprocess.Popen[str]) -> None:
    """End the program and all that it started, if it still runs."""
    if process.poll() is None:
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        for member in family:
            if member.is_running():
                member.kill()


def document(finished: Finished) -> dict[str, Any]:
    """What the program wrote on standard output, which must be JSON and nothing else."""
    parsed: dict[str, Any] = json.loads(finished.stdout)
    return parsed
