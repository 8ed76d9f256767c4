"""Whom to suspect: the comparison of custom and native under candidate and baseline pins (DESIGN, section 2)."""

from __future__ import annotations

from watchdog.judges.view import View
from watchdog.judges.wording import changes_text, normalised
from watchdog.model import PackageChange, Suspect


def suspect(view: View, *, before: bool | None, native: bool | None) -> Suspect | None:
    """Whom a finding in `view` points at; None when the four cells do not say.

    `before` tells whether the same finding is there under the baseline, `native` whether the native implementation
    shows it under the same pins; None stands for not known.
    """
    came_with = None if before is not False else _came_with(view)
    if came_with in (Suspect.MACHINE, Suspect.KERNEL):
        return came_with
    if native or view.is_native:
        return Suspect.LIBRARY
    return Suspect.KERNEL if before else came_with


def was_there(view: View, *, found: bool | None) -> bool | None:
    """Whether a finding is there under the baseline: certainly for the baseline's own cell, else as `found` says."""
    return True if view.is_baseline else found


def blamed(view: View, who: Suspect | None, *, before: bool | None) -> str | None:
    """The packages that a finding came with, as a phrase; None where it did not come with them.

    `before` is as in `suspect`.
    """
    changes = view.changes
    if before is not False or not changes:
        return None
    own, others = _split(view, changes)
    if who is Suspect.KERNEL and own and not others:
        return f"the kernel's own package changed: {changes_text(own)}"
    if who is Suspect.LIBRARY and others:
        return f"came with {changes_text(others)}"
    if who is None and own and others:
        return f"both the kernel's own ({changes_text(own)}) and other packages changed ({changes_text(others)})"
    return None


def _came_with(view: View) -> Suspect | None:
    """Who changed between the baseline, where the finding is not, and the candidate, where it is."""
    changes = view.changes
    if changes is None:
        return None
    own, others = _split(view, changes)
    if own and others:
        return None
    if own:
        return Suspect.KERNEL
    return Suspect.LIBRARY if others else Suspect.MACHINE


def _split(view: View, changes: tuple[PackageChange, ...]) -> tuple[list[PackageChange], list[PackageChange]]:
    """The changes of the kernel's own packages, and all others."""
    names = {normalised(name) for name in view.facts.own_packages}
    own = [change for change in changes if normalised(change.name) in names]
    return own, [change for change in changes if change not in own]
