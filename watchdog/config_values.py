"""The values that `watchdog.toml` may hold, as types that check themselves.

Each check raises ValueError with a sentence that says what is wrong and how to mend it; the caller adds the place.
"""

from __future__ import annotations

import difflib
import json
import keyword
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo

from watchdog.callspec import parse_argument
from watchdog.model import HOST, Check, Scenario

CUSTOM, NATIVE = "custom", "native"  # the implementations that every kernel has

TPU_GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x")
TARGETS = (HOST, *(f"tpu:{generation}" for generation in TPU_GENERATIONS))

OLDEST_PYTHON = (3, 10)  # the oldest that checks/ runs on
LEAST_MEMORY = 64 * 2**20  # bytes; below it no Python process with jax can start

_LONGEST_WORD = 10  # characters

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_DURATION = re.compile(r"(?:([0-9.]+) ?h)? ?(?:([0-9.]+) ?m)? ?(?:([0-9.]+) ?s)?")
_SECONDS_PER_UNIT = (3600.0, 60.0, 1.0)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)B")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_LOCAL = re.compile(r"(\.{1,2}/|/|~/|\.{1,2}$)")
_EXTRAS = re.compile(r"\[[^\]]*\]$")


def suggest(word: str, known: Iterable[str]) -> str:
    """A remedy for an unknown word: the nearest known one, or all of them."""
    known = [str(item) for item in known]
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"


def is_local(requirement: str) -> bool:
    """Whether a requirement is a path of a local project, not a PEP 508 requirement."""
    return bool(_LOCAL.match(requirement))


def absolute_requirement(requirement: str, root: Path) -> str:
    """The same requirement with a local project's path made absolute; extras in brackets stay."""
    if not is_local(requirement):
        return requirement
    return f"{root / _local_path(requirement)}{''.join(_EXTRAS.findall(requirement))}"


def _local_path(requirement: str) -> Path:
    return Path(_EXTRAS.sub("", requirement)).expanduser()


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        msg = f"{text!r} cannot be a name; use letters, digits, '_', '.' and '-', the first not '.' or '-', at most 100"
        raise ValueError(msg)
    return text


def _function_name(text: str) -> str:
    module, colon, function = text.partition(":")
    if colon and _is_dotted(module) and _is_dotted(function):
        return text
    remedy = "write 'module:function', as in 'package.module:function'"
    if _is_dotted(text) and "." in text:
        remedy = f"write a colon before the function: '{':'.join(text.rsplit('.', 1))}'"
    msg = f"{text!r} does not name a function; {remedy}"
    raise ValueError(msg)


def _is_dotted(text: str) -> bool:
    return all(_is_identifier(part) for part in text.split("."))


def _is_identifier(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _identifier(text: str) -> str:
    if not _is_identifier(text):
        msg = f"{text!r} is not the name of a Python parameter"
        raise ValueError(msg)
    return text


def _target(text: str) -> str:
    if text not in TARGETS:
        msg = f"unknown target {text!r}; {suggest(text, TARGETS)}"
        raise ValueError(msg)
    return text


def _check(value: Any) -> Check:
    if value not in tuple(Check):
        msg = f"unknown check {value!r}; {suggest(str(value), Check)}"
        raise ValueError(msg)
    return Check(value)


def _scenario(value: Any) -> Scenario:
    if value not in tuple(Scenario):
        msg = f"unknown scenario {value!r}; {suggest(str(value), Scenario)}"
        raise ValueError(msg)
    return Scenario(value)


def _short_text(text: str) -> str:
    if not 0 < len(text.strip()) <= _LONGEST_WORD or not text.isprintable():
        msg = f"{text!r} must be printable text of 1 to {_LONGEST_WORD} characters"
        raise ValueError(msg)
    return text.strip()


def _seconds(value: Any) -> float:
    remedy = 'write "5m", "90s", "1h30m" or a number of seconds greater than 0'
    seconds = _seconds_in(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        msg = f"{value!r} is not a duration; {remedy}"
        raise ValueError(msg)
    return float(seconds)


def _seconds_in(text: str) -> float | None:
    match = _DURATION.fullmatch(text.strip())
    numbers = [part or "0" for part in match.groups()] if match else []
    if not all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) for number in numbers):
        return None
    return sum(float(number) * unit for number, unit in zip(numbers, _SECONDS_PER_UNIT, strict=False))


