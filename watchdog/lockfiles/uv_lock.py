"""uv.lock, by uv's own export: the project's dependencies, without extras and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from watchdog.errors import UsageError
from watchdog.interpreters import Interpreter
from watchdog.lockfiles import requirements_text
from watchdog.lockfiles.lines import Line, malformed, read_toml, refuse_python, refuse_version
from watchdog.uv import Uv

EXPORT_SECONDS = 120.0
VERSIONS = ("1",)
_AGAIN = "write it again (uv lock)"


def read(path: Path, interpreter: Interpreter, environment: Mapping[str, str], uv: Uv) -> Iterator[Line]:
    """The packages whose markers hold. Raises UsageError when it cannot be read, or is for another Python."""
    document = read_toml(path)
    refuse_version(path, document.get("version"), VERSIONS, "uv lock")
    with malformed(path, _AGAIN):
        refuse_python(path, document.get("requires-python"), interpreter)
    answer = uv.call(
        *("export", "--frozen", "--no-emit-project", "--no-dev", "--format", "requirements-txt"),
        *("--no-header", "--no-annotate", "--python", str(interpreter.path)),
        seconds=EXPORT_SECONDS,
        folder=path.parent,
    )
    if not answer.succeeded:
        msg = f"{path} cannot be read by uv; is its pyproject.toml beside it? {answer.stderr.strip()}"
        raise UsageError(msg)
    for line in requirements_text.parse(answer.stdout, path, environment):
        yield requirements_text.refuse_unpinned(line, path)


def roots(path: Path) -> frozenset[str]:
    """What the project itself depends on. Raises UsageError when the lock cannot be read."""
    with malformed(path, _AGAIN):
        own = [
            package
            for package in read_toml(path).get("package", ())
            if package["source"].keys() & {"editable", "virtual", "directory"}
        ]
        return frozenset(canonicalize_name(one["name"]) for package in own for one in package.get("dependencies", ()))
