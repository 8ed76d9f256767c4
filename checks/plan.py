"""The plan, as frozen values. Written by the program, documented in docs/observations.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kernel:
    """What the configuration says of one kernel; every callable is named `module:function`."""

    name: str
    path: str | None
    implementations: dict[str, str]
    layout: dict[str, str]
    inputs: str | None
    reference: str | None
    tolerance: float | None
    differentiate: list[int] | None
    static: list[str] | None


@dataclass(frozen=True)
class Case:
    """One input configuration."""

    name: str
    args: list[str]
    kwargs: dict[str, Any]
    seed: int
    length: int | None  # the size of the dimensions that `shapes` varies; None: the largest


@dataclass(frozen=True)
class PlannedCell:
    """One question: `case`, `target` and `scenario` are empty where the check does not distinguish them."""

    number: int
    check: str
    case: str
    target: str
    scenario: str


@dataclass(frozen=True)
class Plan:
    """All that one process has to do."""

    kernel: Kernel
    implementation: str
    cases: dict[str, Case]
    cells: list[PlannedCell]
    asked: list[str]  # the checks of the whole run, this process's and others'
    host: str
    platform: str  # where this process computes: "cpu", or the host's
    interpret_limit: float
    memory_budget: float  # seconds of calls in one memory scenario of a slow kernel
    scratch: Path

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Plan:
        cases = [Case(**case) for case in document["cases"]]
        return cls(
            kernel=Kernel(**document["kernel"]),
            implementation=document["implementation"],
            cases={case.name: case for case in cases},
            cells=[PlannedCell(**cell) for cell in document["cells"]],
            asked=document["asked"],
            host=document["host"],
            platform=document["platform"],
            interpret_limit=document["interpret_limit"],
            memory_budget=document["memory_budget"],
            scratch=Path(document["scratch"]),
        )
