"""A directory replaced as a whole: built beside its place, then swapped in one step."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from watchdog.errors import UsageError

MARKER = ".kernel-watchdog-report"
_HEADER = "Written by kernel-watchdog. The files listed here are replaced by the next report; others are left alone."


@contextmanager
def replacing(directory: Path, *, keep: Collection[str] = ()) -> Iterator[Path]:
    """Yield an empty draft beside `directory`; it takes the directory's place when the block ends well.

    Carried over from the old site: files that a report did not write, and those named by `keep` (relative paths) that
    the draft has not made anew.

    Raises:
        UsageError: the directory holds files and is not a report, or cannot be written.
    """
    place = directory.resolve()
    _refuse_foreign(place)
    draft = place.with_name(f".{place.name}.draft-{secrets.token_hex(4)}")
    try:
        draft.mkdir(parents=True)
        foreign = _carry_over(place, draft, keep)
        yield draft
        _sign(draft, foreign)
        _swap(draft, place)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        msg = f"cannot write the report to {directory}: {reason}; name a directory that can be written with `report`"
        raise UsageError(msg) from error
    finally:
        # After the swap the old site lies here; after a failure, the unfinished draft.
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_foreign(place: Path) -> None:
    if not place.exists() or (place / MARKER).is_file():
        return
    if not place.is_dir():
        msg = f"{place} is a file, not a directory; name another one with `report`"
        raise UsageError(msg)
    stranger = next(place.iterdir(), None)
    if stranger is not None:
        msg = (
            f"{place} holds files that are not a report (for example {stranger.name!r}), and they would be lost; "
            "name an empty or a new directory with `report`"
        )
        raise UsageError(msg)


def _carry_over(place: Path, draft: Path, keep: Collection[str]) -> set[str]:
    """Copy what outlives the old site, and return the names that are not ours."""
    names = {path.relative_to(place).as_posix() for path in _files(place)}
    foreign = names - set(_manifest(place)) - {MARKER}
    for name in foreign | (names & set(keep)):
        (draft / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place / name, draft / name, follow_symlinks=False)
    return foreign


def _manifest(place: Path) -> list[str]:
    marker = place / MARKER
    return marker.read_text(encoding="utf-8").splitlines()[1:] if marker.is_file() else []


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_symlink() or path.is_file()) if place.is_dir() else []


def _sign(draft: Path, foreign: Collection[str]) -> None:
    ours = sorted({path.relative_to(draft).as_posix() for path in _files(draft)} - set(foreign))
    (draft / MARKER).write_text("\n".join([_HEADER, *ours]) + "\n", encoding="utf-8")


def _swap(draft: Path, place: Path) -> None:
    """Put the draft in the directory's place; what was there lies where the draft was."""
    if not place.exists():
        draft.rename(place)
    elif not _exchange(draft, place):
        old = draft.with_suffix(".old")
        place.rename(old)
        draft.rename(place)
        old.rename(draft)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step, where the system can (Linux: renameat2 with RENAME_EXCHANGE)."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of linux/fcntl.h and linux/fs.h
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
