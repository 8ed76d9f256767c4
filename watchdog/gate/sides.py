"""What a gate compares: each side is pins of watchdog.toml, a requirements or lock file, or such a file at a git ref."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from watchdog.config import Config, Pins
from watchdog.config_values import is_local
from watchdog.errors import ConfigError, UsageError
from watchdog.gate import refs

_LOCKS = re.compile(r"uv\.lock|pylock(\.[^.]+)?\.toml")
_UNREAD = re.compile(r"pyproject\.toml|Pipfile(\.lock)?|poetry\.lock|pdm\.lock|.*\.(ya?ml|json)")
_OPTION = re.compile(r"\s(--hash|;)")


@dataclass(frozen=True)
class GivenSide:
    """One side as it was given."""

    name: str  # of its pins in verdicts
    given: str  # what the user wrote
    pins: Pins  # with absolute paths


def read_sides(config: Config, base: str, head: str, *, python: str | None) -> tuple[GivenSide, GivenSide]:
    """Both sides. Raises UsageError when one cannot be read, or both are the same words."""
    if base == head:
        msg = f"both sides are {base}: there is nothing to compare; name what the change goes from and what it goes to"
        raise UsageError(msg)
    first = _side(config, base, _free("base", config, head), python)
    return first, _side(config, head, _free("head", config, base), python)


def compared(config: Config, base: GivenSide, head: GivenSide) -> Config:
    """The configuration with just these two pins, judged against the base."""
    options = config.watchdog.model_copy(update={"baseline": base.name})
    return config.model_copy(update={"watchdog": options, "pins": {base.name: base.pins, head.name: head.pins}})


def _free(name: str, config: Config, other: str) -> str:
    """A name that the other side, where it is pins of the configuration, does not have."""
    return f"{name}-file" if other == name and other in config.pins else name


def _side(config: Config, given: str, name: str, python: str | None) -> GivenSide:
    if given in config.pins:
        return GivenSide(given, given, _absolute(config, config.pins[given]))
    path = _existing(config, given)
    if path is None and ":" in given:
        path = refs.file_at(given, config.root)
    if path is None:
        near = difflib.get_close_matches(given, config.pins, 1)
        hint = f"did you mean {near[0]}?" if near else f"the pins are {', '.join(config.pins)}"
        msg = f"{given} is neither pins of {config.path.name}, nor a file, nor REF:path; {hint}"
        raise UsageError(msg)
    return GivenSide(name, given, _pins_of(path, python))


def _existing(config: Config, given: str) -> Path | None:
    places = (Path(given), config.root / given)
    return next((place.resolve() for place in places if place.exists()), None)


def _absolute(config: Config, pins: Pins) -> Pins:
    lock = None if pins.lock is None else str(config.absolute(pins.lock))
    return pins.model_copy(update={"requirements": config.absolute_requirements(pins), "lock": lock})


def _pins_of(path: Path, python: str | None) -> Pins:
    """A file as pins: a lock is honoured exactly, a requirements file that pins in part is resolved."""
    if not path.is_file() or _UNREAD.fullmatch(path.name):
        msg = (
            f"{path} cannot be compared; what is read is a requirements file, uv.lock and pylock.toml "
            "(`uv export` and `poetry export` write a requirements file)"
        )
        raise UsageError(msg)
    if _LOCKS.fullmatch(path.name):
        _refuse_unknown(path)
        return Pins(lock=str(path), python=python)
    return _requirements_of(path, python)


def _refuse_unknown(path: Path) -> None:
    """Raises UsageError for a lock of a version that is not known, or that is no TOML."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        msg = f"{path} cannot be read as a lock: {error}"
        raise UsageError(msg) from error
    key, known = ("version", "1") if path.name == "uv.lock" else ("lock-version", "1.0")
    version = str(document.get(key, "none"))
    if version != known:
        msg = f"{path} is a lock of version {version}, and version {known} is what is read; write it again with uv"
        raise UsageError(msg)


def _requirements_of(path: Path, python: str | None) -> Pins:
    """Requirements text: a lock where every line has a version and a hash, else requirements to resolve."""
    lines = _lines(path)
    if not lines:
        msg = f"{path} names no package"
        raise UsageError(msg)
    if any(_OPTION.search(f" {line}") or line.startswith("-") for _, line in lines):
        return Pins(lock=str(path), python=python)
    return Pins(requirements=tuple(_requirement(path, number, line) for number, line in lines), python=python)


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise UsageError(msg) from error
    stripped = ((number, re.sub(r"(^|\s)#.*$", "", line).strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in stripped if line]


def _requirement(path: Path, number: int, line: str) -> str:
    if is_local(line):
        return str((path.parent / line).resolve())
    try:
        Requirement(line)
    except InvalidRequirement as error:
        message = f"{line!r} cannot be read as a requirement ({str(error).splitlines()[0]})"
        raise ConfigError(message, path=path, line=number) from error
    return line
