"""`make leak-table`: asks every tool about the corpus, and writes the table.

It may be stopped at any time: what was answered is kept in the folder, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.leak_table import asv_tool, ours, pytest_tools, table, witness
from tests.leak_table.campaign import Answer, Campaign, Parameters, Said, busy_neighbour, opened, pins
from tests.written import put
from watchdog import __version__, machine
from watchdog.model import Scenario
from watchdog.plan import Job
from watchdog.publish.progress import progress
from watchdog.selftest import PLANTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "judging-memory.md"
RELEASES = ("0.8.3", "0.9.2", "0.10.2")
TOOLS = (ours.NAME, pytest_tools.MEMRAY, pytest_tools.PSLEAK, asv_tool.NAME)
_SHOWN = ("pytest-memray", "memray", "psleak", "psutil", "asv")

_CHOICES = {
    "releases": RELEASES,
    "scenarios": tuple(scenario.value for scenario in Scenario),
    "plants": tuple(plant.implementation for plant in PLANTS),
    "tools": TOOLS,
}

Task = tuple[str, Callable[[], None]]


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0 when the table is written."""
    options = _parser().parse_args(arguments)
    parameters = Parameters(options.cells, tuple(options.releases), tuple(options.scenarios), tuple(options.plants))
    campaign = opened(options.folder, parameters)
    answers = _asked(campaign, options.tools)
    text = table.written(answers, campaign.plants, _about(campaign, options))
    if options.write is None:
        sys.stdout.write(f"{text}\n")
    else:
        put(options.write, table.NAME, text)
        _say(f"wrote {options.write}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.leak_table", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path(".watchdog/leak-table"), help="what was answered is kept here"
    )
    parser.add_argument("--cells", type=int, default=1000, help="at least so many clean cells, if the corpus has them")
    parser.add_argument("--write", type=Path, metavar="PAGE", help=f"the page that gets the table, such as {PAGE.name}")
    for name, everything in _CHOICES.items():
        parser.add_argument(f"--{name}", nargs="+", default=everything, help=f"by default: {' '.join(everything)}")
    return parser


def _asked(campaign: Campaign, tools: Sequence[str]) -> list[Answer]:
    """One tool after another, then a witness for the alarms, with a busy neighbour all the time."""
    pythons = [campaign.python(release) for release in campaign.parameters.releases]
    with busy_neighbour(pythons[-1]):
        if ours.NAME in tools:
            _say(f"{ours.NAME}: {len(campaign.cells)} cells")
            ours.ask(campaign, lambda total: progress(total, Console(stderr=True, highlight=False)))
        for tool in tools:
            if tool != ours.NAME:
                _side_by_side(tool, list(_tasks(campaign, tool)))
        return _witnessed(campaign, list(_answers(campaign, tools)))


def _witnessed(campaign: Campaign, answers: list[Answer]) -> list[Answer]:
    """The same, with what a long run shows of the clean cells at which there were alarms."""
    loud = dict.fromkeys(
        answer.cell for answer in answers if answer.said is Said.ALARM and answer.subject not in campaign.plants
    )
    tasks = [(" ".join(cell), partial(witness.ask, campaign, *campaign.places[cell])) for cell in loud]
    _side_by_side("witness", tasks)
    truths = {cell: witness.truth(campaign, *campaign.places[cell]) for cell in loud}
    return [replace(answer, truth=truths.get(answer.cell)) for answer in answers]


def _side_by_side(tool: str, tasks: Sequence[Task]) -> None:
    """As many at once as there are cores, as Kernel Watchdog does. The first error ends it, when those at work are done."""
    with ThreadPoolExecutor(machine.usable_cores()) as pool:
        futures = {pool.submit(task): name for name, task in tasks}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                _say(f"{tool}: {done} of {len(tasks)}, {futures[future]}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _tasks(campaign: Campaign, tool: str) -> Iterator[Task]:
    if tool == asv_tool.NAME:
        for name, before, after in _comparisons(campaign):
            yield name, partial(asv_tool.ask, campaign, before, after, name)
    else:
        for job in campaign.jobs:
            yield job.label, partial(pytest_tools.ask, campaign, tool, job)


def _comparisons(campaign: Campaign) -> Iterator[tuple[str, list[tuple[Job, int]], list[tuple[Job, int]]]]:
    """For asv: every plant of a release against the kernel without one, and every clean function against itself."""
    for release in campaign.parameters.releases:
        jobs = [job for job in campaign.jobs if job.pins == pins(release)]
        clean = next(job for job in jobs if job.kernel == "planted_leaks" and job.implementation == "custom")
        planted = [(job, 0) for job in jobs if job.implementation != "custom"]
        if planted:
            yield f"{release}.planted", [(clean, 0)] * len(planted), planted
        for job in jobs:
            if job.implementation == "custom":
                cells = [(job, number) for number in range(len(job.cells))]
                yield f"{release}.{job.kernel}", cells, cells


def _answers(campaign: Campaign, tools: Sequence[str]) -> Iterator[Answer]:
    for tool in tools:
        if tool == ours.NAME:
            yield from ours.answers(campaign)
        elif tool == asv_tool.NAME:
            for name, _, cells in _comparisons(campaign):
                yield from asv_tool.answers(campaign, cells, name)
        else:
            for job in campaign.jobs:
                yield from pytest_tools.answers(campaign, tool, job)


def _about(campaign: Campaign, options: argparse.Namespace) -> str:
    """When, where, with what; nothing that names the machine."""
    releases = campaign.parameters.releases
    held = campaign.versions(releases[-1])
    facts = machine.facts()
    memory = machine.usable_memory() / 2**30
    tools = ", ".join(f"{name} {held[name]}" for name in _SHOWN if name in held)
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {facts['cores']} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, beside a neighbour that computes, compiles and "
        f"allocates all the time. jax {', '.join(releases)}; kernel-watchdog {__version__}, {tools}. "
        f"`{_command(options)}`."
    )


def _command(options: argparse.Namespace) -> str:
    """The command that makes this table again, without where it keeps its answers."""
    given = [(name, getattr(options, name)) for name in _CHOICES]
    narrowed = [f" --{name} {' '.join(chosen)}" for name, chosen in given if tuple(chosen) != _CHOICES[name]]
    if not narrowed:
        return f"make leak-table CELLS={options.cells}"
    return f"python -m tests.leak_table --cells {options.cells}{''.join(narrowed)}"


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
