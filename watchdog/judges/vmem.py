"""How little scoped VMEM a kernel compiles with: growth is told long before it becomes an out-of-memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watchdog.judges.suspects import blamed, suspect
from watchdog.judges.view import View, observed, quantity
from watchdog.judges.wording import bytes_text, percent_text, sentence
from watchdog.model import Amount, Figure, Observation, Status, Verdict

SIGNAL = "vmem"
RELEVANT_SHARE = 0.10
RELEVANT_BYTES = 256 * 1024  # 1/64 of the 16 MiB that a kernel has where nobody sets a limit (v5e)


@dataclass(frozen=True)
class Need:
    """The smallest limit that was seen to compile, and the largest that was seen to fail, in bytes."""

    compiles: float
    fails: float

    @property
    def figure(self) -> Figure:
        """What it needs: more than `fails`, at most `compiles`."""
        return Figure(self.compiles, self.fails, self.compiles, "B")


def judge(view: View) -> list[Verdict]:
    """Regressed when the need grew by more than 10 % and 256 KiB for certain; no verdict where it was not measured."""
    new, old = need(view.candidate), need(view.before)
    if new is None:
        return []
    if old is None:
        return [_alone(view, new)]
    if new.fails - old.compiles > threshold(old):
        return [_more(view, new, old)]
    if old.fails - new.compiles > threshold(new):
        return [_verdict(view, Status.IMPROVED, _change(view, new, old), new, old, kind="less VMEM")]
    return [_verdict(view, Status.PASS, _change(view, new, old), new, old)]


def need(observation: Observation | None) -> Need | None:
    """What an observed schedule tells; None where it was not measured."""
    seen = observed(observation)
    return _need(seen.data) if seen else None


def threshold(old: Need) -> float:
    """The smallest change in bytes that matters."""
    return max(RELEVANT_SHARE * old.compiles, RELEVANT_BYTES)


def _need(data: Mapping[str, Any]) -> Need | None:
    compiles, fails = quantity(data, "vmem_bytes"), quantity(data, "vmem_fails_bytes")
    return None if compiles is None or fails is None else Need(compiles, fails)


def _alone(view: View, new: Need) -> Verdict:
    text = f"compiles with {bytes_text(new.compiles)} of scoped VMEM{_allowed(view)}"
    if view.is_baseline:
        return _verdict(view, Status.PASS, f"{text}; this is the baseline", new)
    return _verdict(view, Status.SKIPPED, f"{text}; nothing to compare with", new)


def _more(view: View, new: Need, old: Need) -> Verdict:
    who = suspect(view, before=False, native=None)
    text = sentence([_change(view, new, old), blamed(view, who, before=False)])
    return _verdict(view, Status.REGRESSED, text, new, old, kind="more VMEM", suspect=who)


def _change(view: View, new: Need, old: Need) -> str:
    if new == old:
        return f"compiles with {bytes_text(new.compiles)} of scoped VMEM, as under {view.against}{_allowed(view)}"
    change = f"{bytes_text(old.compiles)} → {bytes_text(new.compiles)} ({percent_text(new.compiles, old.compiles)})"
    return f"the scoped VMEM that it compiles with, against {view.against}: {change}{_allowed(view)}"


def _allowed(view: View) -> str:
    limit = quantity(view.data, "vmem_limit_bytes")
    return f" (its author allows {bytes_text(limit)})" if limit else ""


def _verdict(view: View, status: Status, summary: str, new: Need, old: Need | None = None, **more: Any) -> Verdict:
    least = Amount(threshold(old), "B") if old else None
    return view.verdict(status, summary, signal=SIGNAL, figure=new.figure, detectable=least, **more)
