"""How often each block of a listing runs: its scalar statements are executed, as far as they decide branches.

A listing holds the whole scalar program: the grid's loop, the conditions of `pl.when`, the pipeline's bookkeeping. What
the grid decides is known here as it is on the device; what only the runtime knows (addresses, data that were copied to
SMEM) is unknown, and so is what depends on it. No vector value is computed, and nothing here is a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .control_flow import EXIT, Block
from .listing import Bundle, Predicate, Statement

MOST = 1_000_000  # blocks that are executed before the counting is given up
_MANY = MOST + 1

_REGISTER = re.compile(r"(!?)%([a-z]*\d+)(?:_[a-z]+\d+)?")
_SMEM = re.compile(r"\[smem:\[(#allocation\d+(?:_spill)?(?: \+ \$0x[0-9a-f]+)?)\]\]")
_WHOLE = re.compile(r"-?\d{1,20}")
_WORD = 0xFFFFFFFF
_SIGNED = {"s32"}
_ARITHMETIC = {
    "sadd": "({0} + {1}) & W",
    "ssub": "({0} - {1}) & W",
    "smul": "({0} * {1}) & W",
    "sand": "{0} & {1}",
    "sor": "{0} | {1}",
    "sxor": "{0} ^ {1}",
    "sshll": "({0} << ({1} & 31)) & W",
    "sshrl": "{0} >> ({1} & 31)",
    "smin": "min({0}, {1})",
    "smax": "max({0}, {1})",
    "sc": "{0} + {1} > W",
    "por": "{0} or {1}",
    "pand": "{0} and {1}",
    "pnand": "not ({0} and {1})",
    "pnor": "not ({0} or {1})",
    "pxor": "{0} != {1}",
}
_ORDER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COPIES = ("smov", "pmov", "sphi")
_CORE_ID = re.compile(r"/\*[^*]*\bcore id\b")  # from libtpu 0.0.50 on "megacore core id :: core id"


@dataclass(frozen=True)
class Counts:
    """What a program's execution counted."""

    blocks: tuple[int, ...]  # how often each ran
    trips: tuple[tuple[int, int] | None, ...]  # the fewest and most times each ran in a row, each time it was come to
    transfers: tuple[int, ...]  # how often each transfer happened, in the listing's order
    perhaps: tuple[int, ...]  # how often it is not known whether it did
    granules: tuple[int, ...]  # what each transfer moved in all
    granules_perhaps: tuple[int, ...]  # and what it moved when it was not known whether it happened
    unsized: frozenset[int]  # transfers whose size was not known at least once
    doubts: frozenset[int]  # blocks whose branch is decided by what only the runtime knows
    endless: frozenset[int]  # blocks in loops whose end is decided by that: they may run more often
    is_whole: bool  # whether the program's end was reached
    assumes_core: bool  # whether it was counted as core 0


@dataclass
class _Machine:
    """The values of one execution, by slot; None is unknown."""

    values: list[int | bool | None]
    transfers: list[int]
    perhaps: list[int]
    granules: list[int]
    granules_perhaps: list[int]
    unsized: set[int]

    @classmethod
    def of(cls, slots: int, transfers: int) -> _Machine:
        return cls([None] * slots, [0] * transfers, [0] * transfers, [0] * transfers, [0] * transfers, set())

    def transfer(self, number: int, happens: bool | None, granules: int | None) -> None:
        times, sizes = (self.transfers, self.granules) if happens else (self.perhaps, self.granules_perhaps)
        times[number] += 1
        if granules is None:
            self.unsized.add(number)
        else:
            sizes[number] += granules


_Run = Callable[[_Machine], bool | None]


class _Trips:
    """How often blocks run in a row: a block that is come to from one before it begins a new row."""

    def __init__(self, blocks: int) -> None:
        self._row, self._fewest, self._most = [0] * blocks, [_MANY] * blocks, [0] * blocks

    def begin(self, number: int) -> None:
        row = self._row[number]
        if row:
            self._fewest[number] = min(row, self._fewest[number])
            self._most[number] = max(row, self._most[number])
        self._row[number] = 1

    def go_on(self, number: int) -> None:
        self._row[number] += 1

    def ended(self) -> tuple[tuple[int, int] | None, ...]:
        for number in range(len(self._row)):
            self.begin(number)
        return tuple((few, most) if most else None for few, most in zip(self._fewest, self._most, strict=True))


