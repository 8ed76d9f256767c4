"""Locks to environments: built by uv, verified, and kept in a cache under the lock's hash.

One environment is a folder:

    <cache>/<first 16 digits of the hash>/
        venv/           exactly the lock, nothing else
        tools/          what the checks need and the lock lacks; appended last to the import path by the checks
        lock.txt        the lock's text
        complete.json   written last: without it the folder is a ruin and is built again

Builders of the same environment wait for each other on a file lock. uv inherits it, so that it is held until the last
process that writes there has gone, even when the builder itself was killed. Those who use an environment share the
lock, and then nobody builds it again or removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import platformdirs

from watchdog import filelock
from watchdog.errors import UsageError
from watchdog.model import Package
from watchdog.pins import Lock, LockedPackage
from watchdog.projects import content_digest
from watchdog.rooms import room
from watchdog.site_packages import differences, installed_packages
from watchdog.tools import Irreconcilable, resolve_tools
from watchdog.uv import Answer, Uv

CACHE_VARIABLE = "KERNEL_WATCHDOG_CACHE"
INSTALL_SECONDS = 1800.0
VENV_SECONDS = 120.0
WAIT_SECONDS = 3600.0  # for another builder or user of the same environment

_MARKER = "complete.json"
_MARKER_SCHEMA = 1
_FOLDER = re.compile(r"[0-9a-f]{16}")
_TRASH = ".trash-"
_OF_NOTE = ("jax", "jaxlib", "libtpu")

Progress = Callable[[str], None]
Stage = Literal["install", "tools", "verification", "busy", "time limit"]


@dataclass(frozen=True)
class Built:
    """An environment that holds exactly its lock."""

    lock_hash: str
    directory: Path
    python: Path
    tools: Path  # a folder for the import path's end
    tool_versions: tuple[Package, ...]
    cached: bool
    seconds: float
    verified: int  # packages compared with the lock


@dataclass(frozen=True)
class BuildFailed:
    """Why there is no environment: an observation, not an error of the program."""

    explanation: str
    log: str  # without credentials
    stage: Stage


@dataclass(frozen=True)
class CachedEnvironment:
    """One folder of the cache."""

    lock_hash: str  # in full; the first digits alone where the folder is a ruin
    directory: Path
    packages: tuple[Package, ...]  # those of note: jax, jaxlib, libtpu
    python: str
    bytes: int
    last_used: datetime  # UTC
    complete: bool


@dataclass(frozen=True)
class Pruned:
    """What became of an environment that was to be removed."""

    environment: CachedEnvironment
    removed: bool  # False: it is in use


@dataclass(frozen=True)
class _Marker:
    lock_hash: str
    python: str
    wanted_tools: str  # digest of the tools' requirements
    tools: Mapping[str, str]
    unversioned: Mapping[str, str]  # versions that only the installation could tell


def default_cache_directory() -> Path:
    """Where environments are kept: $KERNEL_WATCHDOG_CACHE, or else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return (Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("kernel-watchdog")) / "environments"


def silent(_message: str) -> None:
    """Progress that nobody watches."""


