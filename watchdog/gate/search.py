"""Two searches that know nothing of packages: the smallest set that brings a regression, and the first bad release.

Both ask through a function and take no for no answer: what cannot be judged or installed is walked around, and the
result says what that leaves open. Nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Generic, TypeVar

from watchdog.gate.report import Probed

IsOver = Callable[[], bool]
Unit = TypeVar("Unit", bound=Hashable)
Release = TypeVar("Release", bound=Hashable)

_SUSPECTS = 1  # units that are tried alone, in the caller's order, before sets are halved
_FEW = 8  # a set of at most so many is looked through unit by unit where its minimality is in doubt


@dataclass(frozen=True)
class Cause(Generic[Unit]):
    """The smallest set of units found that brings the regression.

    It is 1-minimal when `complete`: without any one of its units the regression is not there.
    """

    units: frozenset[Unit]
    unsettled: frozenset[Unit]  # of its units: those of which it is not known whether they are needed
    out_of_time: bool

    @property
    def complete(self) -> bool:
        return not self.unsettled and not self.out_of_time


def smallest_cause(
    units: Sequence[Unit], ask: Callable[[frozenset[Unit]], Probed], is_over: IsOver = lambda: False
) -> Cause[Unit]:
    """The smallest set of `units` whose switch brings the regression, by delta debugging.

    With none switched it must be known to be good, and with all bad: neither is asked. The unit that is suspected
    most comes first. The method is ddmin (A. Zeller, R. Hildebrandt: Simplifying and Isolating Failure-Inducing Input, IEEE
    Transactions on Software Engineering 28(2), 2002), after a look at the first unit alone; n units take at most
    n² + 4n questions, and a single cause among them about 2 log₂ n.
    """
    search = _Minimising(tuple(dict.fromkeys(units)), ask, is_over)
    found = search.from_suspects() or search.halved()
    found = search.without_doubts(found)
    return Cause(frozenset(found), search.unsettled(found), search.out_of_time)


@dataclass
class _Minimising(Generic[Unit]):
    """Delta debugging at work, and what it has learned."""

    units: tuple[Unit, ...]
    ask: Callable[[frozenset[Unit]], Probed]
    is_over: IsOver
    known: dict[frozenset[Unit], Probed] = field(default_factory=dict)
    out_of_time: bool = False

    def __post_init__(self) -> None:
        self.known[frozenset(self.units)] = Probed.BAD
        self.known[frozenset()] = Probed.GOOD

    def is_bad(self, chosen: Sequence[Unit]) -> bool:
        return self.probe(chosen) is Probed.BAD

    def probe(self, chosen: Sequence[Unit]) -> Probed:
        """What is known of a set, asked where nothing is; once the time is up, nothing more is."""
        key = frozenset(chosen)
        if key not in self.known:
            if self.out_of_time or self.is_over():
                self.out_of_time = True
                return Probed.UNKNOWN
            self.known[key] = self.ask(key)
        return self.known[key]

    def from_suspects(self) -> tuple[Unit, ...]:
        """The first unit, where it is enough alone."""
        return next(((unit,) for unit in self.units[:_SUSPECTS] if self.is_bad((unit,))), ())

    def halved(self) -> tuple[Unit, ...]:
        """ddmin: keep a part that is bad, or what is left without a part; where neither is, cut smaller parts."""
        left, parts = self.units, 2
        while len(left) > 1:
            cut = _parts(left, parts)
            rests = [tuple(unit for unit in left if unit not in part) for part in cut]
            if smaller := next(filter(self.is_bad, cut), None):
                left, parts = smaller, 2
            elif smaller := next(filter(self.is_bad, rests), None):
                left, parts = smaller, max(parts - 1, 2)
            elif parts >= len(left):
                break
            else:
                parts = min(2 * parts, len(left))
        return left

    def without_doubts(self, found: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """Where a set lacks proof because parts of it could not be judged: each of its units alone, if they are few."""
        if len(found) > _FEW or not self.unsettled(found):
            return found
        return next(((unit,) for unit in found if self.is_bad((unit,))), found)

    def unsettled(self, found: Sequence[Unit]) -> frozenset[Unit]:
        """The units without which it could not be judged."""
        rests = {unit: [other for other in found if other != unit] for unit in found}
        return frozenset(unit for unit, rest in rests.items() if self.probe(rest) is not Probed.GOOD)


def _parts(units: tuple[Unit, ...], count: int) -> list[tuple[Unit, ...]]:
    """`units` in so many parts of nearly the same size, none of them empty."""
    bounds = [len(units) * place // count for place in range(count + 1)]
    return [units[low:high] for low, high in pairwise(bounds) if low < high]


@dataclass(frozen=True)
class Edge(Generic[Release]):
    """Between which releases something broke, in the direction of the search."""

    last_good: Release | None  # None: not even the first was good
    first_bad: Release | None  # None: not even the last was bad
    between: tuple[Release, ...] = ()  # of these nothing is known: any of them may be the first bad one
    unjudged: tuple[Release, ...] = ()  # all that were asked in vain
    contradictions: tuple[Release, ...] = ()  # these answered otherwise when they were asked again
    confirmed: bool = False  # both sides of the edge were asked afresh, and said the same
    out_of_time: bool = False

    @property
    def is_found(self) -> bool:
        return self.last_good is not None and self.first_bad is not None

    @property
    def is_certain(self) -> bool:
        return self.is_found and self.confirmed and not self.between


def first_bad(
    releases: Sequence[Release],
    ask: Callable[[Release], Probed],
    ask_afresh: Callable[[Release], Probed],
    is_over: IsOver = lambda: False,
) -> Edge[Release]:
    """The edge between the last good and the first bad of at least two releases, in their order.

    Both ends are asked first: only from a good one to a bad one is there an edge. Then the middle of the longest stretch
    not yet asked, around what cannot be judged; at last both sides of the edge again, through `ask_afresh`.
    """
    search = _Bisection(tuple(releases), ask, is_over)
    good, bad = search.is_good(0), search.is_bad(len(releases) - 1)
    if not (good and bad):
        return Edge(
            releases[0] if good else None,
            releases[-1] if bad else None,
            unjudged=search.unjudged,
            out_of_time=search.out_of_time,
        )
    low, high = search.narrowed(0, len(releases) - 1)
    edge = Edge(
        releases[low],
        releases[high],
        between=tuple(releases[low + 1 : high]),
        unjudged=search.unjudged,
        out_of_time=search.out_of_time,
    )
    return _confirmed(edge, ask_afresh, is_over)


@dataclass
class _Bisection(Generic[Release]):
    """A bisection at work; releases are known by their place."""

    releases: tuple[Release, ...]
    ask: Callable[[Release], Probed]
    is_over: IsOver
    known: dict[int, Probed] = field(default_factory=dict)
    out_of_time: bool = False

    def is_good(self, place: int) -> bool:
        return self.probe(place) is Probed.GOOD

    def is_bad(self, place: int) -> bool:
        return self.probe(place) is Probed.BAD

    def probe(self, place: int) -> Probed | None:
        """What is known of a release, asked where nothing is; None once the time is up."""
        if place not in self.known:
            if self.out_of_time or self.is_over():
                self.out_of_time = True
                return None
            self.known[place] = self.ask(self.releases[place])
        return self.known[place]

    @property
    def unjudged(self) -> tuple[Release, ...]:
        settled = (Probed.GOOD, Probed.BAD)
        return tuple(self.releases[place] for place in sorted(self.known) if self.known[place] not in settled)

    def narrowed(self, low: int, high: int) -> tuple[int, int]:
        """The nearest good and bad places, once nothing between them is left to ask."""
        while (middle := self._middle(low, high)) is not None:
            match self.probe(middle):
                case Probed.GOOD:
                    low = middle
                case Probed.BAD:
                    high = middle
                case None:
                    break
        return low, high

    def _middle(self, low: int, high: int) -> int | None:
        """The middle of the longest stretch between two places of which nothing was asked."""
        stretches: list[list[int]] = [[]]
        for place in range(low + 1, high):
            if place in self.known:
                stretches.append([])
            else:
                stretches[-1].append(place)
        longest = max(stretches, key=len)
        return longest[len(longest) // 2] if longest else None


def _confirmed(edge: Edge[Release], ask_afresh: Callable[[Release], Probed], is_over: IsOver) -> Edge[Release]:
    """The edge, after both of its sides were asked again, as far as there was time."""
    wrong: list[Release] = []
    for release, expected in ((edge.last_good, Probed.GOOD), (edge.first_bad, Probed.BAD)):
        if release is None or edge.out_of_time or is_over():
            return replace(edge, contradictions=tuple(wrong), out_of_time=True)
        if ask_afresh(release) is not expected:
            wrong.append(release)
    return replace(edge, contradictions=tuple(wrong), confirmed=not wrong)
