"""Which of the changed packages bring what regressed: delta debugging over mixtures of the two locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from watchdog.gate.deadline import Deadline
from watchdog.gate.mixtures import PYTHON, Mixtures, Roots, Unit, Unmixable, mixtures
from watchdog.gate.probes import Prober, Regression, Told
from watchdog.gate.report import Blame, Probe, Probed
from watchdog.gate.search import Cause, smallest_cause
from watchdog.model import Check, PackageChange, Verdict
from watchdog.pins import Lock
from watchdog.uv import Uv

Tell = Callable[[Probe, float], object]  # called with each probe and the seconds that are left

_APART = (Check.MEMORY, Check.TIMING)  # slow: asked only in the search for a finding of their own
_TOGETHER = 12  # questions that one probe answers


def blame(
    regressed: Sequence[Verdict],
    base: Lock,
    head: Lock,
    *,
    roots: Roots,
    prober: Prober,
    deadline: Deadline,
    tell: Tell,
    uv: Uv | None = None,
) -> tuple[Blame, ...]:
    """The packages that bring these verdicts of the head; each verdict is explained by one blame.

    What is broken first in a kernel's way (import before numerics) is searched for first; what the packages found bring
    as well is explained by them. Where only one thing changed, nothing is probed.
    """
    if not regressed or base.hash == head.hash:
        return ()
    mixed = mixtures(base, head, roots, uv or Uv.found())
    if len(mixed.units) == 1:
        said = f"{_named(mixed.units)} {_is(mixed.units)} all that changed{_lost(mixed, mixed.units)}"
        return (Blame(_ids(regressed), _changes(mixed.units), said),)
    if not mixed.units:
        said = "no package changed its version, so none can be named"
        return (Blame(_ids(regressed), (), said, complete=False),)
    order = list(Check)
    pending = sorted(regressed, key=lambda one: order.index(one.cell.check))
    return tuple(_Blaming(mixed, prober, deadline, tell, pending).blames())


@dataclass
class _Blaming:
    """A search at work: what is not explained yet, and all answers so far."""

    mixed: Mixtures
    prober: Prober
    deadline: Deadline
    tell: Tell
    pending: list[Verdict]
    answers: dict[frozenset[Unit], dict[str, Told]] = field(default_factory=dict)
    path: list[Probe] = field(default_factory=list)
    longest: float = 0.0  # seconds of a probe so far

    def blames(self) -> Iterable[Blame]:
        while self.pending:
            if self.is_over():
                yield self._unsearched()
                return
            yield self._one()

    def is_over(self) -> bool:
        """Whether another probe would not fit in what is left."""
        return self.deadline.is_over or self.deadline.left < self.longest

    def _one(self) -> Blame:
        """The search for the first finding that is not explained, and what else its packages explain."""
        lead, began = self.pending[0], len(self.path)
        cause = smallest_cause(
            self.mixed.units, lambda chosen: self._probe(chosen, self._asked_with(lead)), self.is_over
        )
        found = self.mixed.closed(cause.units)
        explained = [lead, *self._also_explained(lead, found)]
        narrowed = len(found) < len(self.mixed.units)
        others = self._is_not_alone(lead, cause) if cause.complete and narrowed else False
        self.pending = [one for one in self.pending if one not in explained]
        return Blame(
            _ids(explained),
            _changes(self._in_order(found)) if narrowed or cause.complete else (),
            self._sentence(cause, found, others=others),
            tuple(self.path[began:]),
            cause.complete,
        )

    def _asked_with(self, lead: Verdict) -> list[Verdict]:
        """The findings that one probe asks about: the first is what the search goes by."""
        apart = lead.cell.check if lead.cell.check in _APART else None
        also = [one for one in self.pending if (one.cell.check if one.cell.check in _APART else None) == apart]
        return [lead, *(one for one in also if one.id != lead.id)][:_TOGETHER]

    def _probe(self, chosen: Iterable[Unit], verdicts: Sequence[Verdict]) -> Probed:
        """What a mixture says to the first of these findings."""
        switched = self.mixed.closed(chosen)
        if len(switched) == len(self.mixed.units):
            return Probed.BAD
        known = self.answers.setdefault(switched, {})
        wanted = [one for one in verdicts if one.id not in known]
        if verdicts[0].id not in known:
            known.update(self._asked(switched, wanted))
        return known[verdicts[0].id].result

    def _asked(self, switched: frozenset[Unit], verdicts: Sequence[Verdict]) -> dict[str, Told]:
        lock = self.mixed.lock(switched)
        if isinstance(lock, Unmixable):
            told = [Told(Probed.UNRESOLVABLE, lock.explanation)] * len(verdicts)
        else:
            told = self.prober.ask(lock, [Regression(one) for one in verdicts])
        first = told[0]
        probe = Probe(self.mixed.what(switched), first.result, first.said, first.seconds, first.remembered)
        self.longest = max(self.longest, 0.0 if first.remembered else first.seconds)
        self.path.append(probe)
        self.tell(probe, self.deadline.left)
        return {one.id: answer for one, answer in zip(verdicts, told, strict=True)}

    def _also_explained(self, lead: Verdict, found: frozenset[Unit]) -> list[Verdict]:
        """The other findings that these packages bring, and that no fewer of them do."""
        others = [one for one in self.pending if one.id != lead.id]
        if len(found) == len(self.mixed.units):
            asked = {identity for answers in self.answers.values() for identity in answers}
            return [one for one in others if one.id in asked and not self._smaller(one, found)]
        known = self.answers.setdefault(found, {})
        unasked = [one for one in others if one.id not in known]
        if unasked and not self.is_over():
            known.update(self._asked(found, unasked))
        return [
            one
            for one in others
            if one.id in known and known[one.id].result is Probed.BAD and not self._smaller(one, found)
        ]

    def _smaller(self, verdict: Verdict, found: frozenset[Unit]) -> bool:
        """Whether fewer than these packages are known to bring a finding."""
        return any(
            switched < found and verdict.id in answers and answers[verdict.id].result is Probed.BAD
            for switched, answers in self.answers.items()
        )

    def _is_not_alone(self, lead: Verdict, cause: Cause[Unit]) -> bool:
        """Whether the rest of the change brings it as well."""
        rest = self.mixed.closed(unit for unit in self.mixed.units if unit not in self.mixed.closed(cause.units))
        if not rest or rest & cause.units or self.is_over():
            return False
        return self._probe(rest, [lead]) is Probed.BAD

    def _sentence(self, cause: Cause[Unit], found: frozenset[Unit], *, others: bool) -> str:
        ordered = self._in_order(found)
        if cause.out_of_time:
            within = "" if len(found) == len(self.mixed.units) else f"; it is among {_named(ordered)}"
            return f"the budget ended before the package was found{within}"
        leaders = self._in_order(cause.units)
        dragged = [unit for unit in ordered if unit not in leaders]
        said = f"{_named(leaders, dragged)} {'brings' if len(leaders) == 1 else 'together bring'} it"
        said += _lost(self.mixed, ordered)
        if cause.unsettled:
            said += f"; whether {_joined(unit.leader.name for unit in self._in_order(cause.unsettled))} must be among "
            said += "them could not be judged"
        return said + ("; the rest of the change brings it as well" if others else "")

    def _unsearched(self) -> Blame:
        ids = _ids(self.pending)
        self.pending = []
        return Blame(ids, (), "the budget ended before the package could be searched for", complete=False)

    def _in_order(self, units: Iterable[Unit]) -> list[Unit]:
        chosen = set(units)
        return [unit for unit in self.mixed.units if unit in chosen]


def _ids(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    return tuple(one.id for one in verdicts)


def _changes(units: Iterable[Unit]) -> tuple[PackageChange, ...]:
    return tuple(change for unit in units for change in unit.changes)


def _named(units: Sequence[Unit], dragged: Sequence[Unit] = ()) -> str:
    """Units by their first packages, with what must move along: `jax 0.8.3 → 0.9.2 (with jaxlib, which …)`."""
    extra = [change.name for unit in dragged for change in unit.changes]
    if len(units) == 1:
        return _one_named(units[0], extra)
    named = _joined(_one_named(unit, ()) for unit in units)
    return f"{named} (with {_joined(extra)}, which they must move with)" if extra else named


def _one_named(unit: Unit, extra: Iterable[str]) -> str:
    along = [*(change.name for change in unit.changes[1:]), *extra]
    moved = _moved(unit.leader)
    return f"{moved} (with {_joined(along)}, which it must move with)" if along else moved


def _moved(change: PackageChange) -> str:
    name = "Python" if change.name == PYTHON else change.name
    if change.old is None:
        return f"adding {name} {change.new}"
    return f"removing {name} {change.old}" if change.new is None else f"{name} {change.old} → {change.new}"


def _is(units: Sequence[Unit]) -> str:
    return "is" if len(units) == 1 else "are"


def _lost(mixed: Mixtures, units: Sequence[Unit]) -> str:
    """What these packages no longer require, where the base has it only through them."""
    lock = mixed.lock(units)
    if isinstance(lock, Unmixable):
        return ""
    switched = {change.name for change in _changes(units)}
    left = {entry.name for entry in lock.entries} | switched
    gone = [entry.name for entry in mixed.base.entries if entry.name not in left]
    owner = "its" if len(units) == 1 else "their"
    return f": {owner} requirements lost {_joined(gone)}" if gone else ""


def _joined(names: Iterable[str]) -> str:
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
