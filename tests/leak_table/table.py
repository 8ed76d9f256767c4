"""From answers to the table in docs/judging-memory.md."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.leak_table import asv_tool, ours, pytest_tools
from tests.leak_table.campaign import Answer, Said, Truth
from tests.written import markdown_table
from watchdog.publish.wording import count, listed
from watchdog.selftest import Plant

NAME = "leak table"  # of the place in the page
NOT_ITS_JOB = "–"
_MOST_ALARMS = 30  # lines about clean cells; the rest is counted


@dataclass(frozen=True)
class Tool:
    """How a tool is shown. `looks_for` says which leaks it claims to find; `names_lines` whether it names a line."""

    name: str
    looks_for: Callable[[Plant], bool]
    names_lines: bool = False
    tells_sizes: bool = False


def _all(_: Plant) -> bool:
    return True


def _memory(plant: Plant) -> bool:
    return plant.leak.signal not in ("fds", "threads")


def _memory_and_single_calls(plant: Plant) -> bool:
    """psleak counts descriptors and threads after one call."""
    return _memory(plant) or plant.every == 1


TOOLS = (
    Tool(ours.NAME, _all, names_lines=True, tells_sizes=True),
    *(Tool(name, _memory, names_lines=True, tells_sizes=True) for name in pytest_tools.LIMITS),
    Tool("psleak", _memory_and_single_calls, tells_sizes=True),
    Tool(asv_tool.NAME, _memory),
)


def written(answers: Sequence[Answer], plants: Mapping[str, Plant], about: str) -> str:
    """The text between the markers; `about` says when, where and how it was measured."""
    tools = [tool for tool in TOOLS if any(answer.tool == tool.name for answer in answers)]
    parts = [about, _sums(answers, plants, tools), _plants(answers, plants, tools), _alarms(answers, plants, tools)]
    return "\n\n".join(parts)


def _sums(answers: Sequence[Answer], plants: Mapping[str, Plant], tools: Sequence[Tool]) -> str:
    lines: dict[str, list[str]] = {}
    for tool in tools:
        said = [answer for answer in answers if answer.tool == tool.name]
        for head, text in _sum(tool, said, plants):
            lines.setdefault(head, []).append(text)
    return markdown_table(["", *(tool.name for tool in tools)], [[head, *texts] for head, texts in lines.items()])


def _sum(tool: Tool, answers: Sequence[Answer], plants: Mapping[str, Plant]) -> Iterator[tuple[str, str]]:
    clean = [answer for answer in answers if answer.subject not in plants]
    measured = [answer for answer in clean if answer.said in (Said.ALARM, Said.QUIET, Said.UNSURE)]
    sought = [answer for answer in answers if answer.subject in plants and tool.looks_for(plants[answer.subject])]
    found = [answer for answer in sought if answer.said is Said.ALARM]
    yield "clean cells measured", f"{len(measured):,}"
    alarms = [answer for answer in measured if answer.said is Said.ALARM]
    truths = Counter(answer.truth for answer in alarms)
    yield "alarms that a long run confirms: all the time, at first", f"{truths[Truth.GROWS]}, {truths[Truth.FILLS]}"
    yield "false alarms", _share(truths[Truth.STILL], len(measured))
    yield "undecided on clean cells", f"{_number(measured, Said.UNSURE):,}"
    yield (
        "could not be asked: not applicable, broken",
        f"{_number(clean, Said.NOT_ASKED)}, {_number(answers, Said.BROKEN)}",
    )
    yield "leaks found, of those it looks for", f"{len(found)} of {len(sought)}"
    lines = sum(bool(answer.line_is_right) for answer in found)
    yield "leaking line named, of those found", f"{lines} of {len(found)}" if tool.names_lines else NOT_ITS_JOB
    yield "size, share off: median, most", _errors(found) if tool.tells_sizes else NOT_ITS_JOB
    yield "seconds per cell: clean, leaking", f"{_median(measured)}, {_median(sought)}"


def _number(answers: Sequence[Answer], said: Said) -> int:
    return sum(answer.said is said for answer in answers)


def _share(some: int, of: int) -> str:
    """With the bound that no alarm in so many cells sets, by the rule of three."""
    if of == 0:
        return "–"
    return f"{some} ({some / of:.1%})" if some else f"0 (at 95 %: under {min(1.0, 3 / of):.1%})"


def _errors(found: Sequence[Answer]) -> str:
    errors = [abs(answer.error) for answer in found if answer.error is not None]
    return f"{statistics.median(errors):.1%}, {max(errors):.1%}" if errors else "–"


def _median(answers: Sequence[Answer]) -> str:
    return f"{statistics.median(answer.seconds for answer in answers):.1f}" if answers else "–"


def _plants(answers: Sequence[Answer], plants: Mapping[str, Plant], tools: Sequence[Tool]) -> str:
    heads = ["planted", "at every", *(tool.name for tool in tools)]
    rows = [
        [plant.leak.name, _call(plant), *(_found(tool, plant, answers, subject) for tool in tools)]
        for subject, plant in plants.items()
    ]
    return markdown_table(heads, rows)


def _call(plant: Plant) -> str:
    return "call" if plant.every == 1 else f"{plant.every}th call"


def _found(tool: Tool, plant: Plant, answers: Sequence[Answer], subject: str) -> str:
    if not tool.looks_for(plant):
        return NOT_ITS_JOB
    said = [answer for answer in answers if answer.tool == tool.name and answer.subject == subject]
    found = [answer for answer in said if answer.said is Said.ALARM]
    lines = sum(bool(answer.line_is_right) for answer in found)
    named = f", line {lines}" if tool.names_lines and found else ""
    return f"{len(found)} of {len(said)}{named}"


def _alarms(answers: Sequence[Answer], plants: Mapping[str, Plant], tools: Sequence[Tool]) -> str:
    """Which clean cells had alarms: false ones first, by tool, scenario and release."""
    loud = [answer for answer in answers if answer.said is Said.ALARM and answer.subject not in plants]
    lines = []
    for tool, truth in itertools.product(tools, (Truth.STILL, Truth.FILLS, Truth.GROWS)):
        groups: dict[tuple[str, str, str], list[str]] = {}
        for one in loud:
            if (one.tool, one.truth) == (tool.name, truth):
                groups.setdefault((one.scenario, one.release, one.kind), []).append(one.subject)
        lines += [_group(tool, truth, key, groups[key]) for key in sorted(groups)]
    if not lines:
        return "No tool raised an alarm on a clean cell."
    more = [f"- and {count(len(lines) - _MOST_ALARMS, 'more group')}"] if len(lines) > _MOST_ALARMS else []
    return "\n".join(["Alarms on clean cells:", "", *lines[:_MOST_ALARMS], *more])


def _group(tool: Tool, truth: Truth, key: tuple[str, str, str], subjects: Sequence[str]) -> str:
    scenario, release, kind = key
    said = f" ({kind})" if kind else ""
    return f"- {tool.name}, {truth}: `{scenario}`, jax {release}{said}: {listed(sorted(subjects), most=8)}"
