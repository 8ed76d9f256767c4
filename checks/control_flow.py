"""The blocks and loops of one listing: where a branch stands, where it lands and what runs before it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .listing import Bundle, Statement

EXIT = -1  # the block after the last one
_BRANCH = "sbr.rel"
_MOST_SLOTS = 8
# tpu7x writes several cycles in which nothing is issued as one empty bundle, in the slots of some branches (libtpu
# 0.0.24 to 0.0.50); the generations before it have shorter slots and write each cycle.
_SLOTS_THAT_SHRINK = 6


class NotUnderstoodError(Exception):
    """A listing whose control flow does not read as that of the releases known so far; its text says what is odd."""


@dataclass(frozen=True)
class Block:
    """Bundles that run one after the other, as numbers of the listing; its branch, if any, lands after the last."""

    first: int
    last: int
    branch: Statement | None
    branches_at: int | None
    taken: int  # the block that follows when the branch is taken
    following: int  # and when it is not, or when there is none

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Loop:
    """Blocks `first` to `last` run again and again; `own` are those in no loop inside. Depth counts from 1."""

    depth: int
    first: int
    last: int
    own: tuple[int, ...]


def delay_slots(listings: Iterable[Sequence[Bundle]]) -> int | None:
    """How many bundles run after a branch before it lands: 1 (v2 to v4), 4 (v5e, v5p, v6e), 6 (tpu7x).

    A region ends where its branch lands, so the distance at which most branches have such an end is the number; None
    where there is no branch.
    """
    distances: Counter[int] = Counter()
    for bundles in listings:
        for at in _branches(bundles):
            after = bundles[at + 1 : at + 1 + _MOST_SLOTS]
            distances.update(distance for distance, bundle in enumerate(after, 1) if bundle.ends)
    return max(distances, key=lambda distance: (distances[distance], distance), default=None)


def _branches(bundles: Sequence[Bundle]) -> list[int]:
    return [number for number, bundle in enumerate(bundles) if any(map(_is_branch, bundle.statements))]


def _is_branch(statement: Statement) -> bool:
    return statement.operation.startswith("sbr")


def blocks(bundles: Sequence[Bundle], slots: int | None) -> list[Block]:
    """The blocks in the listing's order. Raises NotUnderstoodError."""
    at = _branches(bundles)
    if not at:
        return [Block(0, len(bundles) - 1, None, None, EXIT, EXIT)] if bundles else []
    if slots is None:
        message = "no region shows where its branches land"
        raise NotUnderstoodError(message)
    starts_of = {region: number for number, bundle in reversed(list(enumerate(bundles))) for region in bundle.starts}
    targets = {number: _target(bundles, number, starts_of) for number in at}
    landings = {number: _landing(bundles, number, targets[number], slots) for number in at}
    starts = sorted({0, *targets.values(), *(last + 1 for last in landings.values())} - {len(bundles)})
    numbers = {start: number for number, start in enumerate(starts)} | {len(bundles): EXIT}
    return [
        _block(bundles, starts, number, targets=targets, landings=landings, numbers=numbers)
        for number in range(len(starts))
    ]


def _target(bundles: Sequence[Bundle], at: int, starts_of: dict[int, int]) -> int:
    """The bundle that a branch goes to."""
    branches = [one for one in bundles[at].statements if _is_branch(one)]
    region = branches[0].target
    if len(branches) > 1 or branches[0].operation != _BRANCH or region is None:
        message = f"bundle {at:#x} branches in a way that is not known"
        raise NotUnderstoodError(message)
    return starts_of[region] if region in starts_of else _unnamed(bundles, at)


def _unnamed(bundles: Sequence[Bundle], at: int) -> int:
    """Where a region begins that no comment names: the first and the last bundle name the program instead."""
    is_loop, is_exit = bundles[0].label == "LB", bundles[-1].label == "PF"
    if is_loop and is_exit:
        message = f"bundle {at:#x} branches to the first bundle or to the last"
        raise NotUnderstoodError(message)
    return 0 if is_loop else len(bundles) - is_exit


