"""The record stream: one JSON line for each thing that happened, complete before the next one begins."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """What went wrong, as data; the fields of the program's own word of that name."""

    kind: str
    message: str
    where: str | None = None
    traceback: str = ""
    missing: str | None = None

    @property
    def headline(self) -> str:
        """Its class and the first line of what it says."""
        lines = self.message.strip().splitlines()
        return f"{self.kind}: {lines[0][:300]}" if lines else self.kind


@dataclass(frozen=True)
class Observed:
    """How the observing of one cell ended: the numbers, the fault, or the reason for neither."""

    outcome: str
    reason: str | None = None
    fault: Fault | None = None
    data: dict[str, Any] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    also: dict[str, Observed] = field(default_factory=dict)  # answers to other checks of the same case and target

    def to_json(self) -> dict[str, Any]:
        also = {check: observed.to_json() for check, observed in self.also.items()}
        return {**asdict(self), "data": finite(self.data), "series": finite(self.series), "also": also}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Observed:
        fault = document["fault"]
        also = {check: cls.from_json(observed) for check, observed in document["also"].items()}
        return cls(**{**document, "fault": Fault(**fault) if fault else None, "also": also})


def finite(value: Any) -> Any:
    """The value with numbers that JSON lacks written as the strings "nan", "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class Stream:
    """Writes the lines. A line is handed to the operating system whole, so a killed process loses none it wrote."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def started(self, cell: int) -> None:
        self._line({"event": "start", "cell": cell})

    def observed(self, cell: int, observed: Observed, log_tail: str, seconds: float) -> None:
        answer = observed.to_json()
        del answer["also"]  # answers to other cells, each a line of its own
        self._line({"event": "observation", "cell": cell, **answer, "log_tail": log_tail, "seconds": seconds})

    def ended(self) -> None:
        self._line({"event": "end"})

    def _line(self, document: dict[str, Any]) -> None:
        data = json.dumps(document, allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(self.fd, data) :]
