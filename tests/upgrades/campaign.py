"""A project of watched kernels in a work folder, the real program run in it, and the run that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.upgrades.expectations import HOST, Watched, version
from tests.upgrades.moved import ABSL_FORGOTTEN

ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = (sys.executable, "-c", "from watchdog.cli import main; main()")
_NEWER_PYTHON = (0, 11)  # the first release of jax that wants Python 3.12
# What these releases forgot to require, and Pallas needs: its absence is a finding about the pins and no kernel's.
_FORGOTTEN = dict.fromkeys(ABSL_FORGOTTEN, ("absl-py",))
_QUICK = ("install", "import", "lower", "compile", "schedule", "numerics", "gradients", "races")


@dataclass(frozen=True)
class Project:
    """Kernels that are watched together, and the questions that are asked of them."""

    name: str
    kernels: tuple[Watched, ...]
    checks: tuple[str, ...] = _QUICK
    completed: bool = True  # whether the pins have what a release forgot to require

    def targets(self, generations: Sequence[str]) -> list[str]:
        """Where it is watched: bare pins are only built with."""
        return [*([HOST] if self.completed else []), *generations]


def projects(kernels: Sequence[Watched], sound: Sequence[Watched]) -> list[Project]:
    """Sound kernels are asked everything; what is wrong with the broken ones shows without watching memory."""
    whole, bare = [one for one in kernels if one in sound], [one for one in kernels if one.bare]
    broken = [one for one in kernels if one not in whole and one not in bare]
    some = (
        Project("sound", tuple(whole), (*_QUICK, "memory")),
        Project("broken", tuple(broken)),
        Project("bare", tuple(bare), ("install", "import", "lower"), completed=False),
    )
    return [project for project in some if project.kernels]


def run(folder: Path, project: Project, releases: Sequence[str], targets: Sequence[str]) -> Mapping[str, Any]:
    """Watch a project in `folder` and return what `watchdog run --json` writes; its progress goes to `log.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "watchdog.toml").write_text(configuration(project, releases, targets), encoding="utf-8")
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        finished = subprocess.run(
            [*_PROGRAM, "run", "--quiet", "--json", "run.json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            check=False,
        )
    if finished.returncode not in (0, 1):  # 1: something regressed, as it should
        msg = f"the watch ended with {finished.returncode}: {(folder / 'log.txt').read_text(encoding='utf-8')[-2000:]}"
        raise RuntimeError(msg)
    written: Mapping[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return written


def configuration(project: Project, releases: Sequence[str], targets: Sequence[str]) -> str:
    """The `watchdog.toml`; the oldest release is the baseline."""
    return "\n".join(
        [
            "[watchdog]",
            f"targets = {_list(one if one == HOST else f'tpu:{one}' for one in targets)}",
            f"checks = {_list(project.checks)}",
            f'baseline = "{min(releases, key=version)}"',
            'scenarios = ["steady"]',
            'memory_budget = "1s"',
            'cell_timeout = "1m"',
            *(_pins(one, _FORGOTTEN.get(one, ()) if project.completed else ()) for one in releases),
            *(_kernel(one) for one in project.kernels),
        ]
    )


def _pins(release: str, further: Iterable[str]) -> str:
    python = "3.12" if version(release) >= _NEWER_PYTHON else "3.11"
    requirements = _list([f"jax[tpu]=={release}", *further])
    return f'[pins."{release}"]\nrequirements = {requirements}\npython = "{python}"'


def _kernel(kernel: Watched) -> str:
    differentiate = "" if kernel.differentiate is None else f"differentiate = {list(kernel.differentiate)}\n"
    return (
        f'[[kernel]]\nname = "{kernel.name}"\ncustom = "{kernel.custom}"\nnative = "{kernel.native}"\n'
        f"path = {json.dumps(kernel.path)}\n{differentiate}"
        f'[[kernel.case]]\nname = "small"\nargs = {_list(kernel.args)}'
    )


def _list(texts: Iterable[str]) -> str:
    return json.dumps(list(texts))
