"""The store: what was observed and judged, kept in a database. `writer` puts values in, `reader` takes them out."""

from watchdog.store.engine import Store, open_store
from watchdog.store.values import Gate, Lock, Past, Run, RunState

__all__ = ["Gate", "Lock", "Past", "Run", "RunState", "Store", "open_store"]
