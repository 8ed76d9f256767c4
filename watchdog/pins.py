"""Pins to a lock: what was asked for becomes exact versions with hashes, or uv's explanation why it cannot.

A lock is requirements text. Packages of an index carry the hashes of their files; a local project cannot, so its line
carries a digest of its content instead, and the lock changes when the project does.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from watchdog import interpreters
from watchdog.errors import UsageError
from watchdog.interpreters import Interpreter
from watchdog.lockfiles import Pinned, read_lock_file, read_requirements_file
from watchdog.model import Package
from watchdog.projects import content_digest, declared
from watchdog.uv import Answer, Uv

RESOLVE_SECONDS = 300.0

Reason = Literal["conflict", "python", "index", "time limit", "unreadable"]

_LOCAL_REMARK = re.compile(r"# version=(?P<version>\S+) content=(?P<content>\S+)")
_UNREACHABLE = re.compile(
    r"failed to fetch|error sending request|dns error|connection refused|client error|server error|offline",
    re.IGNORECASE,
)
_RANGE = r"(?P<range>[<>=!~][\d.,<>=!~*]*\d)"
# The ways in which uv says that a package wants another Python; with extras it does not repeat the package's name.
_NEEDS_PYTHON = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<who>\S+) depends on Python{_RANGE}",
        rf"(?P<who>\S+) requires Python {_RANGE}",
        rf"does not satisfy Python{_RANGE} and you require (?P<who>\S+?),? we can",
    )
)
_WARNING = re.compile(r"^warning: .*\n(?:^ .*\n|^\n)*", re.MULTILINE)


@dataclass(frozen=True)
class PinsRequest:
    """What a set of pins asks for. Relative paths in it start at `root`."""

    name: str
    requirements: tuple[str, ...]
    lock: Path | None
    python: str | None  # "3.12", a path, or None for the program's own Python
    root: Path
    constraints: tuple[str, ...] = ()  # "name==version": what must be so where it is needed
    options: tuple[str, ...] = field(default=(), repr=False)  # as a lock's: may hold credentials
    file: Path | None = None  # requirements text, whose lines are resolved with `requirements`

    @property
    def key(self) -> str:
        """A digest of what decides the resolution: requests with the same key share a lock."""
        lock = self.root / self.lock if self.lock else None
        parts = (
            *sorted(_located(requirement, self) for requirement in self.requirements),
            *(f"constraint {constraint}" for constraint in sorted(self.constraints)),
            f"lock {lock and lock.resolve()}",
            *([f"file {(self.root / self.file).resolve()}"] if self.file else ()),
            f"python {self.python}",
            f"root {self.root.resolve()}",  # its uv settings apply
            sysconfig.get_platform(),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class LockedPackage:
    """One line of a lock."""

    name: str
    version: str | None  # None where only the installation tells, as for a project that computes its version
    hashes: tuple[str, ...] = ()
    url: str | None = None  # of what comes from elsewhere than an index
    content: str | None = None  # digest of a local project's files

    @property
    def package(self) -> Package:
        """As a package; a local project's version names its content too, so that a change of it shows."""
        version = self.version or "0"
        if self.content is None:
            return Package(self.name, version)
        return Package(self.name, f"{version}{'.' if '+' in version else '+'}content.{self.content[-8:]}")

    @property
    def folder(self) -> Path | None:
        """Where a local project lies."""
        return Path(unquote(urlsplit(self.url).path)) if self.url and self.content else None

    @property
    def place(self) -> str:
        """What the line asks for, without hashes: a version, or where else it comes from."""
        return f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"

    @property
    def text(self) -> str:
        """The requirements line, as uv reads it."""
        if self.content:
            return f"{self.place} # version={self.version} content={self.content}"
        return " \\\n    ".join((self.place, *(f"--hash={value}" for value in self.hashes)))

    @property
    def identity(self) -> str:
        """What this line adds to the lock's hash: for a local project its content, not its place on this machine."""
        return f"{self.name} content={self.content}" if self.content else self.text


@dataclass(frozen=True)
class Lock:
    """Exact versions with hashes, and the Python they were resolved for."""

    text: str
    python: str  # full version, "3.11.7"
    interpreter: Path = field(compare=False)
    root: Path = field(compare=False)  # the folder whose uv settings (such as a private index) apply
    options: tuple[str, ...] = field(default=(), compare=False, repr=False)  # of the user's file: may hold credentials

    @cached_property
    def entries(self) -> tuple[LockedPackage, ...]:
        return tuple(_parse_line(line) for line in self.text.replace("\\\n", " ").splitlines() if line.strip())

    @property
    def packages(self) -> tuple[Package, ...]:
        return tuple(entry.package for entry in self.entries)

    @cached_property
    def hash(self) -> str:
        """The address of the environment: what is installed, for which Python, on which platform."""
        minor = ".".join(self.python.split(".")[:2])
        identities = (*(entry.identity for entry in self.entries), f"python {minor}", sysconfig.get_platform())
        return "sha256:" + hashlib.sha256("\n".join(identities).encode()).hexdigest()


