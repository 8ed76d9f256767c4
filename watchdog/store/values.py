"""What the store returns beside the words of `watchdog.model`: runs, locks and past observations, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from watchdog.model import Observation, Package


class RunState(StrEnum):
    """How far a run came. A run whose process was killed stays `running`."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"  # stopped by the user; it can be resumed
    FAILED = "failed"  # ended early by the program's own failure; it can be resumed


@dataclass(frozen=True)
class Run:
    """One start of the program. `config` holds what is needed to resume it, `host` the machine's facts."""

    id: str
    started: str  # UTC, ISO 8601
    finished: str | None
    state: RunState
    exit_code: int | None
    version: str  # of this program
    config: Mapping[str, Any]
    host: Mapping[str, Any]

    @property
    def is_gate(self) -> bool:
        """Whether `watchdog gate` began it, which alone can go on with it."""
        return "gate" in self.config


@dataclass(frozen=True)
class Lock:
    """A resolved list of requirements, addressed by its hash."""

    hash: str  # "sha256:…"
    text: str  # requirements text with hashes
    packages: tuple[Package, ...]
    python: str


@dataclass(frozen=True)
class Past:
    """What an earlier run observed in a cell."""

    run: str
    observation: Observation


@dataclass(frozen=True)
class Gate:
    """What a gate answered. `document` is what `watchdog gate --json` writes."""

    run: str
    base: str  # as the user wrote it
    head: str
    answer: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Learned:
    """What a probe of a search learned."""

    result: str
    said: str
    seconds: float
