"""One compiled program: how long it is, how often each part of it runs, and what its bundles do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import control_flow, listing, scalar
from .control_flow import EXIT, Block, NotUnderstoodError
from .listing import Bundle
from .scalar import Counts

_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Range:
    """A count that is exact where both ends are the same; without a `high` there is no knowing how large it is."""

    low: int
    high: int | None

    def __add__(self, other: Range) -> Range:
        high = None if self.high is None or other.high is None else self.high + other.high
        return Range(self.low + other.low, high)

    def times(self, other: Range) -> Range:
        return Range(self.low * other.low, None if self.high is None or other.high is None else self.high * other.high)

    @property
    def exact(self) -> int | None:
        return self.low if self.low == self.high else None


DESCRIBED = "described in memory"  # the direction of a transfer whose operands stand in SMEM (v2 and v3)
_SHOWN = 4  # branches that a note names
# What is said of a generation once, whatever the number of programs.
_UNSIZED = "some transfers are described in memory, so that their size is not known"
_FIRST_CORE = "two cores share the work of one chip: bundles and transfers are those of the first"
OF_ALL = (_UNSIZED, _FIRST_CORE)

ONCE = Range(1, 1)
NONE = Range(0, 0)


@dataclass(frozen=True)
class Loop:
    """A loop: nesting depth from 1, bundles outside of inner loops, and what it comes to in one execution.

    `trips` is how often it runs each time it is come to, where that is always the same number; `executions` how often
    its beginning runs in all.
    """

    depth: int
    trips: int | None
    bundles: int
    executions: Range
    executed_bundles: Range


@dataclass(frozen=True)
class Hottest:
    """The loop in whose own body most bundles run, and the share of each slot that they use."""

    loop: int  # its place among the program's loops
    executed_bundles: int
    occupancy: dict[str, float]


@dataclass(frozen=True)
class Transfers:
    """Copies between two memories in one direction: how many statements, how often they happen, how much they move."""

    direction: str
    statements: int
    executed: Range
    bytes: Range


@dataclass(frozen=True)
class Utilization:
    """Uses of each slot in each bundle."""

    capacity: dict[str, int]
    rows: list[list[int]]  # of each bundle, in the order of `capacity`

    def used(self, times: Sequence[int] | None = None) -> dict[str, int]:
        """Uses of each slot in all bundles, each as often as `times` says."""
        weights = times or [1] * len(self.rows)
        return {
            slot: sum(row[n] * weight for row, weight in zip(self.rows, weights, strict=True))
            for n, slot in enumerate(self.capacity)
        }

    def occupancy(self, times: Sequence[int]) -> dict[str, float]:
        """The share of each slot's capacity that is used over the bundles as they run."""
        bundles = sum(times)
        used = self.used(times)
        room = {slot: capacity * bundles for slot, capacity in self.capacity.items() if capacity * bundles}
        return {slot: round(used[slot] / room[slot], 4) for slot in room}


@dataclass(frozen=True)
class Program:
    """One compiled program. What could not be counted is None or empty, and a note of the schedule says so."""

    name: str
    kind: str  # "kernel", "fusion", "top level", "runtime" (what libtpu adds to every program) or "other"
    bundles: int
    empty_bundles: int
    loops: list[Loop]
    slots: dict[str, dict[str, int]]  # slot → {capacity per bundle, uses in all bundles}
    spill_stores: int
    spill_fills: int
    calls: Range = ONCE  # how often the top level calls it
    executed_bundles: Range | None = None  # of one call
    executed_spills: Range | None = None
    occupancy: dict[str, float] = field(default_factory=dict)  # over the bundles as they run
    hottest: Hottest | None = None
    dma: list[Transfers] = field(default_factory=list)
    source: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Listings:
    """What the dump says of one program."""

    name: str
    bundles: tuple[Bundle, ...]
    utilization: Utilization | None


def utilization(text: str) -> Utilization | None:
    """Older libtpu separate the columns by `|`, newer by commas and blanks. None where the form is another one."""
    cells = [[cell for cell in re.split(r"[|,\s]+", line) if cell] for line in text.splitlines()]
    numbers = [[int(cell) for cell in row] for row in cells if row and all(map(_COUNT.fullmatch, row))]
    header = next((row for row in cells if "MXU" in row), None)
    if header is None or not numbers or any(len(row) != len(header) for row in numbers):
        return None
    return Utilization(dict(zip(header, numbers[0], strict=True)), numbers[1:])


