"""The fixtures that the questions share."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable

import pytest

from .emit import Observed
from .isolation import in_child
from .plan import PlannedCell
from .session import Probe, Session

Ask = Callable[[Probe], None]


@pytest.fixture(name="session")
def _session(request: pytest.FixtureRequest) -> Session:
    return next(plugin for plugin in request.config.pluginmanager.get_plugins() if isinstance(plugin, Session))


@pytest.fixture
def ask(session: Session, cell: PlannedCell) -> Ask:
    """Ask a probe in this process. The test fails where the kernel is at fault, and is skipped where none can tell."""

    def asked(probe: Probe) -> None:
        session.compilers.end()
        conclude(session.record(cell, lambda: session.observe(cell, probe)))

    return asked


@pytest.fixture
def ask_in_child(session: Session, cell: PlannedCell) -> Ask:
    """The same in a process of its own, forked from this one, which starts no backend."""

    def asked(probe: Probe) -> None:
        session.compilers.end()  # it may hold the device
        _import_ahead()
        conclude(session.record(cell, lambda: in_child(lambda: session.observe(cell, probe))))

    return asked


@pytest.fixture
def ask_compiler(session: Session, cell: PlannedCell) -> Callable[[], None]:
    """The same in a child that other cells share: it imports the kernel and starts the compiler once."""

    def asked() -> None:
        _import_ahead()
        ask = session.compilers.schedule if cell.check == "schedule" else session.compilers.ask
        conclude(session.record(cell, lambda: ask(cell)))

    return asked


def _import_ahead() -> None:
    """Import what every child would import again. Whatever fails here fails in the child too, which reports it."""
    for name in ("jax.experimental.pallas", "jax.experimental.topologies", "jax.experimental.pallas.tpu"):
        try:
            importlib.import_module(name)
        except Exception:  # reported by the child, as said
            _forget_jax()
    gc.freeze()  # children share these objects; their collectors would only copy the pages


def _forget_jax() -> None:
    """Where jax itself does not import, forget the parts of it that did: with them the child's own import fails otherwise."""
    if "jax" not in sys.modules:
        for part in [name for name in sys.modules if name.startswith("jax.")]:
            del sys.modules[part]


def conclude(observed: Observed) -> None:
    """Tell pytest how it went."""
    if observed.outcome == "skipped":
        pytest.skip(observed.reason or "")
    if observed.fault is not None:
        pytest.fail(f"{observed.fault.kind}: {observed.fault.message}", pytrace=False)
