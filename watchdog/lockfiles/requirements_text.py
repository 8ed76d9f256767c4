"""Requirements text: what pip reads, and what pip-compile, `uv pip compile` and `uv export` write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from watchdog.errors import ConfigError
from watchdog.lockfiles.lines import Line, read_text

_NESTED = re.compile(r"(?:-r|--requirement)[\s=]*(?P<path>\S.*)")
_CONSTRAINT = re.compile(r"(?:-c|--constraint)[\s=]*(?P<path>\S.*)")
_EDITABLE = re.compile(r"(?:-e|--editable)[\s=]+(?P<path>\S.*)")
_FOUND = re.compile(r"(?:-f|--find-links)[\s=]+(?P<path>[^:]+)")  # not of a URL
_HASH = re.compile(r"\s--hash[=\s](?P<value>\S+)")
_PIPS_ALONE = re.compile(r"--(require-hashes|trusted-host\b.*|use-pep517|use-feature\b.*)")  # nothing to uv
_ANNOTATED = re.compile(r"#\s*via\b(?P<via>.*)")
_ROOT = re.compile(r"(^|\s)-[rc]\s|\(?pyproject\.toml|\bsetup\.(py|cfg)|requirements.*\.in\b")


def parse(text: str, path: Path, environment: Mapping[str, str]) -> Iterator[Line]:
    """The lines whose markers hold; files that the text names with -r are read too.

    Raises ConfigError for a line that cannot be read, UsageError for a file that cannot.
    """
    yield from _parse(text, path, environment, (path.resolve(),))


def _parse(text: str, path: Path, environment: Mapping[str, str], above: tuple[Path, ...]) -> Iterator[Line]:
    for number, line in logical_lines(text):
        nested, editable = _NESTED.fullmatch(line), _EDITABLE.fullmatch(line)
        if nested:
            other = (path.parent / nested["path"].strip()).resolve()
            if other in above:
                problem = f"{line} reads a file that is being read already; take it out"
                raise ConfigError(problem, path=path, line=number)
            yield from _parse(read_text(other), other, environment, (*above, other))
        elif editable or line.startswith((".", "/")):
            yield _local(editable["path"] if editable else line, path, number)
        elif line.startswith("-"):
            yield from _option(line, path, number)
        else:
            yield from _package(line, path, number, environment)


def refuse_unpinned(line: Line, path: Path) -> Line:
    """The line itself. Raises ConfigError where it leaves the version open."""
    if not line.is_option and line.name is not None and " @ " not in line.text:
        requirement = Requirement(line.text)
        if not _is_exact(requirement):
            problem = (
                f"{requirement} is not pinned: a lock file gives every version with '==' (uv pip compile writes one)"
            )
            raise ConfigError(problem, path=path, line=line.number)
    return line


def has_hashes(text: str) -> bool:
    """Whether any line pins its files."""
    return any(_HASH.search(line) for _, line in logical_lines(text))


def annotated_roots(text: str) -> frozenset[str] | None:
    """The packages that the lock's own input names, by the remarks `# via …` that its tool wrote; None without them."""
    names: set[str] = set()
    current, annotated = "", False
    for line in text.splitlines():
        package = re.match(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(==|@)", line)
        if package:
            current = canonicalize_name(package["name"])
        remark = line.partition("#")[2].strip()
        annotated = annotated or _ANNOTATED.search(line) is not None
        if remark and current and _ROOT.search(remark):
            names.add(current)
    return frozenset(names) if annotated else None


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
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


def _option(line: str, path: Path, number: int) -> Iterator[Line]:
    """An option whose paths are absolute, so that it means the same in every folder."""
    if _PIPS_ALONE.fullmatch(line):
        return
    for pattern, option in ((_CONSTRAINT, "-c"), (_FOUND, "--find-links")):
        match = pattern.fullmatch(line)
        if match:
            place = (path.parent / match["path"].strip()).resolve()
            if not place.exists():
                problem = f"{line}: {place} is not there; correct the path"
                raise ConfigError(problem, path=path, line=number)
            yield Line(f"{option} {place}", is_option=True, number=number)
            return
    yield Line(line, is_option=True, number=number)


def _local(text: str, path: Path, number: int) -> Line:
    asked, bracket, extras = text.partition(" ;")[0].strip().partition("[")
    place = Path(os.path.normpath(path.parent.resolve() / asked))
    if not place.exists():
        problem = f"the local project {place} is not there; correct the path"
        raise ConfigError(problem, path=path, line=number)
    return Line(f"{place}{bracket}{extras}", number=number)


def _package(line: str, path: Path, number: int, environment: Mapping[str, str]) -> Iterator[Line]:
    hashes = tuple(sorted(match["value"] for match in _HASH.finditer(line)))
    try:
        requirement = Requirement(_HASH.sub("", line))
    except InvalidRequirement as error:
        problem = f"{line!r} cannot be read as a requirement ({str(error).splitlines()[0]})"
        raise ConfigError(problem, path=path, line=number) from error
    if requirement.marker and not requirement.marker.evaluate(dict(environment)):
        return
    requirement.marker = None
    yield replace(Line(str(requirement), canonicalize_name(requirement.name), hashes), number=number)


def _is_exact(requirement: Requirement) -> bool:
    specifiers = list(requirement.specifier)
    return len(specifiers) == 1 and specifiers[0].operator in ("==", "===") and "*" not in specifiers[0].version