@dataclass(frozen=True)
class Flow:
    """A program's blocks, and two counts of them: without and with the parts of which it is not known whether they run."""

    blocks: list[Block]
    least: Counts
    most: Counts

    def blocks_run(self, number: int) -> Range:
        counts = self.least.blocks[number], self.most.blocks[number]
        return Range(min(counts), max(counts) if self.is_bounded(number) else None)

    def is_bounded(self, number: int) -> bool:
        """Whether it is known how often a block runs at most."""
        return self.is_whole and number not in self.least.endless and number not in self.most.endless

    def trips(self, number: int) -> int | None:
        """How often a block runs in a row each time it is come to, where that is known and always the same."""
        rows = {row for one in (self.least, self.most) if (row := one.trips[number])}
        few, most = min((row[0] for row in rows), default=0), max((row[1] for row in rows), default=0)
        return few if self.is_bounded(number) and few == most > 0 else None

    def block_of(self, at: int) -> int:
        """The block that a bundle is in."""
        return next(number for number, block in enumerate(self.blocks) if block.first <= at <= block.last)

    def goes_back(self, number: int) -> bool:
        return EXIT != self.blocks[number].taken <= number

    @property
    def is_whole(self) -> bool:
        return self.least.is_whole and self.most.is_whole

    @property
    def is_exact(self) -> bool:
        bounded = all(self.is_bounded(number) for number in range(len(self.blocks)))
        return bounded and self.least.blocks == self.most.blocks

    def times(self) -> list[int]:
        """How often each bundle runs; sure where the flow is exact."""
        return [count for block, count in zip(self.blocks, self.least.blocks, strict=True) for _ in range(len(block))]


def flow(bundles: Sequence[Bundle], slots: int | None, always: Collection[str] = ()) -> Flow:
    """Execute a program's scalar part. Raises NotUnderstoodError.

    `always` are operations that the top level calls whatever the runtime decides: those of the module's entry.
    """
    blocks = control_flow.blocks(bundles, slots)
    called = (any(name in always for name in _called(bundles, block)) for block in blocks)
    sure = frozenset(number for number, is_sure in enumerate(called) if is_sure)
    try:
        least = scalar.count(bundles, blocks, whole=False, sure=sure)
        return Flow(blocks, least, scalar.count(bundles, blocks, whole=True) if least.doubts else least)
    except (TypeError, IndexError) as error:  # more or fewer operands than in any release, or a division's pair
        message = "a statement has other operands than its operation takes"
        raise NotUnderstoodError(message) from error


def read(
    listings: Listings, slots: int | None, granule: int | None, always: Collection[str] = ()
) -> tuple[Program, list[str]]:
    """The program's figures, and what could not be understood of it.

    `slots` is the number of a branch's delay slots, `granule` the bytes in which transfers are counted, `always` what
    the top level calls whatever the runtime decides.
    """
    program, notes = _static(listings), list(_gaps(listings))
    if not listings.bundles:
        return program, notes
    try:
        found = flow(listings.bundles, slots, always)
    except NotUnderstoodError as error:
        return program, [*notes, f"{listings.name}: how often its parts run is not known: {error}"]
    return _executed(program, listings, found, granule), [*notes, *_doubts(listings, found)]


def _static(listings: Listings) -> Program:
    bundles, used = listings.bundles, listings.utilization
    uses = used.used() if used else {}
    return Program(
        name=listings.name,
        kind="other",
        bundles=max(len(used.rows) if used else 0, len(bundles)),
        empty_bundles=sum(bundle.is_empty for bundle in bundles),
        loops=[],
        slots={slot: {"capacity": used.capacity[slot], "used": uses[slot]} for slot in uses} if used else {},
        # libtpu up to 0.0.17 has no slot of its own for spills; the listing shows them in every release
        spill_stores=uses.get("VSTORE:SPILL", sum(bundle.spill_stores for bundle in bundles)),
        spill_fills=uses.get("VLOAD:FILL", sum(bundle.spill_fills for bundle in bundles)),
        fingerprint=listing.fingerprint(bundles) if bundles else None,
    )


def _gaps(listings: Listings) -> Iterator[str]:
    used, understood = listings.utilization, len(listings.bundles)
    if used is None:
        yield f"{listings.name}: this libtpu writes its slot use in a form that is not understood"
    elif understood != len(used.rows):
        yield f"{listings.name}: {understood} bundles were understood of {len(used.rows)}"


def _executed(program: Program, listings: Listings, found: Flow, granule: int | None) -> Program:
    loops = control_flow.loops(found.blocks)
    used = listings.utilization
    fits = used is not None and len(used.rows) == len(listings.bundles) and found.is_exact
    return replace(
        program,
        loops=[_loop(loop, found) for loop in loops],
        executed_bundles=_bundles_run(found, range(len(found.blocks))),
        executed_spills=_spills_run(listings.bundles, found),
        occupancy=used.occupancy(found.times()) if used and fits else {},
        hottest=_hottest(loops, found, used if fits else None),
        dma=list(_transfers(listings.bundles, found, granule)),
    )


def _bundles_run(found: Flow, numbers: Sequence[int]) -> Range:
    total = NONE
    for number in numbers:
        total += found.blocks_run(number).times(Range(*[len(found.blocks[number])] * 2))
    return total


