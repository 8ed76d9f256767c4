"""poetry.lock: the main group, without extras.

Since version 2.1 a package says by itself for which groups and environments it is. Before, the requirements have to be
followed from the project's own, which only the pyproject.toml beside the lock tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from watchdog.interpreters import Interpreter
from watchdog.lockfiles.lines import Line, malformed, read_toml, refuse_python, refuse_version

VERSIONS = ("1.1", "2.0", "2.1")
_MAIN = "main"
_AGAIN = "write it again (poetry lock)"

Package = Mapping[str, Any]


def read(path: Path, interpreter: Interpreter, environment: Mapping[str, str]) -> Iterator[Line]:
    """The packages that are needed here. Raises UsageError when it cannot be read, or is for another Python."""
    document = read_toml(path)
    with malformed(path, _AGAIN):
        metadata = document.get("metadata", {})
        refuse_version(path, metadata.get("lock-version"), VERSIONS, "poetry lock")
        refuse_python(path, _specifiers(metadata.get("python-versions", "*")), interpreter)
        packages = document.get("package", [])
        if metadata["lock-version"] == VERSIONS[-1]:
            needed = [one for one in packages if _is_for(one, environment)]
        else:
            needed = _followed(packages, roots(path), environment)
        files = metadata.get("files", {})
        indexes = dict.fromkeys(filter(None, map(_index, needed)))
        yield from (Line(f"--extra-index-url {index}", is_option=True) for index in indexes)
        yield from (_line(one, one.get("files", files.get(one["name"], ())), path.parent) for one in needed)


def roots(path: Path) -> frozenset[str] | None:
    """What the project itself depends on, from the pyproject.toml beside the lock; None where there is none."""
    beside = path.with_name("pyproject.toml")
    if not beside.is_file():
        return None
    document = read_toml(beside)
    with malformed(beside, "correct it"):
        named = document.get("tool", {}).get("poetry", {}).get("dependencies", {})
        own = [name for name, told in named.items() if not (isinstance(told, dict) and told.get("optional"))]
        own += [Requirement(one).name for one in document.get("project", {}).get("dependencies", ())]
        return frozenset(canonicalize_name(name) for name in own) - {"python"}


def _is_for(package: Package, environment: Mapping[str, str]) -> bool:
    """Whether a package of version 2.1 is in the main group, here."""
    markers = package.get("markers")
    if isinstance(markers, dict):
        markers = markers.get(_MAIN)
    return _MAIN in package.get("groups", (_MAIN,)) and _holds(markers, environment)


def _followed(
    packages: Sequence[Package], named: frozenset[str] | None, environment: Mapping[str, str]
) -> list[Package]:
    """What is needed by the project, and by what that needs, where the markers hold."""
    needs: dict[str, set[str]] = {canonicalize_name(one["name"]): _needed(one, environment) for one in packages}
    if named is None:
        required = {canonicalize_name(name) for one in packages for name in one.get("dependencies", {})}
        main = [one for one in packages if one.get("category", _MAIN) == _MAIN and not one.get("optional")]
        named = frozenset(canonicalize_name(one["name"]) for one in main) - required
    found: set[str] = set()
    waiting = list(named)
    while waiting:
        name = waiting.pop()
        if name in needs and name not in found:
            found.add(name)
            waiting += needs[name]
    return [one for one in packages if canonicalize_name(one["name"]) in found]


def _needed(package: Package, environment: Mapping[str, str]) -> set[str]:
    """The packages that one needs here; those of its extras count, for they are locked only where they were asked for."""
    found: set[str] = set()
    for name, told in package.get("dependencies", {}).items():
        ways = told if isinstance(told, list) else [told]
        markers = [way.get("markers") if isinstance(way, dict) else None for way in ways]
        extras = ["", *package.get("extras", {})]
        if any(_holds(marker, {**environment, "extra": extra}) for marker in markers for extra in extras):
            found.add(canonicalize_name(name))
    return found


def _holds(marker: str | None, environment: Mapping[str, str]) -> bool:
    return not marker or Marker(marker).evaluate(dict(environment))


def _index(package: Package) -> str | None:
    source = package.get("source", {})
    return source["url"] if source.get("type") == "legacy" else None


def _line(package: Package, files: Sequence[Mapping[str, str]], folder: Path) -> Line:
    name, source = canonicalize_name(package["name"]), package.get("source", {})
    match source.get("type"):
        case "git":
            part = f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
            return Line(f"{name} @ git+{source['url']}@{source['resolved_reference']}{part}", name)
        case "directory":
            return Line(str((folder / source["url"]).resolve()), name)
        case "file":
            return Line(f"{name} @ {(folder / source['url']).resolve().as_uri()}", name)
        case "url":
            return Line(f"{name} @ {source['url']}", name)
    hashes = tuple(sorted({file["hash"] for file in files}))
    return Line(f"{name}=={package['version']}", name, hashes)


def _specifiers(text: str) -> str | None:
    """Poetry's words for versions of Python as those of everybody else; None for any."""
    if text.strip() == "*":
        return None
    return ",".join(_specifier(part.strip()) for part in text.split(","))


def _specifier(part: str) -> str:
    match = re.fullmatch(r"(?P<mark>[~^])(?P<major>\d+)(\.(?P<minor>\d+))?(\.\d+)?", part)
    if match is None:
        return part if re.match(r"[<>=!~]", part) or "||" in part else f"=={part}"
    version, major = part[1:], int(match["major"])
    if match["mark"] == "^" or match["minor"] is None:
        return f">={version},<{major + 1}"
    return f">={version},<{major}.{int(match['minor']) + 1}"