def count(
    bundles: Sequence[Bundle], blocks: Sequence[Block], *, whole: bool, sure: frozenset[int] = frozenset()
) -> Counts:
    """Execute the program once.

    Where it is unknown whether a part is passed over, it runs when `whole` is true or when one of its blocks is in
    `sure`, and does not otherwise: two counts make a range. What such a part computes is unknown afterwards. A loop
    whose end is unknown is left after one trip.
    """
    compiled = _Compiler(bundles, blocks)
    runs = [compiled.block(number) for number in range(len(blocks))]
    machine = _Machine.of(compiled.slots, len(compiled.transfers))
    counted, trips = [0] * len(blocks), _Trips(len(blocks))
    doubts: set[int] = set()
    endless: set[int] = set()
    forget: dict[int, list[int]] = {}
    number, before, steps = (0 if blocks else EXIT), EXIT, 0
    while number != EXIT and steps < MOST:
        steps += 1
        for slot in forget.pop(number, ()) if forget else ():
            machine.values[slot] = None
        counted[number] += 1
        (trips.go_on if number <= before else trips.begin)(number)
        block = blocks[number]
        taken = runs[number](machine)
        before = number
        if taken is None:
            doubts.add(number)
            goes_back = EXIT != block.taken <= number
            taken = not goes_back and not whole and sure.isdisjoint(_passed_over(number, block, len(blocks)))
            if goes_back:
                endless.update(range(block.taken, number + 1))
                forget.setdefault(block.following, []).extend(compiled.written(block.taken, number + 1))
            else:
                forget.setdefault(block.taken, []).extend(compiled.written(number + 1, block.taken))
        number = block.taken if taken else block.following
    return Counts(
        blocks=tuple(counted),
        trips=trips.ended(),
        transfers=tuple(machine.transfers),
        perhaps=tuple(machine.perhaps),
        granules=tuple(machine.granules),
        granules_perhaps=tuple(machine.granules_perhaps),
        unsized=frozenset(machine.unsized),
        doubts=frozenset(doubts),
        endless=frozenset(endless),
        is_whole=number == EXIT,
        assumes_core=compiled.assumes_core,
    )


def _passed_over(number: int, block: Block, blocks: int) -> range:
    """The blocks that do not run when a block's branch goes forward."""
    return range(number + 1, blocks if block.taken == EXIT else block.taken)


def transfers(bundles: Sequence[Bundle]) -> list[tuple[int, Statement]]:
    """The statements that copy between memories, each with its bundle, in the listing's order."""
    return [
        (number, statement)
        for number, bundle in enumerate(bundles)
        for statement in bundle.statements
        if _is_transfer(statement)
    ]


def _is_transfer(statement: Statement) -> bool:
    """What v2 and v3 copy by hand has its operands in SMEM and is written `dma [#allocation7]`."""
    return statement.operation == "dma" or (statement.operation.startswith("dma.") and "_to_" in statement.operation)