def _loop(loop: control_flow.Loop, found: Flow) -> Loop:
    return Loop(
        depth=loop.depth,
        trips=found.trips(loop.first),
        bundles=sum(len(found.blocks[number]) for number in loop.own),
        executions=found.blocks_run(loop.first),
        executed_bundles=_bundles_run(found, loop.own),
    )


def _spills_run(bundles: Sequence[Bundle], found: Flow) -> Range:
    total = NONE
    for number, block in enumerate(found.blocks):
        spills = sum(bundle.spill_stores + bundle.spill_fills for bundle in bundles[block.first : block.last + 1])
        total += found.blocks_run(number).times(Range(spills, spills))
    return total


def _hottest(loops: Sequence[control_flow.Loop], found: Flow, used: Utilization | None) -> Hottest | None:
    """None where there is no loop, or where it is not sure how often each one runs."""
    if not loops or not found.is_exact:
        return None
    runs = [_bundles_run(found, loop.own).low for loop in loops]
    place = max(range(len(loops)), key=lambda n: (runs[n], -n))
    times = found.times()
    inside = {
        at for number in loops[place].own for at in range(found.blocks[number].first, found.blocks[number].last + 1)
    }
    weights = [count if at in inside else 0 for at, count in enumerate(times)]
    return Hottest(place, runs[place], used.occupancy(weights) if used else {})


def _transfers(bundles: Sequence[Bundle], found: Flow, granule: int | None) -> Iterator[Transfers]:
    by_direction: dict[str, list[tuple[Range, Range]]] = {}
    for number, (at, statement) in enumerate(scalar.transfers(bundles)):
        source, _, target = statement.operation.removeprefix("dma.").partition("_to_")
        direction = f"{source} → {target}" if target else DESCRIBED
        by_direction.setdefault(direction, []).append(
            _moved(number, found.is_bounded(found.block_of(at)), found, granule)
        )
    for direction, entries in sorted(by_direction.items()):
        executed = sum((happens for happens, _ in entries), NONE)
        yield Transfers(direction, len(entries), executed, sum((moved for _, moved in entries), NONE))


def _moved(number: int, is_bounded: bool, found: Flow, granule: int | None) -> tuple[Range, Range]:
    """How often one transfer happens, and the bytes it moves in all."""
    counts = (found.least, found.most)
    happens = Range(
        min(one.transfers[number] for one in counts),
        max(one.transfers[number] + one.perhaps[number] for one in counts) if is_bounded else None,
    )
    if granule is None:
        return happens, NONE if happens == NONE else Range(0, None)
    low = granule * min(one.granules[number] for one in counts)
    high = granule * max(one.granules[number] + one.granules_perhaps[number] for one in counts)
    is_sized = is_bounded and not any(number in one.unsized for one in counts)
    return happens, Range(low, high if is_sized else None)


def _doubts(listings: Listings, found: Flow) -> Iterator[str]:
    """What the figures leave open, and what they suppose."""
    name, counts = listings.name, (found.least, found.most)
    doubts = found.least.doubts | found.most.doubts
    endless = found.least.endless | found.most.endless
    if doubts:
        ends = sorted(number for number in doubts if number in endless and found.goes_back(number))
        parts = sorted(doubts - set(ends))
        yield from ([f"{name}: {_regions(found, parts)}; counts are ranges"] if parts else [])
        yield from ([f"{name}: {_loops(found, ends)}; counts there have no upper end"] if ends else [])
    if not found.is_whole:
        yield f"{name}: counting was given up after {scalar.MOST:,} blocks, so that its counts have no upper end"
    if any(one.operation == "dma" for _, one in scalar.transfers(listings.bundles)):
        yield _UNSIZED
    if any(one.assumes_core for one in counts):
        yield _FIRST_CORE


def _regions(found: Flow, numbers: Sequence[int]) -> str:
    return f"what only the runtime knows decides whether bundles run, at {_places(found, numbers)}"


def _loops(found: Flow, numbers: Sequence[int]) -> str:
    return f"what only the runtime knows decides where a loop ends, at {_places(found, numbers)}"


def _places(found: Flow, numbers: Sequence[int]) -> str:
    """The bundles of the branches in question, or the first of them."""
    shown = [f"{found.blocks[number].branches_at:#x}" for number in numbers[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else "")


def calls(bundles: Sequence[Bundle], slots: int | None, always: Collection[str]) -> Mapping[str, Range]:
    """How often the top level calls each program. Raises NotUnderstoodError."""
    found = flow(bundles, slots, always)
    called: dict[str, Range] = {}
    for number, block in enumerate(found.blocks):
        for name in _called(bundles, block):
            called[name] = called.get(name, NONE) + found.blocks_run(number)
    return called


def _called(bundles: Sequence[Bundle], block: Block) -> Iterator[str]:
    for bundle in bundles[block.first : block.last + 1]:
        for statement in bundle.statements:
            if statement.called:
                yield statement.called
