"""The time of both sides of a run, sampled as an experiment and kept in its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from watchdog import plan
from watchdog.gate import sampling
from watchdog.gate.deadline import Deadline
from watchdog.gate.sampling import Pair, Sampling
from watchdog.judges.experiment import Rule
from watchdog.model import Cell, Check, Observation, Sample
from watchdog.run import ShowProgress, Started
from watchdog.runner import Runner, Silent
from watchdog.store import reader, writer
from watchdog.store.engine import Store


def time_both_sides(
    store: Store, started: Started, runner: Runner, *, base: str, head: str, deadline: Deadline, show: ShowProgress
) -> Rule:
    """Sample the cells of the check `timing` under both pins; returns the rule that the pairs are compared by.

    Every sample is kept as it arrives; those that the run has already are not taken again.
    """
    timed = [cell for cell in started.cells if cell.check is Check.TIMING]
    same = plan.same_questions(started.config, timed)
    asked = sampling.pairs(list(same), base, head)
    options = started.config.gate
    rule = Rule(options.error_rate, max(1, len(asked)), options.relevant, options.processes)
    worth = _worth_timing(runner, asked)
    if worth:
        with show(2 * rule.processes * len({pair.subject for pair in worth})) as progress:
            loop = Sampling(
                take=lambda cells: _one_process(runner, cells, same),
                keep=lambda sample: _keep(store, started, sample, same),
                rule=rule,
                deadline=deadline,
                progress=progress,
                samples=[one for one in reader.samples(store, started.id) if one.cell in same],
            )
            loop.run(worth)
    replace(runner, progress=Silent()).ask([cell for cell in timed if cell not in runner.seen])
    return rule


def _worth_timing(runner: Runner, asked: Sequence[Pair]) -> list[Pair]:
    """The pairs of which neither side is kept from an answer by an earlier question."""
    seen = runner.seen
    return [pair for pair in asked if all(plan.blocked(cell, seen) is None for cell in (pair.base, pair.head))]


def _one_process(runner: Runner, cells: Sequence[Cell], same: Mapping[Cell, Sequence[Cell]]) -> list[Observation]:
    """Ask these cells in a fresh process. The first answer of a cell is its observation in the run."""
    answers: list[Observation] = []
    before = {cell: seen for cell, seen in runner.seen.items() if cell.check is not Check.TIMING}
    replace(runner, keep=answers.append, progress=Silent(), seen=before).ask(cells)
    keeper = replace(runner, progress=Silent(), same=same, seen=runner.seen)
    for one in answers:
        if one.cell not in runner.seen:
            keeper.record(one)
    return answers


def _keep(store: Store, started: Started, sample: Sample, same: Mapping[Cell, Sequence[Cell]]) -> None:
    for cell in (sample.cell, *same.get(sample.cell, ())):
        writer.record_sample(store, started.id, replace(sample, cell=cell))
