"""The errors that end a command; each carries its exit code and says how to mend it.

WatchdogError
├── UsageError         (2) configuration, arguments, paths, databases: the user can mend it
│   └── ConfigError    (2) a place in a file: names file, line and key
└── IncompleteError    (3) a decision was asked for and could not be reached

What a *kernel* does wrong is never one of these: it is an observation.
"""

from __future__ import annotations

from pathlib import Path


class WatchdogError(Exception):
    """Base of all errors shown as one sentence, without a traceback."""

    exit_code = 2


class UsageError(WatchdogError):
    """Something the user gave cannot be used."""


class ConfigError(UsageError):
    """A mistake in a configuration file, with its place."""

    def __init__(
        self, message: str, *, path: Path | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        self.message, self.path, self.line, self.key = message, path, line, key
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        place = f"{self.path}" if self.path else ""
        if place and self.line:
            place += f":{self.line}"
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.message}" if place else f"{key}{self.message}"


class IncompleteError(WatchdogError):
    """The run did not reach a decision that was asked for."""

    exit_code = 3
