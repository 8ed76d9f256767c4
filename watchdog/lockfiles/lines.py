"""What every format of lock file is read into: lines, each a package, a local project or an option."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from watchdog.errors import ConfigError, UsageError
from watchdog.interpreters import Interpreter


@dataclass(frozen=True)
class Line:
    """One line, as uv reads it in requirements text."""

    text: str  # "name==version", "name @ url", an absolute path, or an option such as --index-url
    name: str | None = None  # None for a local project that hides its own, and for an option
    hashes: tuple[str, ...] = ()
    is_option: bool = False
    number: int | None = None  # where it begins in its file

    @property
    def is_of_index(self) -> bool:
        """Whether an index holds its files."""
        return self.name is not None and " @ " not in self.text and "==" in self.text


@dataclass(frozen=True)
class Pinned:
    """What a file asks for, for the Python it was read for."""

    requirements: tuple[str, ...]  # "name==version", "name @ url", or the absolute path of a local project
    hashes: Mapping[str, tuple[str, ...]]  # by package, where the file has them
    options: tuple[str, ...]  # lines such as --index-url
    names: frozenset[str]  # empty when a local project hides its own

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Pinned:
        kept = tuple(lines)
        names = [line.name for line in kept if not line.is_option]
        return cls(
            tuple(line.text for line in kept if not line.is_option),
            {line.name: line.hashes for line in kept if line.name and line.hashes},
            tuple(line.text for line in kept if line.is_option),
            frozenset() if None in names else frozenset(name for name in names if name),
        )


def refuse_missing_hashes(lines: Iterable[Line], path: Path) -> None:
    """Raises ConfigError for the first package without a hash in a file that has hashes for others, as pip does."""
    packages = [line for line in lines if line.is_of_index]
    bare = next((line for line in packages if not line.hashes), None)
    if bare is not None and any(line.hashes for line in packages):
        problem = f"{bare.text} has no hash, though others have; write the file again with hashes for all"
        raise ConfigError(problem, path=path, line=bare.number)


def refuse_python(path: Path, wanted: str | None, interpreter: Interpreter) -> None:
    """Raises UsageError when a lock is for other Pythons. `wanted`: as in requires-python; None: any."""
    try:
        suits = wanted is None or SpecifierSet(wanted).contains(interpreter.full_version, prereleases=True)
    except InvalidSpecifier:
        return  # said in words that only its own tool knows; that tool's markers tell the rest
    if not suits:
        msg = (
            f"{path} is a lock for Python {wanted}, and Python {interpreter.full_version} is used; "
            "name another one with --python, or as `python` of its pins"
        )
        raise UsageError(msg)


def refuse_version(path: Path, version: object, known: Collection[str], tool: str) -> None:
    """Raises UsageError for a lock of a version that is not known."""
    if str(version) not in known:
        said = "no version" if version is None else f"version {version}"
        msg = (
            f"{path} is a lock of {said}, and what is read is version {' or '.join(known)}; write it again with {tool}"
        )
        raise UsageError(msg)


def read_text(path: Path) -> str:
    """The text of a file. Raises UsageError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise UsageError(msg) from error


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. Raises UsageError when it cannot be read."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        msg = f"{path} is no TOML: {error}"
        raise UsageError(msg) from error


@contextmanager
def malformed(path: Path, remedy: str) -> Iterator[None]:
    """Inside, what a lock lacks or has of the wrong kind is a UsageError."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # packaging's errors are ValueErrors
        msg = f"{path} does not follow its format: {error!r} is missing or malformed; {remedy}"
        raise UsageError(msg) from error
