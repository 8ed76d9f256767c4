"""Where the rooms that are data lie: `checks/`, `kernels/`, `reports/`, `migrations/`.

In a checkout they stand beside this package; a wheel carries them inside it, under `_rooms/`, so that no top-level
name such as `kernels` ever reaches an import path.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def room(name: str) -> Path:
    """The folder of the room called `name`.

    Raises FileNotFoundError when the installation is incomplete.
    """
    for parent in (_PACKAGE / "_rooms", _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    msg = f"the room {name!r} is missing from this installation; reinstall kernel-watchdog"
    raise FileNotFoundError(msg)
