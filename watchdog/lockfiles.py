"""Lock files that users already have: requirements.txt, pylock.toml and uv.lock, read into exact pins."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from watchdog.errors import ConfigError, UsageError
from watchdog.interpreters import Interpreter
from watchdog.uv import Uv

EXPORT_SECONDS = 120.0

_NESTED = re.compile(r"(?:-r|--requirement)[\s=]*(?P<path>\S.*)")
_EDITABLE = re.compile(r"(?:-e|--editable)[\s=]+(?P<path>\S.*)")
_HASH = re.compile(r"\s--hash[=\s](?P<value>\S+)")
_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")


@dataclass(frozen=True)
class Pinned:
    """What a lock file pins, for the Python it was read for."""

    requirements: tuple[str, ...]  # "name==version", "name @ url", or the absolute path of a local project
    hashes: Mapping[str, tuple[str, ...]]  # by package, where the file has them
    options: tuple[str, ...]  # lines such as --index-url
    names: frozenset[str]  # empty when a local project hides its own

    @classmethod
    def of(cls, lines: Iterable[_Line]) -> Pinned:
        kept = tuple(lines)
        names = [line.name for line in kept if not line.is_option]
        return cls(
            tuple(line.text for line in kept if not line.is_option),
            {line.name: line.hashes for line in kept if line.name and line.hashes},
            tuple(line.text for line in kept if line.is_option),
            frozenset() if None in names else frozenset(name for name in names if name),
        )


@dataclass(frozen=True)
class _Line:
    text: str
    name: str | None = None  # None for a local project or an option
    hashes: tuple[str, ...] = ()
    is_option: bool = False


def read_lock_file(path: Path, interpreter: Interpreter, uv: Uv) -> Pinned:
    """What the lock file at `path` pins for `interpreter`.

    Raises UsageError, naming file and line, when it is missing, unreadable or does not pin.
    """
    if not path.is_file():
        msg = f"the lock file {path} is not there; correct the path of 'lock'"
        raise UsageError(msg)
    environment = _marker_environment(interpreter)
    if path.name == "uv.lock":
        return Pinned.of(_parse(_exported(path, interpreter, uv), path, environment))
    if _PYLOCK.fullmatch(path.name):
        return Pinned.of(_pylock_lines(path, environment))
    return Pinned.of(_parse(_text(path), path, environment))


def _exported(path: Path, interpreter: Interpreter, uv: Uv) -> str:
    answer = uv.call(
        *("export", "--frozen", "--no-emit-project", "--no-dev", "--format", "requirements-txt"),
        *("--no-header", "--no-annotate", "--python", str(interpreter.path)),
        seconds=EXPORT_SECONDS,
        folder=path.parent,
    )
    if not answer.succeeded:
        msg = f"{path} cannot be read by uv; is its pyproject.toml beside it? {answer.stderr.strip()}"
        raise UsageError(msg)
    return answer.stdout


def _parse(text: str, path: Path, environment: dict[str, str]) -> Iterator[_Line]:
    """The lines of requirements text whose markers hold; files that it names with -r are read too."""
    for number, line in _logical_lines(text):
        nested, editable = _NESTED.fullmatch(line), _EDITABLE.fullmatch(line)
        if nested:
            other = path.parent / nested["path"].strip()
            yield from _parse(_text(other), other, environment)
        elif editable or line.startswith((".", "/")):
            yield _local(editable["path"] if editable else line, path, number)
        elif line.startswith("-"):
            yield _Line(line, is_option=True)
        else:
            yield from _package(line, path, number, environment)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its number, joined where a backslash continues it, without comments."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if joined else number
        joined += re.sub(r"(^|\s)#.*$", "", line)
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        if joined.strip():
            yield first, joined.strip()
        joined = ""
    if joined.strip():
        yield first, joined.strip()


def _local(text: str, path: Path, number: int) -> _Line:
    place = Path(os.path.normpath(path.parent.resolve() / text.partition(" ;")[0].strip()))
    if not place.exists():
        problem = f"the local project {place} is not there; correct the path"
        raise ConfigError(problem, path=path, line=number)
    return _Line(str(place))


def _package(line: str, path: Path, number: int, environment: dict[str, str]) -> Iterator[_Line]:
    hashes = tuple(sorted(match["value"] for match in _HASH.finditer(line)))
    try:
        requirement = Requirement(_HASH.sub("", line))
    except InvalidRequirement as error:
        problem = f"{line!r} cannot be read as a requirement ({str(error).splitlines()[0]})"
        raise ConfigError(problem, path=path, line=number) from error
    if requirement.marker and not requirement.marker.evaluate(environment):
        return
    if not (requirement.url or _is_exact(requirement)):
        problem = f"{requirement} is not pinned: a lock file gives every version with '==' (uv pip compile writes one)"
        raise ConfigError(problem, path=path, line=number)
    requirement.marker = None
    yield _Line(str(requirement), canonicalize_name(requirement.name), hashes)


def _is_exact(requirement: Requirement) -> bool:
    specifiers = list(requirement.specifier)
    return len(specifiers) == 1 and specifiers[0].operator in ("==", "===") and "*" not in specifiers[0].version


def _pylock_lines(path: Path, environment: dict[str, str]) -> Iterator[_Line]:
    """The packages of a pylock.toml (PEP 751) whose markers hold, with its default groups and no extras."""
    try:
        document = tomllib.loads(_text(path))
        groups = set(document.get("default-groups", ()))
        for package in document["packages"]:
            if _holds(package.get("marker"), environment, groups):
                yield _pylock_line(package, path.parent)
    except tomllib.TOMLDecodeError as error:
        msg = f"{path} is no TOML: {error}"
        raise UsageError(msg) from error
    except (KeyError, TypeError, AttributeError, InvalidMarker) as error:
        msg = f"{path} does not follow the pylock format: {error!r} is missing or malformed; write it again (uv export)"
        raise UsageError(msg) from error


def _holds(marker: str | None, environment: dict[str, str], groups: set[str]) -> bool:
    if marker is None:
        return True
    return Marker(marker).evaluate({**environment, "extras": set(), "dependency_groups": groups}, context="lock_file")


def _pylock_line(package: Mapping[str, Any], folder: Path) -> _Line:
    name = canonicalize_name(package["name"])
    if "directory" in package:
        return _Line(str((folder / package["directory"]["path"]).resolve()), name)
    if "vcs" in package:
        vcs = package["vcs"]
        return _Line(f"{name} @ {vcs['type']}+{vcs['url']}@{vcs['commit-id']}", name)
    if "archive" in package:
        archive = package["archive"]
        place = archive["url"] if "url" in archive else (folder / archive["path"]).resolve().as_uri()
        return _Line(f"{name} @ {place}", name)
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    hashes = sorted({f"{kind}:{value}" for file in files for kind, value in file["hashes"].items()})
    return _Line(f"{name}=={package['version']}", name, tuple(hashes))


def _marker_environment(interpreter: Interpreter) -> dict[str, str]:
    """What differs between Pythons of this machine; the rest of a marker's environment is the same for all."""
    return {
        "python_version": interpreter.minor_version,
        "python_full_version": interpreter.full_version,
        "implementation_version": interpreter.full_version,
        "extra": "",
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the lock file {path} cannot be read: {error}"
        raise UsageError(msg) from error