@dataclass(frozen=True)
class Unresolvable:
    """Why there is no lock: an observation, not an error of the program."""

    explanation: str  # for people; what uv said, after a sentence of ours where we know more
    log: str  # everything that uv wrote to stderr, without credentials
    reason: Reason


def resolve(request: PinsRequest, uv: Uv) -> Lock | Unresolvable:
    """Resolve `request` for this machine with uv.

    Raises UsageError when what it names cannot be read: a malformed requirement, a missing folder or lock file, a
    lock file that does not pin.
    """
    interpreter = interpreters.find(request.python, uv)
    if interpreter is None:
        return _without_python(request, uv)
    wanted = [_located(requirement, request) for requirement in request.requirements]
    if request.file is not None:
        given = read_requirements_file(request.root / request.file, interpreter)
        return _compile(request, (*given.requirements, *wanted), interpreter, uv, options=given.options)
    if request.lock is None:
        return _compile(request, wanted, interpreter, uv, options=request.options)
    pinned = read_lock_file(request.root / request.lock, interpreter, uv)
    return _compile_pinned(request, pinned, wanted, interpreter, uv)


def read_lock(text: str, python: str, root: Path, uv: Uv) -> Lock | Unresolvable:
    """A lock that was stored as `text` for the full version `python`, usable here again."""
    minor = ".".join(python.split(".")[:2])
    interpreter = interpreters.find(minor, uv)
    if interpreter is None:
        return _without_python(PinsRequest("stored lock", (), None, minor, root), uv)
    return Lock(text, interpreter.full_version, interpreter.path, root)


def _compile_pinned(
    request: PinsRequest, pinned: Pinned, wanted: Sequence[str], interpreter: Interpreter, uv: Uv
) -> Lock | Unresolvable:
    """A lock that holds what the user's file pins and nothing else, but for `wanted` and what that needs."""
    complete = _compile(request, pinned.requirements, interpreter, uv, options=pinned.options, hashes=pinned.hashes)
    if isinstance(complete, Lock):
        _refuse_incomplete(request, pinned, complete)
    elif complete.reason == "conflict":
        # Its packages contradict each other, or pip was told not to mind: what the user runs is what we install.
        complete = _compile(
            request, pinned.requirements, interpreter, uv, "--no-deps", options=pinned.options, hashes=pinned.hashes
        )
    if not wanted or isinstance(complete, Unresolvable):
        return complete
    together = (*pinned.requirements, *wanted)
    return _compile(request, together, interpreter, uv, options=pinned.options, hashes=pinned.hashes)


def _refuse_incomplete(request: PinsRequest, pinned: Pinned, complete: Lock) -> None:
    missing = sorted({entry.name for entry in complete.entries} - pinned.names)
    if missing and pinned.names:
        msg = (
            f"{request.lock}: the lock file of pins {request.name!r} lacks {_listed(missing)}, which its packages need; "
            "write a complete one (uv pip compile), or give its lines as requirements"
        )
        raise UsageError(msg)


def _compile(
    request: PinsRequest,
    requirements: Iterable[str],
    interpreter: Interpreter,
    uv: Uv,
    *flags: str,
    options: tuple[str, ...] = (),
    hashes: Mapping[str, tuple[str, ...]] | None = None,
) -> Lock | Unresolvable:
    with _constraints(request) as constrained:
        answer = uv.call(
            *("pip", "compile", "-", "--format", "pylock.toml", "--generate-hashes", "--no-header", "--no-annotate"),
            *("--python", str(interpreter.path), *constrained, *flags),
            seconds=RESOLVE_SECONDS,
            folder=request.root,
            stdin="\n".join((*options, *requirements)) + "\n",
        )
    if not answer.succeeded:
        return _explain(request, answer, interpreter, uv)
    packages = tomllib.loads(answer.stdout).get("packages", ())
    entries = sorted(
        (_locked(package, request.root, hashes or {}) for package in packages), key=lambda entry: entry.name
    )
    text = "".join(f"{entry.text}\n" for entry in entries)
    return Lock(text, interpreter.full_version, interpreter.path, request.root, options)


@contextmanager
def _constraints(request: PinsRequest) -> Iterator[tuple[str, ...]]:
    """The constraints of a request as uv's option: it reads them from a file alone."""
    if not request.constraints:
        yield ()
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"{constraint}\n" for constraint in request.constraints)
        file.flush()
        yield "--constraints", file.name


def is_unreachable(said: str) -> bool:
    """Whether uv says that an index could not be read, and not that it lacks something."""
    return "No solution found" not in said and _UNREACHABLE.search(said) is not None


def _locked(package: Mapping[str, Any], root: Path, given: Mapping[str, tuple[str, ...]]) -> LockedPackage:
    """One package of uv's answer (pylock.toml, PEP 751) as a line of a lock."""
    name, version = canonicalize_name(package["name"]), package.get("version")
    if "directory" in package:
        folder = (root / package["directory"]["path"]).resolve()
        return LockedPackage(name, declared(folder).version, url=folder.as_uri(), content=content_digest(folder))
    if "vcs" in package:
        return LockedPackage(name, version, url=_vcs_url(package["vcs"]))
    if "archive" in package:
        archive = package["archive"]
        url = _without_user(archive["url"]) if "url" in archive else (root / archive["path"]).resolve().as_uri()
        return LockedPackage(name, version or _version_in(url), _hashes([archive]), url)
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    return LockedPackage(name, version, given.get(name) or _hashes(files))


