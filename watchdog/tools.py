"""Which tools of the checks (pytest and the like) have to stand beside an environment, and in which versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from watchdog.pins import Lock
from watchdog.uv import Uv

RESOLVE_SECONDS = 300.0


@dataclass(frozen=True)
class Tools:
    """Requirement lines with hashes, without the packages that the lock already has."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Irreconcilable:
    """Why no versions of the tools work beside the lock."""

    explanation: str
    log: str


def resolve_tools(requirements: Path, lock: Lock, uv: Uv) -> Tools | Irreconcilable:
    """The tools that `requirements` ask for, in versions that go with `lock`."""
    constraints = [f"{entry.name}=={entry.version}" for entry in lock.entries if entry.version and not entry.url]
    answer = uv.call(
        *(
            "pip",
            "compile",
            str(requirements),
            "--constraint",
            "-",
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
        ),
        *("--python", str(lock.interpreter)),
        seconds=RESOLVE_SECONDS,
        folder=lock.root,
        stdin="\n".join((*lock.options, *constraints)) + "\n",
    )
    if not answer.succeeded:
        return Irreconcilable(_sentence(lock, answer.stderr), answer.stderr)
    locked = {entry.name for entry in lock.entries}
    lines = [line for line in answer.stdout.replace("\\\n", " ").splitlines() if "==" in line]
    return Tools(tuple(line for line in lines if canonicalize_name(line.partition("==")[0]) not in locked))


def _sentence(lock: Lock, said: str) -> str:
    named = [entry for entry in lock.entries if re.search(rf"(?<![\w.-]){re.escape(entry.name)}(?![\w-])", said)]
    if "No solution found" not in said or not named:
        return f"the tools of the checks could not be resolved: {said.strip()}"
    whose = " and ".join(f"{entry.name} {entry.version}" for entry in named)
    return f"the tools of the checks do not fit together with {whose}, which the lock pins: {said.strip()}"
