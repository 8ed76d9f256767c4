"""Which process is started when: blocks A B B A, kept as they end, until all is decided or the time is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from watchdog.gate.deadline import Deadline
from watchdog.gate.sampling import Pair, Sampling, by_cell, medians, pairs
from watchdog.judges.experiment import Rule
from watchdog.model import Cell, Check, Observation, Outcome, Sample
from watchdog.runner import Silent

BASE, HEAD = "base", "head"
RULE = Rule(processes=20)


def cell(pins: str, case: str = "small", implementation: str = "custom") -> Cell:
    return Cell("flash", implementation, case, pins, "host", Check.TIMING)


def pair(case: str = "small", implementation: str = "custom") -> Pair:
    return Pair(cell(BASE, case, implementation), cell(HEAD, case, implementation))


class Machine:
    """Gives each process its time; remembers who was asked, in order."""

    def __init__(self, slowdown: float = 0.0, noise: float = 0.01) -> None:
        self.asked: list[tuple[Cell, ...]] = []
        self.kept: list[Sample] = []
        self.now = 0.0
        self._slowdown, self._noise, self._random = slowdown, noise, np.random.default_rng(3)

    def take(self, cells: Sequence[Cell]) -> list[Observation]:
        self.asked.append(tuple(cells))
        self.now += 1.0
        return [self._observed(one) for one in cells]

    def _observed(self, one: Cell) -> Observation:
        factor = 1 + self._slowdown if one.pins == HEAD else 1.0
        seconds = 1e-3 * factor * float(np.exp(self._random.normal(0, self._noise)))
        return Observation(one, Outcome.OBSERVED, series={"seconds": [seconds] * 3}, seconds=1.0)

    def sampling(self, budget: float = 1e6, before: Sequence[Sample] = (), rule: Rule = RULE) -> Sampling:
        deadline = Deadline(budget, lambda: self.now)
        return Sampling(self.take, self.kept.append, rule, deadline, Silent(), list(before))

    @property
    def sides(self) -> list[str]:
        return [cells[0].pins for cells in self.asked]


def test_a_block_is_a_b_b_a() -> None:
    """Every process stands in its place, and what each gave was kept before the next one was started."""
    machine = Machine()
    sampling = machine.sampling()
    sampling.run([pair()])
    assert len(machine.sides) % 4 == 0
    assert machine.sides == [BASE, HEAD, HEAD, BASE] * (len(machine.sides) // 4)
    assert machine.kept == sampling.samples
    assert [one.place for one in machine.kept if one.cell.pins == BASE] == list(range(len(machine.sides) // 2))


def test_it_ends_where_nothing_is_left_to_find() -> None:
    """Without a change far fewer than the allowed processes are taken; with one, enough to be sure."""
    quiet, slow = Machine(), Machine(slowdown=0.08)
    quiet.sampling().run([pair()])
    slow.sampling().run([pair()])
    assert 4 * 2 <= len(quiet.asked) < 2 * RULE.processes
    assert len(quiet.asked) < len(slow.asked) <= 2 * RULE.processes


def test_cases_of_one_implementation_share_their_processes() -> None:
    """One process times all open cases of one implementation; another implementation has its own."""
    machine = Machine()
    machine.sampling().run([pair("small"), pair("large"), pair("small", "native")])
    assert {len(cells) for cells in machine.asked[:8]} == {1, 2}
    assert all(len({one.implementation for one in cells}) == 1 for cells in machine.asked)


@pytest.mark.parametrize("stopped", [1, 2, 3, 5])
def test_an_interrupted_block_is_completed(stopped: int) -> None:
    """What a stopped gate kept is not taken again, and the order within the block goes on."""
    first = Machine()
    first.sampling(budget=stopped).run([pair()])
    assert len(first.kept) == stopped
    second = Machine()
    second.sampling(before=first.kept).run([pair()])
    assert [*first.sides, *second.sides][:8] == [BASE, HEAD, HEAD, BASE] * 2


def test_the_budget_ends_it() -> None:
    """No process is started after the time is up; what was taken stays."""
    machine = Machine(slowdown=0.05, noise=0.05)
    machine.sampling(budget=10).run([pair()])
    assert len(machine.asked) == len(machine.kept) == 10


def failing(machine: Machine, when: Callable[[int], bool]) -> Sampling:
    """A machine on which some processes fail."""
    sampling = machine.sampling()

    def take(cells: Sequence[Cell]) -> list[Observation]:
        seen = machine.take(cells)
        return [Observation(one.cell, Outcome.FAILED) for one in seen] if when(len(machine.asked)) else seen

    sampling.take = take
    return sampling


def test_what_gives_no_time_is_asked_no_more() -> None:
    """The first process of the base fails: nothing can be compared, and nothing is kept for it."""
    machine = Machine()
    sampling = failing(machine, lambda count: count == 1)
    sampling.run([pair()])
    assert sampling.gave_none == {cell(BASE)}
    assert len(machine.asked) == 1
    assert machine.kept == []


def test_a_block_with_a_failed_process_is_left_out_whole() -> None:
    """The sixth process fails: its block of four is not used, the others are."""
    machine = Machine()
    sampling = failing(machine, lambda count: count == 6)
    sampling.run([pair()])
    base, head = medians(sampling.samples, pair())
    assert len(base) == len(head) == len(machine.asked) // 2 - 2
    failed = next(one for one in sampling.samples if one.seconds is None)
    assert (failed.cell, failed.place) == (cell(HEAD), 2)


def test_pairs_are_the_questions_that_both_sides_have() -> None:
    """A case that only one side knows has nothing to be compared with."""
    cells = [cell(BASE), cell(HEAD), cell(HEAD, "new"), cell(BASE, "gone")]
    assert pairs(cells, BASE, HEAD) == (pair(),)
    assert pairs(cells, BASE, BASE) == ()


def test_times_are_told_by_cell() -> None:
    """Both sides of each comparison, block by block; without a base there is nothing to tell."""
    machine = Machine()
    sampling = machine.sampling()
    sampling.run([pair()])
    told = by_cell(sampling.samples, BASE)
    assert set(told) == {cell(BASE), cell(HEAD)}
    assert (told[cell(BASE)], told[cell(HEAD)]) == medians(sampling.samples, pair())
    assert by_cell(sampling.samples, None) == {}
