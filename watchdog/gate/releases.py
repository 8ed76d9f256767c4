"""The releases of a package between two versions, as the configured index has them.

uv is the only contact, so its index, credentials and settings apply: asked for the package below some version, it names
the newest release that this Python can install. From both ends at once that lists them all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from packaging.version import InvalidVersion, Version

from watchdog.errors import IncompleteError, UsageError
from watchdog.interpreters import Interpreter
from watchdog.judges.wording import one_line
from watchdog.pins import is_unreachable
from watchdog.uv import Uv

ASK_SECONDS = 60.0

_FOUND = re.compile(r"^[A-Za-z0-9][\w.-]*==(?P<version>[^\s;#]+)", re.MULTILINE)
_NOT_THERE = ("No solution found", "No matching distribution")


class PreReleases(Enum):
    """Whether pre-releases count; the values are uv's own words."""

    LEFT_OUT = "disallow"
    INCLUDED = "allow"


@dataclass(frozen=True)
class Index:
    """What uv is asked about a package, and how."""

    package: str
    interpreter: Interpreter
    uv: Uv
    folder: Path  # whose uv settings apply
    options: tuple[str, ...] = ()  # lines of a lock file, such as --index-url
    pre_releases: PreReleases = PreReleases.LEFT_OUT

    def newest(self, bounds: str) -> Version | None:
        """The newest release within bounds such as ">1,<=2"; None where there is none. Raises as `releases` does."""
        return self._ask(bounds, "highest")

    def oldest(self, bounds: str) -> Version | None:
        """The oldest release within bounds. Raises as `releases` does."""
        return self._ask(bounds, "lowest")

    def _ask(self, bounds: str, resolution: str) -> Version | None:
        answer = self.uv.call(
            *("pip", "compile", "-", "--no-deps", "--no-header", "--no-annotate", "--resolution", resolution),
            *("--prerelease", self.pre_releases.value, "--only-binary", self.package),
            *("--python", str(self.interpreter.path)),
            seconds=ASK_SECONDS,
            folder=self.folder,
            stdin="\n".join((*self.options, f"{self.package}{bounds}")) + "\n",
        )
        if answer.succeeded:
            found = _FOUND.search(answer.stdout)
            return Version(found["version"]) if found else None
        if answer.code is None or is_unreachable(answer.stderr):
            msg = f"the index could not be read, so the releases of {self.package} are not known; check the connection"
            raise IncompleteError(msg)
        if any(sign in answer.stderr for sign in _NOT_THERE):
            return None
        msg = (
            f"uv cannot list the releases of {self.package}: {one_line(answer.stderr, 200)}; correct the name or index"
        )
        raise UsageError(msg)


def releases(index: Index, good: str, bad: str) -> tuple[str, ...]:
    """The releases from `good` to `bad`, both included, in that order: downwards where `bad` is the older one.

    Those that this Python cannot install from a wheel, yanked ones and, unless wanted, pre-releases are left out; the
    two ends may be pre-releases. Raises UsageError when an end does not exist or both are the same, IncompleteError when
    the index cannot be read.
    """
    ends = [_existing(index, text) for text in (good, bad)]
    low, high = sorted(ends)
    if low == high:
        msg = f"{index.package} {good} and {bad} are the same release: there is nothing between them; name another one"
        raise UsageError(msg)
    between = _between(index, low, high)
    listed = [str(version) for version in (low, *between, high)]
    return tuple(listed if ends[0] == low else reversed(listed))


def _existing(index: Index, text: str) -> Version:
    """A release that was named. Raises UsageError with the nearest ones when it is not there."""
    try:
        version = Version(text)
    except InvalidVersion as error:
        msg = f"{text!r} is no version of {index.package}; write it as 1.2.3"
        raise UsageError(msg) from error
    if replace(index, pre_releases=PreReleases.INCLUDED).newest(f"=={version}") == version:
        return version
    near = [index.newest(f"<{version}"), index.oldest(f">{version}")]
    named = " and ".join(str(one) for one in near if one is not None)
    hint = f"near it are {named}" if named else f"there is no release of {index.package} at all: correct the name"
    msg = f"{index.package} has no release {text} that Python {index.interpreter.full_version} can install; {hint}"
    raise UsageError(msg)


def _between(index: Index, low: Version, high: Version) -> tuple[Version, ...]:
    """The releases strictly between two, from both ends at once until the two chains meet."""
    below: list[Version] = []
    above: list[Version] = []
    with ThreadPoolExecutor(2) as pool:
        while True:
            first = below[-1] if below else low
            last = above[-1] if above else high
            # ">1" would leave out 1.post1, and "<2" 2rc1 (PEP 440).
            bounds = f">={first},!={first},<={last},!={last}"
            ascending, descending = pool.submit(index.oldest, bounds), pool.submit(index.newest, bounds)
            oldest, newest = ascending.result(), descending.result()
            if oldest is None or newest is None:
                return _joined(below, above)
            below.append(oldest)
            if oldest == newest:
                return _joined(below, above)
            above.append(newest)


def _joined(below: Sequence[Version], above: Sequence[Version]) -> tuple[Version, ...]:
    return (*below, *reversed(above))
