"""Local Python projects: what they call themselves, and a digest of their content."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from watchdog.errors import UsageError

# What building or testing leaves behind; hidden folders (version control, caches) are left out as well.
_LEFT_BEHIND = {"__pycache__", "node_modules"}
_BUILD_FOLDERS = {"build", "dist"}  # only at the top: deeper, a package may have that name


@dataclass(frozen=True)
class Declared:
    """What a project's pyproject.toml says of it; None where it is computed by its build."""

    name: str | None
    version: str | None


def declared(folder: Path) -> Declared:
    """What the project in `folder` declares.

    Raises UsageError when its pyproject.toml cannot be read.
    """
    file = folder / "pyproject.toml"
    if not file.is_file():
        return Declared(None, None)
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read: {error}"
        raise UsageError(msg) from error
    return Declared(project.get("name"), project.get("version"))


def content_digest(folder: Path) -> str:
    """A digest of every file of the project in `folder`: names and content, not times.

    Raises UsageError when a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for path in _files(folder):
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            digest.update(os.fsencode(path.relative_to(folder)) + b"\0" + hashlib.sha256(content).digest())
    except OSError as error:
        msg = f"the local project {folder} cannot be read: {error}"
        raise UsageError(msg) from error
    return f"sha256:{digest.hexdigest()}"


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        here = Path(place)
        linked = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in linked and _counts(here / name, top=folder))
        for name in sorted([*files, *linked]):
            path = here / name
            if path.suffix != ".pyc" and (path.is_file() or path.is_symlink()):
                yield path


def _counts(path: Path, *, top: Path) -> bool:
    name = path.name
    if name.startswith(".") or name in _LEFT_BEHIND or name.endswith(".egg-info"):
        return False
    if name in _BUILD_FOLDERS and path.parent == top:
        return False
    return not (path / "pyvenv.cfg").exists()
