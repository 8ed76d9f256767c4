"""Time as an experiment: fresh processes of both sides, A B B A, until every pair is decided or the time is up.

The process is the unit: the calls of one share a layout and a mood. Each process times all cases of one implementation
that are still open; each time is kept as it arrives, so that an interrupted gate goes on where it stopped.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from watchdog.gate.deadline import Deadline
from watchdog.judges.experiment import Decision, Rule, read
from watchdog.model import Cell, Observation, Outcome, Sample
from watchdog.runner import Progress, label

HALF_BLOCK = 2  # processes of each side in a block
_PLACES = ("base", "head", "head", "base")  # a drift of the machine that is even over a block cancels

Take = Callable[[Sequence[Cell]], Sequence[Observation]]  # one fresh process, which asks these cells
Keep = Callable[[Sample], object]


@dataclass(frozen=True)
class Pair:
    """One comparison: the same question under both sides."""

    base: Cell
    head: Cell

    @property
    def subject(self) -> tuple[str, str]:
        """Pairs of one subject are measured by the same processes."""
        return self.head.kernel, self.head.implementation


def pairs(cells: Sequence[Cell], base: str, head: str) -> tuple[Pair, ...]:
    """The comparisons that these cells of the check `timing` allow, in their order."""
    known = set(cells)
    both = (Pair(replace(cell, pins=base), cell) for cell in cells if cell.pins == head)
    return tuple(pair for pair in both if pair.base in known and pair.base != pair.head)


def medians(samples: Sequence[Sample], pair: Pair) -> tuple[list[float], list[float]]:
    """The times of both sides of a pair, block by block; a block in which a process failed is left out whole."""
    base, head = (_by_place(samples, cell) for cell in (pair.base, pair.head))
    blocks = min(len(base), len(head)) // HALF_BLOCK
    kept: tuple[list[float], list[float]] = ([], [])
    for block in range(blocks):
        places = range(block * HALF_BLOCK, (block + 1) * HALF_BLOCK)
        times = [[side.get(place) for place in places] for side in (base, head)]
        if all(time is not None for side in times for time in side):
            for side, more in zip(kept, times, strict=True):
                side.extend(time for time in more if time is not None)
    return kept


def _by_place(samples: Sequence[Sample], cell: Cell) -> dict[int, float | None]:
    return {sample.place: sample.seconds for sample in samples if sample.cell == cell}


@dataclass
class Sampling:
    """The loop. `samples` holds what was taken before, and grows."""

    take: Take
    keep: Keep
    rule: Rule
    deadline: Deadline
    progress: Progress
    samples: list[Sample]
    gave_none: set[Cell] = field(default_factory=set)  # skipped, or failed: there is nothing to compare

    def run(self, compared: Sequence[Pair]) -> None:
        """Take block after block of every subject in turn, until all is decided, taken, or the time is up."""
        while (open_ := self._open(compared)) and not self.deadline.is_over:
            for subject in open_:
                self._block(subject)

    def _open(self, compared: Sequence[Pair]) -> list[list[Pair]]:
        """The pairs that need more processes, those of one subject together."""
        undecided = [pair for pair in compared if self._wants_more(pair)]
        return [list(group) for _, group in groupby(undecided, key=lambda pair: pair.subject)]

    def _wants_more(self, pair: Pair) -> bool:
        if self._taken(pair) >= 2 * self.rule.processes or self.gave_none & {pair.base, pair.head}:
            return False
        return read(*medians(self.samples, pair), self.rule, ended=False).decision is Decision.MORE

    def _taken(self, pair: Pair) -> int:
        return sum(sample.cell in (pair.base, pair.head) for sample in self.samples)

    def _block(self, subject: Sequence[Pair]) -> None:
        """What is missing of the present block, in its order."""
        begun = self._taken(subject[0])
        for place in range(begun, begun + 2 * HALF_BLOCK - begun % (2 * HALF_BLOCK)):
            side = _PLACES[place % len(_PLACES)]
            cells = [getattr(pair, side) for pair in subject if not self.gave_none & {pair.base, pair.head}]
            if not cells or self.deadline.is_over:
                return
            self._process(cells, place)

    def _process(self, cells: Sequence[Cell], place: int) -> None:
        said = f"{label(cells[0])}, process {place + 1} of at most {2 * self.rule.processes}"
        self.progress.started(said)
        seen = {observation.cell: observation for observation in self.take(cells)}
        for cell in cells:
            self._note(_sample(cell, seen.get(cell), self._next_place(cell)))
        self.progress.finished(said, Outcome.OBSERVED, sum(one.seconds for one in seen.values()))

    def _note(self, sample: Sample) -> None:
        if sample.seconds is None and sample.place == 0:
            self.gave_none.add(sample.cell)
            return
        self.keep(sample)
        self.samples.append(sample)

    def _next_place(self, cell: Cell) -> int:
        return sum(sample.cell == cell for sample in self.samples)


def _sample(cell: Cell, observation: Observation | None, place: int) -> Sample:
    """The median of a process's rounds; none where it failed or gave no positive time."""
    rounds = [] if observation is None else [time for time in observation.series.get("seconds", ()) if time > 0]
    if observation is None or observation.outcome is not Outcome.OBSERVED or not rounds:
        return Sample(cell, place, None)
    middle = statistics.median(rounds)
    spread = statistics.median(abs(time - middle) for time in rounds)
    return Sample(cell, place, middle, spread, len(rounds), observation.at)


def by_cell(samples: Sequence[Sample], base: str | None) -> dict[Cell, list[float]]:
    """The times of each cell's processes, in seconds, block by block; `base` names the pins of the base."""
    if base is None:
        return {}
    found: dict[Cell, list[float]] = {}
    for head in dict.fromkeys(sample.cell for sample in samples if sample.cell.pins != base):
        pair = Pair(replace(head, pins=base), head)
        found[pair.base], found[pair.head] = medians(samples, pair)
    return found
