"""The fixtures that the questions share."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable

import pytest

from . import pallas
from .emit import Observed
from .faults import at, observe
from .isolation import in_child
from .plan import PlannedCell
from .session import Session
from .subject import Subject

Probe = Callable[[Subject], Observed]
Ask = Callable[[Probe], None]


@pytest.fixture(name="session")
def _session(request: pytest.FixtureRequest) -> Session:
    return next(plugin for plugin in request.config.pluginmanager.get_plugins() if isinstance(plugin, Session))


@pytest.fixture
def ask(session: Session, cell: PlannedCell) -> Ask:
    """Ask a probe in this process. The test fails where the kernel is at fault, and is skipped where none can tell."""

    def asked(probe: Probe) -> None:
        subject = Subject(session.plan, cell)
        conclude(session.record(cell, lambda: _observe(subject, probe)))

    return asked


@pytest.fixture
def ask_in_child(session: Session, cell: PlannedCell) -> Ask:
    """The same in a process of its own, forked from this one, which starts no backend."""

    def asked(probe: Probe) -> None:
        subject = Subject(session.plan, cell)
        _import_ahead()
        conclude(session.record(cell, lambda: in_child(lambda: _observe(subject, probe))))

    return asked


def _observe(subject: Subject, probe: Probe) -> Observed:
    def prepared() -> Observed:
        with at("import"):
            pallas.wrap_pallas_call()
        return probe(subject)

    return observe(subject.cell.check, subject.plan.asked, subject.module, prepared)


def _import_ahead() -> None:
    """Import what every child would import again. Whatever fails here fails in the child too, which reports it."""
    for name in ("jax.experimental.pallas", "jax.experimental.topologies", "jax.experimental.pallas.tpu"):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: S112  # reported by the child, as said
            continue
    gc.freeze()  # children share these objects; their collectors would only copy the pages


def conclude(observed: Observed) -> None:
    """Tell pytest how it went."""
    if observed.outcome == "skipped":
        pytest.skip(observed.reason or "")
    if observed.fault is not None:
        pytest.fail(f"{observed.fault.kind}: {observed.fault.message}", pytrace=False)
