"""Values as JSON, and back: the lines that come out of an environment, and the document that `--json` writes.

JSON has no NaN and no infinities. In lines and in stored data they are the strings "nan", "inf" and "-inf"
(docs/observations.md); in the document for other programs they are null, which every reader of a number understands.
What comes out of an environment is not trusted: a line that is not one of ours is the value `Unreadable`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from watchdog.model import (
    Amount,
    Cell,
    Environment,
    Fault,
    Figure,
    Observation,
    Outcome,
    Package,
    Verdict,
    package_changes,
)

SCHEMA = 1

_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_JSON_NAMES: dict[type, str] = {dict: "object", list: "array"}
_DEEPEST = 50  # levels of lists and objects in a line
_LONGEST_QUOTE = 500  # characters of an unreadable line that are kept
_EXACT = 2**53  # whole floats up to here are written without a fraction


class FormatError(ValueError):
    """A JSON value has not the form that the contract gives it; the message names the key."""


@dataclass(frozen=True)
class Started:
    """The environment begins with this cell."""

    cell: Cell


@dataclass(frozen=True)
class Observed:
    """The environment is done with a cell."""

    observation: Observation


@dataclass(frozen=True)
class Ended:
    """The environment has come to the end of its plan."""


@dataclass(frozen=True)
class Unreadable:
    """A line that is not one of the contract's; `text` is its beginning."""

    reason: str
    text: str


Line = Started | Observed | Ended | Unreadable


def parse_line(text: str, cells: Mapping[int, Cell]) -> Line:
    """One line from an environment; `cells` are those of its plan, by number.

    Never raises: a half line, a cell that is not in the plan or a wrong type is `Unreadable`.
    """
    try:
        return _line(_object(json.loads(text, parse_constant=_refuse_constant), "the line"), cells)
    except FormatError as error:
        return Unreadable(str(error), text[:_LONGEST_QUOTE])
    except (ValueError, RecursionError) as error:  # the JSON parser's own
        return Unreadable(f"not JSON: {error}", text[:_LONGEST_QUOTE])


def observation_from_json(document: Mapping[str, Any], cell: Cell) -> Observation:
    """The observation that an `observation` line carries; keys that are absent have the defaults of the model.

    Raises FormatError when a key is unknown, or its value has the wrong type or contradicts the outcome.
    """
    _only(document, {"outcome", "reason", "fault", "data", "series", "log_tail", "seconds", "at"}, "the observation")
    outcome = _outcome(document.get("outcome"))
    fault = document.get("fault")
    observation = Observation(
        cell,
        outcome,
        reason=_optional_text(document, "reason"),
        fault=None if fault is None else fault_from_json(_object(fault, "fault")),
        data=_object(decode_numbers(document.get("data", {})), "data"),
        series=_series(document.get("series", {})),
        log_tail=_text(document.get("log_tail", ""), "log_tail"),
        seconds=_seconds(document.get("seconds", 0.0)),
        at=_text(document.get("at", ""), "at"),
    )
    _check_agreement(observation)
    return observation


def fault_from_json(document: Mapping[str, Any]) -> Fault:
    """The fault that `fault_to_json` wrote, or that an environment reports.

    Raises FormatError when a key is unknown or missing, or its value is not text.
    """
    _only(document, {"kind", "message", "where", "traceback", "missing"}, "fault")
    return Fault(
        kind=_text(document.get("kind"), "fault.kind"),
        message=_text(document.get("message"), "fault.message"),
        where=_optional_text(document, "where"),
        traceback=_text(document.get("traceback", ""), "fault.traceback"),
        missing=_optional_text(document, "missing"),
    )


def fault_to_json(fault: Fault) -> dict[str, Any]:
    """The fault as a JSON object, for the store."""
    return asdict(fault)


def encode_numbers(value: Any) -> Any:
    """The JSON value with NaN and the infinities as strings, so that it is JSON indeed."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {key: encode_numbers(item) for key, item in value.items()}
        case list() | tuple():
            return [encode_numbers(item) for item in value]
    return value


def decode_numbers(value: Any, *, depth: int = 0) -> Any:
    """What `encode_numbers` was given; text that no file or database could hold is mended on the way.

    A text that is exactly "nan", "inf" or "-inf" cannot be told from the number and becomes it.
    Raises FormatError when the value is nested too deeply to be one of ours.
    """
    if depth > _DEEPEST:
        msg = f"nested more than {_DEEPEST} levels deep"
        raise FormatError(msg)
    match value:
        case str():
            return _NUMBERS[value] if value in _NUMBERS else mend(value)
        case Mapping():
            return {mend(key): decode_numbers(item, depth=depth + 1) for key, item in value.items()}
        case list():
            return [decode_numbers(item, depth=depth + 1) for item in value]
    return value


def mend(text: str) -> str:
    """The text without what files and databases refuse: half surrogate pairs and NUL become U+FFFD."""
    whole = text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\ufffd")


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as DESIGN's section 9 shows it; what does not apply is null."""
    cell = verdict.cell
    return {
        "id": verdict.id,
        "kernel": cell.kernel or None,
        "implementation": cell.implementation or None,
        "case": cell.case or None,
        "pins": cell.pins,
        "baseline": verdict.baseline,
        "target": cell.target or None,
        "aspect": cell.check.value,
        "scenario": verdict.scenario,
        "signal": verdict.signal,
        "status": verdict.status.value,
        "kind": verdict.kind,
        "suspect": verdict.suspect.value if verdict.suspect else None,
        "figure": _figure_to_json(verdict.figure),
        "detectable": _amount_to_json(verdict.detectable),
        "where": verdict.where,
        "summary": verdict.summary,
    }


