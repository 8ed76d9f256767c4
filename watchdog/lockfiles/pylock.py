"""pylock.toml (PEP 751), with its default groups and no extras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from watchdog.errors import UsageError
from watchdog.interpreters import Interpreter
from watchdog.lockfiles.lines import Line, malformed, read_toml, refuse_python, refuse_version

VERSIONS = ("1.0",)


def read(path: Path, interpreter: Interpreter, environment: Mapping[str, str]) -> Iterator[Line]:
    """The packages whose markers hold. Raises UsageError when it cannot be read, or is for something else."""
    document = read_toml(path)
    refuse_version(path, document.get("lock-version"), VERSIONS, "uv export")
    with malformed(path, "write it again (uv export)"):
        refuse_python(path, document.get("requires-python"), interpreter)
        groups = set(document.get("default-groups", ()))
        environments = document.get("environments", ())
        if environments and not any(_holds(one, environment, groups) for one in environments):
            msg = f"{path} is a lock for other machines: {'; '.join(map(str, environments))}"
            raise UsageError(msg)
        for package in document["packages"]:
            if _holds(package.get("marker"), environment, groups):
                yield _line(package, path.parent)


def _holds(marker: str | None, environment: Mapping[str, str], groups: set[str]) -> bool:
    if marker is None:
        return True
    return Marker(marker).evaluate({**environment, "extras": set(), "dependency_groups": groups}, context="lock_file")


def _line(package: Mapping[str, Any], folder: Path) -> Line:
    name = canonicalize_name(package["name"])
    if "directory" in package:
        return Line(str((folder / package["directory"]["path"]).resolve()), name)
    if "vcs" in package:
        vcs = package["vcs"]
        return Line(f"{name} @ {vcs['type']}+{vcs['url']}@{vcs['commit-id']}", name)
    if "archive" in package:
        archive = package["archive"]
        place = archive["url"] if "url" in archive else (folder / archive["path"]).resolve().as_uri()
        return Line(f"{name} @ {place}", name)
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    hashes = sorted({f"{kind}:{value}" for file in files for kind, value in file["hashes"].items()})
    return Line(f"{name}=={package['version']}", name, tuple(hashes))
