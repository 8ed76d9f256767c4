"""A gate's answer for GitHub Actions: annotations, the job's summary, the step's outputs.

An annotation is a line on standard output that begins with `::`. Its text may hold no line break, and its properties
neither a colon nor a comma: they are written as percent codes, so text from outside begins no command of its own.
GitHub shows ten errors and ten warnings of a step: the worst come first, and the last says how many more there are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from watchdog.gate.report import Answer, GateReport, Standing
from watchdog.publish import gate_wording
from watchdog.publish.gate_places import Place, Places
from watchdog.publish.gate_wording import Told
from watchdog.publish.markdown import SUMMARY, markdown

_MOST = 10  # of each level
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def annotation_lines(report: GateReport, root: Path | None = None) -> list[str]:
    """Workflow commands, worst first; none when all is well. With `root`, the repository's files are named in them."""
    places = Places(report, root) if root is not None else None
    errors = _told(report, "error", gate_wording.told_once(report, report.failing), places)
    if report.answer is Answer.UNDECIDED:
        errors.append(_command("error", f"Kernel Watchdog: {report.answer}", gate_wording.reason(report), None))
    warned = gate_wording.told_once(report, report.of(Standing.OPEN, *([] if report.strict else [Standing.STILL])))
    lock = places.of_lock() if places else None
    warnings = [
        _command("warning", "Kernel Watchdog: versions", gate_wording.said(one), lock)
        for one in report.difference.warnings
    ]
    warnings += _told(report, "warning", warned, places)
    return [*_shortened("error", errors), *_shortened("warning", warnings)]


def github_outputs(report: GateReport) -> str:
    """Lines for GITHUB_OUTPUT: the answer, the exit code, and how many findings fail the gate."""
    values = {
        "answer": report.answer.value,
        "exit-code": str(report.exit_code),
        "failed": str(len(gate_wording.told_once(report, report.failing))),
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def write_github(report: GateReport, environ: Mapping[str, str]) -> list[str]:
    """Within GitHub Actions: write the job's summary and the step's outputs; returns the annotations, to be printed.

    Elsewhere nothing is written, and there are none. A file that cannot be written is told as a warning: the answer is
    worth more than its summary.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return []
    lines = annotation_lines(report, Path(environ.get("GITHUB_WORKSPACE") or "."))
    texts = {"GITHUB_STEP_SUMMARY": markdown(report, most=SUMMARY), "GITHUB_OUTPUT": github_outputs(report)}
    for variable, text in texts.items():
        file = environ.get(variable)
        if file:
            lines += _append(file, text, variable)
    return lines


def _append(file: str, text: str, variable: str) -> list[str]:
    try:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        message = f"the file that {variable} names cannot be written: {error.strerror or error}"
        return [_command("warning", "Kernel Watchdog", message, None)]
    return []


def _told(report: GateReport, level: str, told: Sequence[Told], places: Places | None) -> list[str]:
    return [
        _command(level, _title(one), _message(report, one), places.of(one.verdict) if places else None) for one in told
    ]


def _title(told: Told) -> str:
    kind = "undecided" if told.judged.standing is Standing.OPEN else told.verdict.kind or "broken"
    still = f" ({told.judged.standing})" if told.judged.standing is Standing.STILL else ""
    return f"{gate_wording.said(kind, 80)}: {gate_wording.topic(told.verdict)}{still}"


def _message(report: GateReport, told: Told) -> str:
    facts = "; ".join(filter(None, [*gate_wording.facts(report, told.judged), told.elsewhere]))
    return f"{gate_wording.said(told.verdict.summary)}{f' ({facts})' if facts else ''}"


def _command(level: str, title: str, message: str, place: Place | None) -> str:
    properties = {"file": place.file, "line": str(place.line)} if place else {}
    named = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in {**properties, "title": title}.items())
    return f"::{level} {named}::{_escaped(message, _DATA)}"


def _escaped(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(sign, sign) for sign in text)


def _shortened(level: str, lines: Sequence[str]) -> list[str]:
    if len(lines) <= _MOST:
        return list(lines)
    more = len(lines) - _MOST + 1
    rest = _command(level, "Kernel Watchdog", f"and {more:,} more, which the job's summary names", None)
    return [*lines[: _MOST - 1], rest]