def run_to_json(
    run: str,
    exit_code: int,
    environments: Sequence[Environment],
    verdicts: Sequence[Verdict],
    *,
    baseline: Sequence[Environment],
) -> dict[str, Any]:
    """The document that `--json` writes (docs/run.schema.json).

    `baseline` are the environments of the baseline's pins, one for each group of kernels; `changed` compares an
    environment with the one of the same kernels, and is empty where there is none.
    """
    return {
        "schema": SCHEMA,
        "run": run,
        "exit_code": exit_code,
        "environments": [_environment_to_json(environment, baseline) for environment in environments],
        "verdicts": [verdict_to_json(verdict) for verdict in verdicts],
    }


def _line(document: dict[str, Any], cells: Mapping[int, Cell]) -> Line:
    match document.pop("event", None):
        case "start":
            cell = _cell(document, cells)
            _only(document, set(), "the start")
            return Started(cell)
        case "observation":
            cell = _cell(document, cells)
            return Observed(observation_from_json(document, cell))
        case "end":
            _only(document, set(), "the end")
            return Ended()
        case other:
            return _refuse(f"unknown event {_quote(other)}")


def _cell(document: dict[str, Any], cells: Mapping[int, Cell]) -> Cell:
    number = document.pop("cell", None)
    if type(number) is not int:
        _refuse(f"cell must be a number, not {_quote(number)}")
    if number not in cells:
        _refuse(f"cell {_quote(number)} is not in the plan")
    return cells[number]


def _outcome(value: Any) -> Outcome:
    if value not in list(Outcome):  # a list, because the value may be of any type
        _refuse(f"unknown outcome {_quote(value)}")
    return Outcome(value)


def _check_agreement(observation: Observation) -> None:
    if observation.outcome.is_fault and observation.fault is None:
        _refuse(f"outcome {observation.outcome.value!r} without a fault")
    if observation.outcome is Outcome.SKIPPED and not observation.reason:
        _refuse("skipped without a reason")


def _series(value: Any) -> dict[str, tuple[float, ...]]:
    return {mend(signal): _numbers(numbers, signal) for signal, numbers in _object(value, "series").items()}


def _numbers(value: Any, signal: str) -> tuple[float, ...]:
    if not isinstance(value, list):
        _refuse(f"series.{signal} must be a list")
    numbers = [_number(item, signal) for item in value]
    return tuple(numbers) if all(type(number) is int for number in numbers) else tuple(map(float, numbers))


def _number(value: Any, signal: str) -> float:
    if isinstance(value, str) and value in _NUMBERS:
        return _NUMBERS[value]
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if type(value) is float:
        return value
    return _refuse(f"series.{signal} holds {_quote(value)}, which is not a number of 64 bits")


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        _refuse(f"seconds must be a finite number that is not negative, not {_quote(value)}")
    return float(value)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(f"{name} must be an object")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        _refuse(f"{name} must be text, not {_quote(value)}")
    return mend(value)


def _optional_text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return None if value is None else _text(value, name)


def _only(document: Mapping[str, Any], known: set[str], name: str) -> None:
    unknown = sorted(document.keys() - known)
    if unknown:
        _refuse(f"{name} has an unknown key {_quote(unknown[0])}")


def _quote(value: Any) -> str:
    shown = repr(value) if isinstance(value, str | int | float | None) else f"a JSON {_JSON_NAMES[type(value)]}"
    return shown if len(shown) <= 80 else shown[:79] + "…"  # noqa: PLR2004  # a line of a terminal


def _refuse(reason: str) -> NoReturn:
    raise FormatError(mend(reason))


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON; write it as a string")


def _figure_to_json(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    value, low, high = (_number_to_json(number) for number in (figure.value, figure.low, figure.high))
    return {"value": value, "low": low, "high": high, "unit": figure.unit}


def _amount_to_json(amount: Amount | None) -> dict[str, Any] | None:
    return None if amount is None else {"value": _number_to_json(amount.value), "unit": amount.unit}


def _number_to_json(number: float) -> float | None:
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and abs(number) <= _EXACT else number


def _environment_to_json(environment: Environment, baseline: Sequence[Environment]) -> dict[str, Any]:
    before = _packages_before(environment, baseline)
    changes = () if before is None else package_changes(before, environment.packages)
    return {
        "pins": environment.pins,
        "lock": environment.lock_hash or None,
        "packages": {package.name: package.version for package in environment.packages},
        "changed": [[change.name, change.old, change.new] for change in changes],
    }


def _packages_before(environment: Environment, baseline: Sequence[Environment]) -> Sequence[Package] | None:
    """The packages to compare with; none where either side could not be resolved."""
    if not environment.lock_hash:
        return None
    candidates = [other for other in baseline if other.lock_hash and other.kernels in (environment.kernels, ())]
    closest = sorted(candidates, key=lambda other: other.kernels != environment.kernels)
    return closest[0].packages if closest else None