class EnvironmentCache:
    """The environments on this machine."""

    def __init__(
        self, directory: Path | None = None, uv: Uv | None = None, tool_requirements: Path | None = None
    ) -> None:
        self.directory = (directory or default_cache_directory()).absolute()
        self._is_configured = directory is not None
        self._uv = uv or Uv.found()
        self._tool_requirements = tool_requirements or room("checks") / "requirements.txt"

    @property
    def moved_by(self) -> str:
        """What names the cache's folder, for a message that asks to change it."""
        return "`environments` of [watchdog] in the configuration" if self._is_configured else CACHE_VARIABLE

    def prepare(self) -> None:
        """Make the cache's folders. Raises UsageError when they cannot be made or written."""
        try:
            self._locks.mkdir(parents=True, exist_ok=True)
            for folder in (self.directory, self._locks):
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as error:
            msg = (
                f"the cache of environments {self.directory} cannot be written: {error.strerror or error}; "
                f"set {self.moved_by} to a folder that can be written"
            )
            raise UsageError(msg) from error

    def build(self, lock: Lock, progress: Progress = silent) -> Built | BuildFailed:
        """The environment of `lock`: taken from the cache and verified, or built.

        Raises UsageError when the cache cannot be written.
        """
        started = time.monotonic()
        self.prepare()
        with filelock.shared(self._lock_file(lock)) as held:
            taken = self._take(lock, started) if held is not None else None
        if taken:
            return taken
        with filelock.exclusive(self._lock_file(lock), WAIT_SECONDS, lambda: progress(_waiting(lock))) as held:
            if held is None:
                minutes = WAIT_SECONDS / 60
                return BuildFailed(
                    f"another process has kept {self._folder(lock)} busy for {minutes:.0f} minutes", "", "busy"
                )
            # Another builder may have finished it while we waited.
            return self._take(lock, started) or self._build_verified(lock, held, progress, started)

    @contextmanager
    def in_use(self, built: Built) -> Iterator[Built]:
        """While this lasts, nobody removes or rebuilds the environment.

        Do not build the same lock inside it: a rebuild would wait for its own caller.
        Raises UsageError when the environment was removed since it was built.
        """
        with filelock.shared(self._locks / f"{built.directory.name}.lock", seconds=WAIT_SECONDS) as held:
            if held is None or _read_marker(built.directory) is None:
                msg = f"the environment {built.directory} was removed or is being rebuilt; start again"
                raise UsageError(msg)
            yield built

    def list_environments(self) -> tuple[CachedEnvironment, ...]:
        """What the cache holds, last used first."""
        if not self.directory.is_dir():
            return ()
        folders = [path for path in self.directory.iterdir() if _FOLDER.fullmatch(path.name)]
        described = [environment for folder in folders if (environment := _describe(folder))]
        return tuple(sorted(described, key=lambda one: one.last_used, reverse=True))

    def prune(self, *, older_than: timedelta = timedelta(0), keep: Collection[str] = ()) -> tuple[Pruned, ...]:
        """Remove what was not used for `older_than` and is not in `keep` (hashes, in full or their first digits).

        Ruins go at any age. What is in use stays, and is reported so. Raises UsageError when a folder cannot be removed.
        """
        before = datetime.now(UTC) - older_than
        kept = tuple(hash_.removeprefix("sha256:") for hash_ in keep)
        chosen = [
            environment
            for environment in self.list_environments()
            if (environment.last_used <= before or not environment.complete)
            and not any(
                hash_.startswith(environment.directory.name) or environment.lock_hash[7:].startswith(hash_)
                for hash_ in kept
            )
        ]
        pruned = tuple(Pruned(environment, removed=self._remove(environment.directory)) for environment in chosen)
        self._empty_trash()
        return pruned

    @property
    def _locks(self) -> Path:
        return self.directory / "locks"

    def _folder(self, lock: Lock) -> Path:
        return self.directory / _short(lock.hash)

    def _lock_file(self, lock: Lock) -> Path:
        return self._locks / f"{_short(lock.hash)}.lock"

    def _take(self, lock: Lock, started: float) -> Built | None:
        """The environment as it stands, if it is complete and equals the lock."""
        folder = self._folder(lock)
        marker = _read_marker(folder)
        if marker is None or marker.lock_hash != lock.hash or marker.wanted_tools != self._wanted_tools():
            return None
        if _python(folder) is None or self._differences(folder, lock, marker):
            return None
        os.utime(folder / _MARKER)  # last used: now
        return self._built(folder, lock, marker, cached=True, started=started)

    def _build_verified(self, lock: Lock, held: int, progress: Progress, started: float) -> Built | BuildFailed:
        """Build; if what is then installed is not the lock, build once more before giving up."""
        for _ in range(2):
            failed = self._construct(lock, held, progress)
            if failed:
                return failed
            folder = self._folder(lock)
            marker = self._marker(folder, lock)
            wrong = self._differences(folder, lock, marker)
            if not wrong:
                _write_marker(folder, marker)
                return self._built(folder, lock, marker, cached=False, started=started)
        return BuildFailed(f"what was installed is not what the lock says: {'; '.join(wrong)}", "", "verification")

    def _construct(self, lock: Lock, held: int, progress: Progress) -> BuildFailed | None:
        folder = self._folder(lock)
        progress(f"building the environment {folder.name}")
        self._discard(folder)
        folder.mkdir()
        (folder / "lock.txt").write_text(lock.text, encoding="utf-8")
        return (
            self._make_venv(lock, folder, held)
            or self._install_from_index(lock, folder, held)
            or self._install_projects(lock, folder, held)
            or self._install_tools(lock, folder, held)
        )

    def _make_venv(self, lock: Lock, folder: Path, held: int) -> BuildFailed | None:
        answer = self._uv.call(
            *("venv", "--no-project", "--python", str(lock.interpreter), str(folder / "venv")),
            seconds=VENV_SECONDS,
            keep_open=(held,),
        )
        return _failure(answer, "install", "no virtual environment could be made")

    def _install_from_index(self, lock: Lock, folder: Path, held: int) -> BuildFailed | None:
        hashed = [entry for entry in lock.entries if entry.hashes]
        if not hashed:
            return None
        answer = self._install(("sync", "--require-hashes", "-"), lock, hashed, folder, held)
        return _failure(answer, "install", "the lock could not be installed")

    def _install_projects(self, lock: Lock, folder: Path, held: int) -> BuildFailed | None:
        """Install what can have no hashes: local projects and version control."""
        unhashed = [entry for entry in lock.entries if not entry.hashes]
        if not unhashed:
            return None
        changed = _changed_projects(unhashed)
        if changed:
            return BuildFailed(f"{', '.join(changed)} changed after the pins were resolved; start again", "", "install")
        # Without the refresh uv would take a wheel that it built from an earlier state of the project.
        fresh = [word for entry in unhashed if entry.content for word in ("--refresh-package", entry.name)]
        answer = self._install(("install", "--no-deps", *fresh, "-r", "-"), lock, unhashed, folder, held)
        return _failure(
            answer, "install", f"{', '.join(entry.name for entry in unhashed)} could not be built and installed"
        )

    def _install(
        self, what: Sequence[str], lock: Lock, entries: Sequence[LockedPackage], folder: Path, held: int
    ) -> Answer:
        return self._uv.call(
            *("pip", *what, "--python", str(folder / "venv/bin/python")),
            seconds=INSTALL_SECONDS,
            folder=lock.root,
            stdin="\n".join((*lock.options, *(entry.text for entry in entries))) + "\n",
            keep_open=(held,),
        )

    def _install_tools(self, lock: Lock, folder: Path, held: int) -> BuildFailed | None:
        """The tools that the checks need, as far as the lock lacks them, into a folder beside the environment."""
        (folder / "tools").mkdir()
        needed = resolve_tools(self._tool_requirements, lock, self._uv)
        if isinstance(needed, Irreconcilable):
            return BuildFailed(needed.explanation, needed.log, "tools")
        if not needed.lines:
            return None
        answer = self._uv.call(
            *("pip", "install", "--no-deps", "--require-hashes", "-r", "-"),
            *("--target", str(folder / "tools"), "--python", str(folder / "venv/bin/python")),
            seconds=INSTALL_SECONDS,
            folder=lock.root,
            stdin="\n".join((*lock.options, *needed.lines)) + "\n",
            keep_open=(held,),
        )
        return _failure(answer, "tools", "the tools of the checks could not be installed")

    def _marker(self, folder: Path, lock: Lock) -> _Marker:
        """What a finished build of `lock` in `folder` says of itself."""
        versions = {package.name: package.version for package in installed_packages(_site_packages(folder))}
        return _Marker(
            lock_hash=lock.hash,
            python=lock.python,
            wanted_tools=self._wanted_tools(),
            tools={package.name: package.version for package in installed_packages(folder / "tools")},
            unversioned={
                entry.name: versions[entry.name]
                for entry in lock.entries
                if entry.version is None and entry.name in versions
            },
        )

    def _differences(self, folder: Path, lock: Lock, marker: _Marker) -> list[str]:
        expected = {entry.name: entry.version or marker.unversioned.get(entry.name) for entry in lock.entries}
        return [
            *differences(expected, installed_packages(_site_packages(folder)), "the lock"),
            *differences(dict(marker.tools), installed_packages(folder / "tools"), "its record of tools"),
        ]

    def _built(self, folder: Path, lock: Lock, marker: _Marker, *, cached: bool, started: float) -> Built:
        return Built(
            lock_hash=lock.hash,
            directory=folder,
            python=folder / "venv/bin/python",
            tools=folder / "tools",
            tool_versions=tuple(Package(name, version) for name, version in sorted(marker.tools.items())),
            cached=cached,
            seconds=time.monotonic() - started,
            verified=len(lock.entries),
        )

    def _wanted_tools(self) -> str:
        return hashlib.sha256(self._tool_requirements.read_bytes()).hexdigest()

    def _remove(self, folder: Path) -> bool:
        with filelock.exclusive(self._locks / f"{folder.name}.lock", 0.0) as held:
            if held is not None:
                self._discard(folder)
            return held is not None

    def _discard(self, folder: Path) -> None:
        """Move `folder` out of the way in one step, then delete it: it is never seen half deleted."""
        if not folder.exists():
            return
        trash = self.directory / f"{_TRASH}{uuid4().hex}"
        try:
            folder.rename(trash)
            shutil.rmtree(trash)
        except OSError as error:
            msg = f"the environment {folder} cannot be removed: {error}"
            raise UsageError(msg) from error

    def _empty_trash(self) -> None:
        """Delete what an earlier, killed removal left."""
        for trash in self.directory.glob(f"{_TRASH}*"):
            # Another process may be deleting the same folder at this moment; either way it ends up gone.
            shutil.rmtree(trash, ignore_errors=True)