def _landing(bundles: Sequence[Bundle], at: int, target: int, slots: int) -> int:
    """The last bundle that runs before the branch lands."""
    last = min(at + slots, len(bundles) - 1)
    return last if slots < _SLOTS_THAT_SHRINK else _shrunk(bundles, at, target, last)


def _shrunk(bundles: Sequence[Bundle], at: int, target: int, last: int) -> int:
    """The landing where an empty bundle may stand for several cycles, so that there are fewer bundles than slots.

    It is before the next region and the next branch. Regions around the branch end there. Where that comment is gone
    with the cycles, the landing is behind the last bundle whose predicate repeats the branch's, at the end of an empty
    bundle.
    """
    begun = (n for n in range(at + 1, last + 1) if bundles[n].starts or any(map(_is_branch, bundles[n].statements)))
    last = next(begun, last + 1) - 1
    window = range(at + 1, last + 1)
    repeats = max((number for number in window if _repeats(bundles[at], bundles[number])), default=at)
    ends = [number for number in window if _ends_around(bundles, number, at, target)]
    if ends:
        return max(repeats, *ends)
    pause = (n for n in window if n >= repeats and bundles[n].is_empty and (n == last or not bundles[n + 1].is_empty))
    shrinks = any(bundles[number].is_empty for number in range(at + 1, repeats))
    after = next(pause, last)
    return repeats if shrinks and after > repeats + 1 else after


def _repeats(branch: Bundle, other: Bundle) -> bool:
    """Whether a statement happens only when the branch is not taken."""
    predicate = next(one.predicate for one in branch.statements if _is_branch(one))
    if predicate is None:
        return False
    return f"({'' if predicate.negated else '!'}%{predicate.name}" in other.code


def _ends_around(bundles: Sequence[Bundle], number: int, at: int, target: int) -> bool:
    """Whether a region that holds the branch ends here; where the branch lands beyond, that says nothing."""
    if at < target <= number + 1:
        return False
    begun = {region for bundle in bundles[target if target <= at else 0 : at + 1] for region in bundle.starts}
    return any(region in begun for region in bundles[number].ends)


def _block(
    bundles: Sequence[Bundle],
    starts: Sequence[int],
    number: int,
    *,
    targets: dict[int, int],
    landings: dict[int, int],
    numbers: dict[int, int],
) -> Block:
    first = starts[number]
    end = starts[number + 1] if number + 1 < len(starts) else len(bundles)
    at = next((one for one in range(first, end) if one in targets), None)
    if at is None:
        return Block(first, end - 1, None, None, numbers[end], numbers[end])
    last = landings[at]
    if any(other in targets for other in range(at + 1, last + 1)):
        message = f"a second branch stands where the one of bundle {at:#x} has not landed"
        raise NotUnderstoodError(message)
    branch = next(one for one in bundles[at].statements if _is_branch(one))
    return Block(first, last, branch, at, numbers[targets[at]], numbers[last + 1])


def loops(found: Sequence[Block]) -> list[Loop]:
    """The loops, each from where a branch goes back to up to that branch, in the order of their beginnings."""
    ends: dict[int, int] = {}
    for number, block in enumerate(found):
        if block.branch is not None and EXIT != block.taken <= number:
            ends[block.taken] = number
    ranges = sorted(ends.items(), key=lambda one: (one[0], -one[1]))
    return [_loop(first, last, ranges) for first, last in ranges]


def _loop(first: int, last: int, ranges: Sequence[tuple[int, int]]) -> Loop:
    inner = [(a, b) for a, b in ranges if (a, b) != (first, last) and first <= a and b <= last]
    outer = [(a, b) for a, b in ranges if (a, b) != (first, last) and a <= first and last <= b]
    own = tuple(number for number in range(first, last + 1) if not any(a <= number <= b for a, b in inner))
    return Loop(1 + len(outer), first, last, own)
