"""Which Pythons are installed here: the program's own, pyenv's, uv's and those on PATH."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from watchdog.errors import UsageError
from watchdog.uv import Uv

_VERSION = re.compile(r"3(\.\d+){0,2}")
_EXECUTABLE = re.compile(r"python3\.\d+")
_QUESTION = "import json, sys; print(json.dumps([list(sys.version_info[:3]), sys.implementation.name]))"
_QUESTION_SECONDS = 20.0
_DOWNLOAD_SECONDS = 600.0


@dataclass(frozen=True)
class Interpreter:
    """A Python that was started and answered."""

    path: Path
    version: tuple[int, int, int]

    @property
    def full_version(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def minor_version(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


def find(wanted: str | None, uv: Uv) -> Interpreter | None:
    """The interpreter for `wanted`: a version ("3.12", "3.12.1"), a path, or None for the program's own.

    Of several, the program's own comes first, then the newest. When none is here and the user lets uv download
    Pythons, uv is asked to. Raises UsageError when `wanted` is neither a version nor a path.
    """
    if wanted is None:
        return _ask(_own(), uv)
    if os.sep in wanted:
        return _ask(Path(wanted).expanduser(), uv)
    if not _VERSION.fullmatch(wanted):
        msg = f'python = "{wanted}" is neither a version nor a path; write it as "3.12" or "/path/to/python"'
        raise UsageError(msg)
    return _installed_with(wanted, uv) or _downloaded(wanted, uv)


def installed(uv: Uv) -> tuple[Interpreter, ...]:
    """Every interpreter found, newest first, one for each version."""
    answers = [interpreter for path in _candidates(uv, "python3.") if (interpreter := _ask(path, uv))]
    by_version: dict[tuple[int, int, int], Interpreter] = {}
    for interpreter in answers:
        by_version.setdefault(interpreter.version, interpreter)
    return tuple(by_version[version] for version in sorted(by_version, reverse=True))


def _installed_with(wanted: str, uv: Uv) -> Interpreter | None:
    parts = tuple(map(int, wanted.split(".")))
    prefix = "python" + ".".join(wanted.split(".")[:2])
    own = _ask(_own(), uv)
    if own and own.version[: len(parts)] == parts:
        return own
    found = [interpreter for path in _candidates(uv, prefix) if (interpreter := _ask(path, uv))]
    matching = [interpreter for interpreter in found if interpreter.version[: len(parts)] == parts]
    return max(matching, key=lambda interpreter: interpreter.version, default=None)


def _downloaded(wanted: str, uv: Uv) -> Interpreter | None:
    if not uv.downloads_python or not uv.call("python", "install", wanted, seconds=_DOWNLOAD_SECONDS).succeeded:
        return None
    answer = uv.call("python", "find", "--managed-python", "--no-project", wanted, seconds=_QUESTION_SECONDS)
    return _ask(Path(answer.stdout.strip()), uv) if answer.succeeded else None


def _own() -> Path:
    # In a virtual environment this is the interpreter that it was made from, which outlives it.
    return Path(getattr(sys, "_base_executable", sys.executable))


def _candidates(uv: Uv, prefix: str) -> list[Path]:
    """Executables whose name starts with `prefix`, without those that are the same file."""
    named = [
        path
        for folder in _folders(uv)
        for path in sorted(folder.glob(f"{prefix}*"))
        if _EXECUTABLE.fullmatch(path.name) and path.is_file()
    ]
    if _own().name.startswith(prefix) or prefix == "python3.":
        named.insert(0, _own())
    return list({path.resolve(): path for path in reversed(named)}.values())[::-1]


def _folders(uv: Uv) -> Iterator[Path]:
    environment = uv.environment
    home = Path(environment.get("HOME", "~")).expanduser()
    pyenv = Path(environment.get("PYENV_ROOT", home / ".pyenv"))
    data = Path(environment.get("XDG_DATA_HOME", home / ".local/share"))
    yield from sorted((pyenv / "versions").glob("*/bin"))
    yield from sorted(Path(environment.get("UV_PYTHON_INSTALL_DIR", data / "uv/python")).glob("*/bin"))
    # pyenv's shims are left out: they start whichever version the current folder names, or none.
    yield from (
        Path(folder) for folder in environment.get("PATH", "").split(os.pathsep) if folder and "shims" not in folder
    )


def _ask(path: Path, uv: Uv) -> Interpreter | None:
    """The interpreter at `path`; None when it does not start, or is no CPython 3."""
    try:
        answer = uv.run(
            [str(path), "-I", "-S", "-c", _QUESTION],
            environment=uv.environment,
            folder=Path.cwd(),
            stdin="",
            seconds=_QUESTION_SECONDS,
            keep_open=(),
        )
        version, implementation = json.loads(answer.stdout)
    except (OSError, ValueError):  # not there, not executable, or its answer is not ours: no interpreter to use
        return None
    major, minor, micro = version
    return Interpreter(path, (major, minor, micro)) if implementation == "cpython" and major == 3 else None  # noqa: PLR2004 - Python 3


def satisfies(interpreter: Interpreter, wanted: str) -> bool:
    """Whether `interpreter` lies in a range such as ">=3.12"."""
    return SpecifierSet(wanted).contains(interpreter.full_version)