def _hashes(files: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted({f"{kind}:{value}" for file in files for kind, value in file.get("hashes", {}).items()}))


def _vcs_url(vcs: Mapping[str, Any]) -> str:
    folder = f"#subdirectory={vcs['subdirectory']}" if "subdirectory" in vcs else ""
    return f"{vcs['type']}+{_without_user(vcs['url'])}@{vcs['commit-id']}{folder}"


def _version_in(url: str) -> str | None:
    try:
        return str(parse_wheel_filename(unquote(urlsplit(url).path).rsplit("/", 1)[-1])[1])
    except InvalidWheelFilename:  # a source archive: its version is known once it is built
        return None


def _without_user(url: str) -> str:
    """`url` without user and password: a lock is stored and shown; git's and netrc's own means supply them."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _parse_line(line: str) -> LockedPackage:
    words = line.split()
    hashes = tuple(word.removeprefix("--hash=") for word in words if word.startswith("--hash="))
    if "==" in words[0]:
        name, version = words[0].split("==")
        return LockedPackage(name, version, hashes)
    name, url = words[0], words[2]
    local = _LOCAL_REMARK.search(line)
    if local is None:
        return LockedPackage(name, _version_in(url), hashes, url)
    return LockedPackage(name, _none_or(local["version"]), url=url, content=local["content"])


def _none_or(text: str) -> str | None:
    return None if text == "None" else text


def _located(requirement: str, request: PinsRequest) -> str:
    """`requirement` as uv can read it from anywhere: paths are absolute, and local projects are built, not linked."""
    text = re.sub(r"^(-e|--editable)[\s=]+", "", requirement.strip())
    if not _is_path(text):
        return _checked(text, request)
    path, bracket, extras = text.partition("[")
    place = (request.root / Path(path).expanduser()).resolve()
    if not place.exists():
        msg = f"pins {request.name!r}: the requirement {requirement!r} names {place}, which is not there; correct the path"
        raise UsageError(msg)
    if place.is_dir() and not any((place / name).is_file() for name in ("pyproject.toml", "setup.py")):
        msg = f"pins {request.name!r}: {place} is no Python project: it has neither pyproject.toml nor setup.py"
        raise UsageError(msg)
    return f"{place}{bracket}{extras}"


def _is_path(text: str) -> bool:
    return text.startswith((".", "/", "~")) or (os.sep in text and "@" not in text and "://" not in text)


def _checked(text: str, request: PinsRequest) -> str:
    if re.match(r"[a-z]+(\+[a-z]+)?://", text):
        return text
    try:
        Requirement(text)
    except InvalidRequirement as error:
        msg = (
            f"pins {request.name!r}: the requirement {text!r} cannot be read ({str(error).splitlines()[0]}); "
            'write it as "name==1.2", "name @ https://…" or "./folder"'
        )
        raise UsageError(msg) from error
    return text


def _without_python(request: PinsRequest, uv: Uv) -> Unresolvable:
    found = ", ".join(interpreter.full_version for interpreter in interpreters.installed(uv)) or "none"
    explanation = (
        f"pins {request.name!r} need Python {request.python}, and no such interpreter was found (found: {found}); "
        f"install it, or set UV_PYTHON_DOWNLOADS=automatic to let uv fetch it"
    )
    return Unresolvable(explanation, "", "python")


def _explain(request: PinsRequest, answer: Answer, interpreter: Interpreter, uv: Uv) -> Unresolvable:
    if answer.code is None:
        explanation = f"pins {request.name!r}: uv did not finish resolving within {RESOLVE_SECONDS:.0f} s; is the index reachable?"
        return Unresolvable(explanation, answer.stderr, "time limit")
    said = _WARNING.sub("", answer.stderr).strip()
    if is_unreachable(said):
        return Unresolvable(f"the package index could not be read: {said}", answer.stderr, "index")
    needs = next(filter(None, (pattern.search(said) for pattern in _NEEDS_PYTHON)), None)
    if needs:
        sentence = _other_python(needs["who"], needs["range"], interpreter, uv)
        return Unresolvable(f"{sentence}\n{said}", answer.stderr, "python")
    return Unresolvable(said, answer.stderr, "conflict")


def _other_python(who: str, wanted: str, interpreter: Interpreter, uv: Uv) -> str:
    """Which Python would do, and whether one is here."""
    installed = interpreters.installed(uv)
    suitable = [other for other in reversed(installed) if interpreters.satisfies(other, wanted)]
    here = f"{who} needs Python {wanted}, and these pins use Python {interpreter.full_version}"
    if suitable:
        return f'{here}; Python {suitable[0].full_version} is installed: set python = "{suitable[0].minor_version}" in them.'
    found = ", ".join(other.full_version for other in installed)
    return f"{here}; no suitable one is installed (found: {found}): install one, then set python in them."


def _listed(names: Sequence[str]) -> str:
    shown = 5
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
