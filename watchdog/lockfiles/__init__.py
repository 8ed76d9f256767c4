"""Files that users already have, read into pins: requirements text, pylock.toml, uv.lock and poetry.lock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from watchdog.errors import UsageError
from watchdog.interpreters import Interpreter
from watchdog.lockfiles import poetry_lock, pylock, requirements_text, uv_lock
from watchdog.lockfiles.lines import Line, Pinned, read_text, refuse_missing_hashes
from watchdog.uv import Uv

__all__ = ["Pinned", "is_lock", "own_words", "read_lock_file", "read_requirements_file", "roots"]

_UV, _POETRY = "uv.lock", "poetry.lock"
_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")


def is_lock(path: Path) -> bool:
    """Whether a file pins everything: a lock by its name, or requirements text with hashes. Raises UsageError."""
    by_name = path.name in (_UV, _POETRY) or _PYLOCK.fullmatch(path.name) is not None
    return by_name or requirements_text.has_hashes(read_text(path))


def read_lock_file(path: Path, interpreter: Interpreter, uv: Uv) -> Pinned:
    """What the lock file at `path` pins for `interpreter`.

    Raises UsageError, naming file and line, when it is missing, unreadable, of an unknown version, for another Python or
    platform, does not pin, or has hashes for a part of its packages.
    """
    if not path.is_file():
        msg = f"the lock file {path} is not there; correct the path of 'lock'"
        raise UsageError(msg)
    lines = tuple(_lines(path, interpreter, uv))
    if all(line.is_option for line in lines):
        msg = (
            f"{path} pins nothing for Python {interpreter.full_version} on this platform; "
            "write it for this one, or name another Python with --python or as `python` of its pins"
        )
        raise UsageError(msg)
    refuse_missing_hashes(lines, path)
    return Pinned.of(lines)


def read_requirements_file(path: Path, interpreter: Interpreter) -> Pinned:
    """What requirements text asks for, without pinning it all; -r, -c and options are followed.

    Raises UsageError, naming file and line, when it cannot be read or names no package.
    """
    lines = tuple(requirements_text.parse(read_text(path), path, _marker_environment(interpreter)))
    if all(line.is_option for line in lines):
        msg = f"{path} names no package for Python {interpreter.full_version} on this platform"
        raise UsageError(msg)
    return Pinned.of(lines)


def roots(path: Path) -> frozenset[str] | None:
    """The packages that the lock's project itself asks for; None where no file tells. Raises UsageError."""
    if path.name == _UV:
        return uv_lock.roots(path)
    if path.name == _POETRY or _PYLOCK.fullmatch(path.name):
        return poetry_lock.roots(path)
    return requirements_text.annotated_roots(read_text(path))


def own_words(path: Path) -> tuple[str, ...]:
    """The requirements that a requirements file names, whatever their markers say. Raises UsageError."""
    return tuple(
        line.text for line in requirements_text.parse(read_text(path), path, {"extra": ""}) if not line.is_option
    )


def _lines(path: Path, interpreter: Interpreter, uv: Uv) -> Iterable[Line]:
    environment = _marker_environment(interpreter)
    if path.name == _UV:
        return uv_lock.read(path, interpreter, environment, uv)
    if path.name == _POETRY:
        return poetry_lock.read(path, interpreter, environment)
    if _PYLOCK.fullmatch(path.name):
        return pylock.read(path, interpreter, environment)
    return _pinned_lines(path, environment)


def _pinned_lines(path: Path, environment: dict[str, str]) -> Iterator[Line]:
    for line in requirements_text.parse(read_text(path), path, environment):
        yield requirements_text.refuse_unpinned(line, path)


def _marker_environment(interpreter: Interpreter) -> dict[str, str]:
    """What differs between Pythons of this machine; the rest of a marker's environment is the same for all."""
    return {
        "python_version": interpreter.minor_version,
        "python_full_version": interpreter.full_version,
        "implementation_version": interpreter.full_version,
        "extra": "",
    }