def _waiting(lock: Lock) -> str:
    return f"waiting for another process that builds or uses the environment {_short(lock.hash)}"


def _short(lock_hash: str) -> str:
    return lock_hash.removeprefix("sha256:")[:16]


def _python(folder: Path) -> Path | None:
    """The environment's interpreter; None when the Python that it links to was uninstalled."""
    path = folder / "venv/bin/python"
    return path if path.exists() else None


def _site_packages(folder: Path) -> Path:
    found = sorted((folder / "venv/lib").glob("python3*/site-packages"))
    return found[0] if found else folder / "venv/lib/no-site-packages"


def _changed_projects(entries: Sequence[LockedPackage]) -> list[str]:
    return [
        str(entry.folder)
        for entry in entries
        if entry.folder and (not entry.folder.is_dir() or content_digest(entry.folder) != entry.content)
    ]


def _failure(answer: Answer, stage: Stage, sentence: str) -> BuildFailed | None:
    if answer.succeeded:
        return None
    if answer.code is None:
        return BuildFailed(f"{sentence} within {answer.seconds:.0f} s", answer.stderr, "time limit")
    return BuildFailed(f"{sentence}: {answer.stderr.strip()}", answer.stderr, stage)


def _read_marker(folder: Path) -> _Marker | None:
    """What the finished build said of itself; None when it was never finished, or by a program unlike this one."""
    try:
        content: dict[str, Any] = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        if content.pop("schema") != _MARKER_SCHEMA:
            return None
        return _Marker(**content)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # no marker, or not one of ours: a ruin, built again
        return None