class _Compiler:
    """Makes a Python function of each block, of the statements that branches and transfers depend on."""

    def __init__(self, bundles: Sequence[Bundle], blocks: Sequence[Block]) -> None:
        self.bundles, self.blocks = bundles, blocks
        self.transfers = {id(statement): n for n, (_, statement) in enumerate(transfers(bundles))}
        self.assumes_core = False
        self._statements = [statement for bundle in bundles for statement in bundle.statements]
        self._needed = self._slice()
        self._slots: dict[str, int] = {}
        self._cells = self._coalesced()
        self._private = _private_places(self._statements)
        self._popped = _popped(self._statements)

    @property
    def slots(self) -> int:
        return len(self._slots)

    def block(self, number: int) -> _Run:
        """The function that executes a block and says whether its branch is taken; None is not known."""
        block = self.blocks[number]
        lines = [line for at in range(block.first, block.last + 1) for line in self._bundle(at, block)]
        source = "\n    ".join(["def run(m):", "v = m.values", "taken = False", *lines, "return taken"])
        scope: dict[str, _Run] = {}
        exec(source, {"W": _WORD, "signed": _signed}, scope)  # noqa: S102  # made of numbers and names of slots alone
        return scope["run"]

    def written(self, first: int, end: int) -> list[int]:
        """The slots that blocks from `first` up to `end` may write."""
        last = len(self.blocks) if end == EXIT else end
        names = (
            name
            for block in self.blocks[first:last]
            for bundle in self.bundles[block.first : block.last + 1]
            for statement in bundle.statements
            for name in _results(statement)
            if name in self._needed
        )
        return [slot for name in names for slot in self._writes(name)]

    def _slice(self) -> set[str]:
        """The names of the values that decide a branch or a transfer, directly or through others."""
        makers: dict[str, list[Statement]] = {}
        for statement in self._statements:
            for name in _results(statement):
                makers.setdefault(name, []).append(statement)
        deciding = [one for one in self._statements if one.operation == "sbr.rel" or _is_transfer(one)]
        todo = [name for one in deciding for name in _decisive(one)]
        needed: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in needed:
                needed.add(name)
                todo += [used for maker in makers.get(name, ()) for used in _uses(maker)]
        return needed

    def _coalesced(self) -> dict[str, list[str]]:
        """For each value the phis that take it: what it is written to is theirs as well."""
        cells: dict[str, list[str]] = {}
        for statement in self._statements:
            if statement.operation == "sphi" and statement.result and _plain(statement.result) in self._needed:
                for operand in statement.operands:
                    cells.setdefault(_name(operand), []).append(f"phi {_plain(statement.result)}")
        return cells

    def _slot(self, name: str) -> int:
        return self._slots.setdefault(name, len(self._slots))

    def _writes(self, name: str) -> list[int]:
        return [self._slot(name), *(self._slot(cell) for cell in self._cells.get(name, ()))]

    def _bundle(self, at: int, block: Block) -> Iterator[str]:
        """Phis first: they say what a value is at the bundle's beginning."""
        statements = self.bundles[at].statements
        for statement in sorted(statements, key=lambda one: one.operation != "sphi"):
            if at == block.branches_at and statement is block.branch:
                yield f"taken = {self._condition(statement.predicate)}"
            elif id(statement) in self.transfers:
                yield from self._transfer(statement)
            elif any(name in self._needed for name in _results(statement)):
                yield from self._assignment(statement)
            if _writes_anywhere(statement):
                yield from (f"v[{self._slot(place)}] = None" for place in sorted(self._private))

    def _transfer(self, statement: Statement) -> Iterator[str]:
        number, condition = self.transfers[id(statement)], self._condition(statement.predicate)
        size = self._operand(statement.granules) if statement.granules else "None"
        yield f"happens = {condition}"
        yield f"if happens is not False: m.transfer({number}, happens, {size})"

    def _condition(self, predicate: Predicate | None) -> str:
        if predicate is None:
            return "True"
        value = f"v[{self._slot(_plain(predicate.name))}]"
        return f"(None if {value} is None else not {value})" if predicate.negated else value

    def _assignment(self, statement: Statement) -> Iterator[str]:
        """Its result in its own slot and in those of the phis that take it."""
        (name,) = _results(statement)
        targets = " = ".join(f"v[{slot}]" for slot in self._writes(name))
        value = self._value(statement)
        if statement.predicate is None:
            yield f"{targets} = {value}"
            return
        yield f"happens = {self._condition(statement.predicate)}"
        yield f"if happens: {targets} = {value}"
        yield f"elif happens is None: {targets} = None"
        if statement.predicate.otherwise is not None:
            yield f"else: {targets} = {self._operand(statement.predicate.otherwise)}"

    def _value(self, statement: Statement) -> str:
        """The result as an expression; `None` where this kind of statement is not known."""
        operation, *kind = statement.operation.split(".")
        operands = [self._operand(text) for text in statement.operands]
        if operation == "sphi" and statement.result:
            return f"v[{self._slot(f'phi {_plain(statement.result)}')}]"
        if operation == "sld" and _CORE_ID.search(statement.text):
            self.assumes_core = True
            return "0"
        if operation in ("sld", "sst"):
            return operands[-1]
        if operation in _COPIES:
            return operands[0]
        if operation == "pneg":
            return _if_known([operands[0]], f"not {operands[0]}")
        if operation == "scalar_select":
            return f"(None if {operands[0]} is None else {operands[1]} if {operands[0]} else {operands[2]})"
        if operation == "sshra":
            return _if_known(operands, f"(signed({operands[0]}) >> ({operands[1]} & 31)) & W")
        if operation == "sdivrem":
            return f"(None if {operands[0]} is None or not {operands[1]} else divmod({operands[0]}, {operands[1]}))"
        if operation == "spop":
            which = self._popped.get(id(statement))
            return "None" if which is None else _if_known(operands, f"{operands[0]}[{which}]")
        if operation == "scmp":
            return _compared(kind, operands)
        form = _ARITHMETIC.get(operation)
        return "None" if form is None else _if_known(operands, form.format(*operands))

    def _operand(self, text: str) -> str:
        if found := _SMEM.search(text):
            source = text[found.end() :].strip()
            return self._operand(source) if source else f"v[{self._slot(found[1])}]"
        if register := _REGISTER.fullmatch(text):
            value = f"v[{self._slot(register[2])}]"
            return f"(None if {value} is None else not {value})" if register[1] else value
        return str(int(text) & _WORD) if _WHOLE.fullmatch(text) else "None"


