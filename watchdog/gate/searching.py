"""Which packages bring what the change caused: a search of its own for each environment of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watchdog.config import Config
from watchdog.gate.blame import Tell, blame
from watchdog.gate.deadline import Deadline
from watchdog.gate.mixtures import Roots
from watchdog.gate.probes import Evaluate, Prober
from watchdog.gate.report import Blame
from watchdog.gate.sides import GivenSide
from watchdog.installation import Installed
from watchdog.lockfiles import own_words
from watchdog.model import Cell, Observation, Verdict
from watchdog.store.engine import Store
from watchdog.uv import Uv


@dataclass(frozen=True)
class Searcher:
    """What every search of a gate needs."""

    store: Store
    config: Config
    base: GivenSide
    head: GivenSide
    seen: dict[Cell, Observation]  # of the gate: the base's need not be asked again
    evaluate: Evaluate
    deadline: Deadline
    tell: Tell
    uv: Uv

    def blames(self, caused: Sequence[Verdict], installed: Sequence[Installed]) -> tuple[Blame, ...]:
        """Each of these verdicts of the head explained by one blame, or left alone where a side has no lock."""
        found: list[Blame] = []
        for after in (one for one in installed if one.request.pins == self.head.name):
            about = [verdict for verdict in caused if _is_of(verdict, after)]
            before = next((one for one in installed if _same_kernels(one, after, self.base.name)), None)
            if about and before is not None:
                found += self._search(about, before, after)
        return tuple(found)

    def _search(self, about: Sequence[Verdict], before: Installed, after: Installed) -> tuple[Blame, ...]:
        if before.lock is None or after.lock is None:
            return (Blame(tuple(one.id for one in about), (), _no_lock(before, after), complete=False),)
        prober = Prober(
            store=self.store,
            config=self.config,
            base_pins=self.base.name,
            head_pins=self.head.name,
            base=before.lock,
            seen={cell: seen for cell, seen in self.seen.items() if cell.pins == self.base.name},
            evaluate=self.evaluate,
        )
        return blame(
            about,
            before.lock,
            after.lock,
            roots=Roots(self._roots(self.base, before), self._roots(self.head, after)),
            prober=prober,
            deadline=self.deadline,
            tell=self.tell,
            uv=self.uv,
        )

    def _roots(self, side: GivenSide, installed: Installed) -> tuple[str, ...] | None:
        if side.pins.lock:
            return None
        file = side.pins.requirements_file
        words = self.config.absolute_requirements(side.pins) if file is None else own_words(self.config.absolute(file))
        return (*words, *installed.request.requirements)


def _is_of(verdict: Verdict, installed: Installed) -> bool:
    return verdict.cell in installed.request.install_cells or verdict.cell.kernel in installed.request.kernels


def _same_kernels(one: Installed, other: Installed, pins: str) -> bool:
    return one.request.pins == pins and one.request.kernels == other.request.kernels


def _no_lock(before: Installed, after: Installed) -> str:
    without = before if before.lock is None else after
    return f"{without.request.pins} has no lock to search in: its requirements could not be resolved"