def _bytes(value: Any) -> int:
    remedy = f'write "8GiB", "500 MB" or a number of bytes, at least {LEAST_MEMORY // 2**20} MiB'
    size = _bytes_in(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or size < LEAST_MEMORY:
        msg = f"{value!r} is not a size of memory that a kernel can run in; {remedy}"
        raise ValueError(msg)
    return size


def _bytes_in(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    if not match or (match[3] and not match[2]):
        return None
    base = 1024.0 if match[3] else 1000.0
    return round(float(match[1]) * base ** _POWERS[match[2]])


def _requirement(text: str, info: ValidationInfo) -> str:
    if is_local(text):
        return _existing(text, _local_path(text), info, "project")
    try:
        Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0].rstrip(".")
        remedy = "write it as in 'jax[tpu]==0.10.2', or a local project as a path that begins with './'"
        msg = f"{text!r} is not a requirement ({reason}); {remedy}"
        raise ValueError(msg) from error
    return text


def _existing(text: str, path: Path, info: ValidationInfo, what: str) -> str:
    """`text` itself; checked only where the validation knows the folder that relative paths start from."""
    root = (info.context or {}).get("root")
    if root is not None and not (root / path).exists():
        msg = f"there is no {what} at {text!r}; a relative path starts from the folder of this file, {root}"
        raise ValueError(msg)
    return text


def _folder(text: str, info: ValidationInfo) -> str:
    path = Path(_filled(text)).expanduser()
    _existing(text, path, info, "folder")
    root = (info.context or {}).get("root")
    if root is not None and not (root / path).is_dir():
        msg = f"{text!r} is not a folder; name the folder that holds the kernel's package or module"
        raise ValueError(msg)
    return text


def _file(text: str, info: ValidationInfo) -> str:
    path = Path(_filled(text)).expanduser()
    _existing(text, path, info, "file")
    root = (info.context or {}).get("root")
    if root is not None and not (root / path).is_file():
        msg = f"{text!r} is not a file; name a lock file such as 'uv.lock' or 'requirements.txt'"
        raise ValueError(msg)
    return text


def _filled(text: str) -> str:
    if not text.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return text


def _argument(text: str) -> str:
    parse_argument(text)
    return text


def _database_url(text: str) -> str:
    if not re.match(r"[a-z][a-z0-9_+]*://", text):
        msg = "not a database URL; write one such as 'sqlite:///.watchdog/watchdog.db'"
        raise ValueError(msg)
    return text


def _python(value: Any) -> str:
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)(\.[0-9]+)?", value) if isinstance(value, str) else None
    if not match:
        msg = f'{value!r} is not a Python version; write it in quotes, as in "3.11"'
        raise ValueError(msg)
    if (int(match[1]), int(match[2])) < OLDEST_PYTHON:
        msg = f"Python {value} is too old for the checks; the oldest is {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}"
        raise ValueError(msg)
    return str(value)


def _kwargs(value: dict[str, Any]) -> dict[str, Any]:
    for name, item in value.items():
        _identifier(name)
        try:
            json.dumps(item, allow_nan=False)
        except TypeError as error:
            msg = f"the value of {name!r} is a date or a time; write a string, a number, true, false or an array"
            raise ValueError(msg) from error
        except ValueError as error:
            msg = f"the value of {name!r} is not finite; write a finite number, such as -1e30"
            raise ValueError(msg) from error
    return value


def _layout(value: Any) -> str | dict[str, str]:
    if isinstance(value, str):
        return _function_name(value)
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return {name: _function_name(function) for name, function in value.items()}
    msg = "must be a string 'module:function', or a table of such strings by implementation"
    raise ValueError(msg)


Name = Annotated[str, AfterValidator(_name)]
FunctionName = Annotated[str, AfterValidator(_function_name)]
ParameterName = Annotated[str, AfterValidator(_identifier)]
Target = Annotated[str, AfterValidator(_target)]
CheckName = Annotated[Check, BeforeValidator(_check)]
ScenarioName = Annotated[Scenario, BeforeValidator(_scenario)]
ShortText = Annotated[str, AfterValidator(_short_text)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
Folder = Annotated[str, AfterValidator(_folder)]
File = Annotated[str, AfterValidator(_file)]
FilledText = Annotated[str, AfterValidator(_filled)]
ArgumentText = Annotated[str, AfterValidator(_argument)]
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
PythonVersion = Annotated[str, BeforeValidator(_python)]
Kwargs = Annotated[dict[str, Any], AfterValidator(_kwargs)]
Layout = Annotated[str | dict[str, str], PlainValidator(_layout)]
Tolerance = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Operations = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Minutes = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Size = Annotated[int, Field(strict=True, gt=0)]
Index = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)]
Processes = Annotated[int, Field(strict=True, ge=4, le=200)]
