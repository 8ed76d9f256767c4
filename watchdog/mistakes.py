"""Mistakes in `watchdog.toml`, told as one sentence each: file, line, key, what is wrong, how to mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.config_values import suggest
from watchdog.errors import ConfigError
from watchdog.redaction import plain, redact
from watchdog.toml_lines import Place, line_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# What pydantic calls a wrong type, in the words of TOML.
_WANTED = {
    "string_type": "a string, in quotes",
    "tuple_type": "an array, in brackets",
    "dict_type": "a table",
    "model_type": "a table",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "{ge:g} or greater",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
}
_TOML_TYPES: tuple[tuple[type, str], ...] = (
    (str, "a string"),
    (list, "an array"),
    (dict, "a table"),
)


@dataclass(frozen=True)
class Mistake:
    """One mistake and the place that it was found at; the place may be a key that is missing."""

    place: Place
    message: str


def table_of(place: Place) -> str:
    """The header of the table that the key at `place` stands in; empty for the top of the file."""
    match place[:-1]:
        case ("watchdog",):
            return "[watchdog]"
        case ("pins", _):
            return "[pins.NAME]"
        case ("kernel", _):
            return "[[kernel]]"
        case ("kernel", _, "case", _):
            return "[[kernel.case]]"
        case ("service",):
            return "[service]"
        case ("gate",):
            return "[gate]"
    return ""


def explain(error: ErrorDetails, keys: Mapping[str, Sequence[str]]) -> Mistake:
    """What pydantic found, in the words of the file; `keys` are the known keys of each table, by its header."""
    place: Place = tuple(part for part in error["loc"] if part != "[key]")  # pydantic's mark for a table's key
    match error["type"]:
        case "extra_forbidden":
            return Mistake(place, _unknown_key(place, keys))
        case "missing":
            return Mistake(place, f"is missing; every {table_of(place)} needs it")
        case "value_error":
            return Mistake(place, str(error["ctx"]["error"]))
        case "tuple_type" if place[-1] in ("kernel", "case") and isinstance(error["input"], dict):
            header = table_of((*place, 0, "")).strip("[]")
            return Mistake(place, f"there may be several; write [[{header}]] with two brackets")
        case kind if kind in _WANTED:
            wanted = _WANTED[kind].format(**error.get("ctx", {}))
            return Mistake(place, f"must be {wanted}; it is {_found(error['input'])}")
    return Mistake(place, error["msg"].replace("Input should be", "must be"))


def _unknown_key(place: Place, keys: Mapping[str, Sequence[str]]) -> str:
    table, word = table_of(place), str(place[-1])
    elsewhere = [other for other, known in keys.items() if word in known]
    if elsewhere:
        return f"unknown key here; it belongs in {elsewhere[0] or 'no table, at the top of the file'}"
    return f"unknown key; {suggest(word, keys[table])}"


def _found(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return str(value).lower()
    for kind, words in _TOML_TYPES:
        if isinstance(value, kind):
            return words
    return "a date or a time"


def config_error(mistakes: Sequence[Mistake], path: Path, lines: Mapping[Place, int], document: Any) -> ConfigError:
    """One error that tells every mistake, one per line, in the order of the file."""
    placed = sorted(((line_of(mistake.place, lines), mistake) for mistake in mistakes), key=lambda pair: pair[0] or 0)
    sentences = [
        ConfigError(_clean(mistake.message), path=path, line=line, key=_key_text(mistake.place, document))
        for line, mistake in placed
    ]
    first = sentences[0]
    message = "\n".join([first.message, *(str(other) for other in sentences[1:])])
    return ConfigError(message, path=path, line=first.line, key=first.key)


def _clean(text: str) -> str:
    """One line without credentials: requirements hold URLs, and messages quote them."""
    return " ".join(plain(redact(text)).splitlines())


def _key_text(place: Place, document: Any) -> str | None:
    """The place for people: `kernel[flash_attention].case[small].args[0]`; None for the whole file."""
    text, value = "", document
    for part in place:
        value = _inside(value, part)
        if isinstance(part, int):
            text += f"[{_element_name(value, part)}]"
        else:
            text += f".{part}" if text else part
    return _clean(text) or None


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _element_name(value: Any, index: int) -> str | int:
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) and name else index
