"""Where in the user's repository a finding is shown: its own line where that is known, or else the lock that changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from watchdog.gate.report import GateReport
from watchdog.model import Verdict

_CONFIGURATION = "watchdog.toml"
_WHERE = re.compile(r"(?P<file>[^:\0]{1,500}?)(?::(?P<line>\d{1,7}))?")
_NOT_SEARCHED = frozenset(("node_modules", "site-packages", "build", "dist", "__pycache__", "venv"))
_MOST_FILES = 20_000  # that are looked at for a name
_LARGEST_LOCK = 16 * 1024 * 1024  # bytes


@dataclass(frozen=True)
class Place:
    """A file, relative to the root of the repository with slashes, and a line counted from 1."""

    file: str
    line: int


class Places:
    """Finds places below the root of a repository: the nearest folder around `root` that git knows, or `root` itself."""

    def __init__(self, report: GateReport, root: Path) -> None:
        self._report = report
        self.given_root = root.resolve()
        around = (self.given_root, *self.given_root.parents)
        self.root = next((one for one in around if (one / ".git").exists()), self.given_root)

    def of(self, verdict: Verdict) -> Place:
        """The line that a verdict names, where such a file is in the repository; else the lock, at the blamed package."""
        return self._own(verdict) or self.of_lock(verdict)

    def of_lock(self, verdict: Verdict | None = None) -> Place:
        """The head's lock (or else the base's, or the configuration), at a blamed or else the first changed package."""
        for given in (self._report.difference.head.given, self._report.difference.base.given):
            name = given if self._found(given) else given.partition(":")[2]
            found = self._found(name)
            if found is not None:
                return Place(found, self._line(found, verdict))
        return Place(self._found(_CONFIGURATION) or _CONFIGURATION, 1)

    def _own(self, verdict: Verdict) -> Place | None:
        match = _WHERE.fullmatch(verdict.where or "")
        if match is None:
            return None
        file = self._found(match["file"]) or self._unique(match["file"])
        return None if file is None else Place(file, max(1, int(match["line"] or 1)))

    def _found(self, name: str) -> str | None:
        """The file of this name, relative to the repository; None when there is none in it."""
        if not name or "\0" in name:
            return None
        for folder in dict.fromkeys((self.given_root, self.root)):
            try:
                path = (folder / name).resolve()
                if path.is_file() and path.is_relative_to(self.root):
                    return path.relative_to(self.root).as_posix()
            except (OSError, ValueError):
                continue
        return None

    def _unique(self, name: str) -> str | None:
        """The only file of the repository whose path ends so."""
        wanted = PurePosixPath(name.replace("\\", "/")).parts
        if not wanted or wanted[-1] in ("", ".."):
            return None
        ending = [
            one for one in self._by_name.get(wanted[-1], ()) if PurePosixPath(one).parts[-len(wanted) :] == wanted
        ]
        return ending[0] if len(ending) == 1 else None

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for number, path in enumerate(self._files()):
            if number >= _MOST_FILES:
                break
            names.setdefault(path.name, []).append(path.relative_to(self.root).as_posix())
        return names

    def _files(self) -> Iterator[Path]:
        for folder, below, files in os.walk(self.root):
            below[:] = sorted(one for one in below if not one.startswith(".") and one not in _NOT_SEARCHED)
            yield from (Path(folder, file) for file in sorted(files))

    def _line(self, file: str, verdict: Verdict | None) -> int:
        """Where the lock names a blamed package, or else the first that changed; 1 when it names none."""
        lines = self._lock_lines(file)
        for package in self._packages(verdict):
            pattern = re.compile(
                rf"\s*(?:name\s*=\s*[\"'])?{re.escape(package).replace('-', '[-_.]')}(?:[\"']|\s*[\[=<>~!@; ]|$)",
                re.IGNORECASE,
            )
            line = next((number for number, text in enumerate(lines, 1) if pattern.match(text)), None)
            if line is not None:
                return line
        return 1

    def _packages(self, verdict: Verdict | None) -> list[str]:
        blame = self._report.blame_of(verdict) if verdict is not None else None
        blamed = [one.name for one in blame.packages] if blame else []
        return [*blamed, *(one.package.name for one in self._report.difference.changes[:20])]

    def _lock_lines(self, file: str) -> list[str]:
        path = (self.root) / file
        try:
            if path.stat().st_size > _LARGEST_LOCK:
                return []
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
