"""What a gate compares: each side is pins of watchdog.toml, a requirements or lock file, or such a file at a git ref."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from watchdog import lockfiles
from watchdog.config import Config, Pins
from watchdog.errors import UsageError
from watchdog.gate import refs

_UNREAD = re.compile(r"(?!pylock\.).*\.toml|Pipfile(\.lock)?|(?!uv\.|poetry\.).*\.lock|.*\.(ya?ml|json|cfg|py)")


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
        return GivenSide(given, given, config.absolute_pins(config.pins[given]))
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


def _pins_of(path: Path, python: str | None) -> Pins:
    """A file as pins: a lock is honoured exactly, a requirements file that pins in part is resolved."""
    if not path.is_file() or _UNREAD.fullmatch(path.name):
        msg = (
            f"{path} cannot be compared; what is read is a requirements file, uv.lock, pylock.toml and poetry.lock "
            "(other tools export one of them)"
        )
        raise UsageError(msg)
    if lockfiles.is_lock(path):
        return Pins(lock=str(path), python=python)
    return Pins(requirements_file=str(path), python=python)
