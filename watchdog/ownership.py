"""Which process a run belongs to: it alone writes to it, and whoever finds it gone may take the run up."""

from __future__ import annotations

from typing import Any

import psutil

from watchdog.store.values import Run, RunState


def mine() -> dict[str, Any]:
    """What a run keeps of the process that is at it; the time of its start tells it from a later one of its number."""
    own = psutil.Process()
    return {"pid": own.pid, "pid_started": own.create_time()}


def is_alive(unfinished: Run) -> bool:
    """Whether the process that a run belongs to is still at it; a later process with the same number is another one."""
    if unfinished.state is not RunState.RUNNING or "pid" not in unfinished.host:
        return False
    try:
        owner = psutil.Process(int(unfinished.host["pid"]))
        return owner.create_time() == unfinished.host["pid_started"] and owner.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