def _private_places(statements: Iterable[Statement]) -> frozenset[str]:
    """The places in SMEM that something else may write as well; spilled registers are nobody else's."""
    places = (_SMEM.search(statement.text) for statement in statements if statement.operation == "sst")
    return frozenset(place[1] for place in places if place and "_spill" not in place[1])


def _writes_anywhere(statement: Statement) -> bool:
    """Whether it may write a place in SMEM that it does not name."""
    copied = statement.operation.startswith("dma.") and statement.operation.endswith("_to_smem")
    return copied or (statement.operation == "sst" and not _SMEM.search(statement.text))


def _results(statement: Statement) -> list[str]:
    if statement.operation == "sst":
        place = _SMEM.search(" ".join(statement.operands))
        return [place[1]] if place else []
    return [_plain(statement.result)] if statement.result else []


def _uses(statement: Statement) -> list[str]:
    """The names of the values that its result depends on."""
    used = [found[2] for text in statement.operands for found in _REGISTER.finditer(text)]
    places = [] if statement.operation == "sst" else [m[1] for text in statement.operands for m in _SMEM.finditer(text)]
    otherwise = statement.predicate.otherwise if statement.predicate else None
    return [*used, *places, *_names_of(statement.predicate), *([_name(otherwise)] if otherwise else [])]


def _decisive(statement: Statement) -> list[str]:
    """The names of the values that decide whether a branch or a transfer happens, and how large it is."""
    size = _REGISTER.fullmatch(statement.granules) if statement.granules else None
    return [*_names_of(statement.predicate), *([size[2]] if size else [])]


def _names_of(predicate: Predicate | None) -> list[str]:
    return [] if predicate is None else [_plain(predicate.name)]


def _name(text: str) -> str:
    found = _REGISTER.search(text)
    return found[2] if found else text


def _plain(name: str) -> str:
    """A value's own name, without the register that holds it."""
    return name.partition("_")[0]


def _if_known(operands: Sequence[str], expression: str) -> str:
    unknown = [f"{one} is None" for one in dict.fromkeys(operands) if not one.isdigit()]
    return f"(None if {' or '.join(unknown)} else {expression})" if unknown else f"({expression})"


def _compared(kind: Sequence[str], operands: Sequence[str]) -> str:
    """`scmp.lt.s32.totalorder` and its like; floating-point numbers are not compared."""
    if len(kind) < 2 or kind[0] not in _ORDER or kind[1] not in ("s32", "u32"):  # noqa: PLR2004  # order and type
        return "None"
    sides = [f"signed({one})" if kind[1] in _SIGNED else one for one in operands]
    return _if_known(operands, f"{sides[0]} {_ORDER[kind[0]]} {sides[1]}")


def _popped(statements: Sequence[Statement]) -> dict[int, int]:
    """Which part of a division each `spop` takes: 0 the quotient, 1 the remainder; the quotient comes first of two."""
    divisions = {one.result: one for one in statements if one.operation.startswith("sdivrem")}
    pops: dict[str, list[Statement]] = {}
    for statement in statements:
        if statement.operation.startswith("spop") and statement.operands:
            pops.setdefault(statement.operands[0].removeprefix("%"), []).append(statement)
    return {
        id(pop): part
        for name, division in divisions.items()
        for pop, part in zip(pops.get(name or "", ()), _parts(division, len(pops.get(name or "", ()))), strict=False)
    }


def _parts(division: Statement, pops: int) -> tuple[int, ...]:
    if pops == 2:  # noqa: PLR2004  # quotient and remainder
        return 0, 1
    if "kRem" in division.text:
        return (1,)
    return (0,) if "kDiv" in division.text and "Rem" not in division.text else ()


def _signed(word: int) -> int:
    return word - (1 << 32) if word & 0x80000000 else word