def _write_marker(folder: Path, marker: _Marker) -> None:
    """Say, last and in one step, that the environment is complete."""
    text = json.dumps({"schema": _MARKER_SCHEMA, **vars(marker)}, indent=1)
    unfinished = folder / f"{_MARKER}.unfinished"
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / _MARKER)


def _describe(folder: Path) -> CachedEnvironment | None:
    """What lies in `folder`; None when another process removed it while we looked."""
    try:
        return _description(folder)
    except FileNotFoundError:
        return None


def _description(folder: Path) -> CachedEnvironment:
    marker = _read_marker(folder)
    of_note = [package for package in installed_packages(_site_packages(folder)) if package.name in _OF_NOTE]
    used = (folder / _MARKER if marker else folder).stat().st_mtime
    return CachedEnvironment(
        lock_hash=marker.lock_hash if marker else f"sha256:{folder.name}",
        directory=folder,
        packages=tuple(of_note),
        python=marker.python if marker else "",
        bytes=_size(folder),
        last_used=datetime.fromtimestamp(used, UTC),
        complete=marker is not None,
    )


def _size(folder: Path) -> int:
    """Bytes of all files; those that uv links from its own cache count too."""
    return sum(entry.stat(follow_symlinks=False).st_size for entry in _walk(folder))


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                yield entry
