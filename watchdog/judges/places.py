"""Places in code, as observations name them: whose line is it."""

from __future__ import annotations

_LIBRARIES = frozenset({"jax", "jaxlib", "libtpu", "numpy", "ml_dtypes", "scipy", "opt_einsum"})
_INSTALLED = ("/site-packages/", "/dist-packages/")


def is_library(place: str) -> bool:
    """Whether a file or line belongs to Python, to jax or to what jax stands on: never what a user can mend.

    `place` is a path from an entry of the import path (`jax/_src/core.py:12`), or a whole path.
    """
    return within(place).partition("/")[0] in _LIBRARIES or place.startswith("<") or "/lib/python3" in within(place)


def within(place: str) -> str:
    """A place from the folder of installed packages that holds it; unchanged where none does."""
    for folder in _INSTALLED:
        place = place.rpartition(folder)[2]
    return place
