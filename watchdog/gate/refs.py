"""A file as it is at a git ref: the whole tree of that commit is laid out, so that what the file names is there too."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from watchdog.errors import UsageError

FOLDER = Path(".watchdog/refs")
_SECONDS = 120.0


def file_at(given: str, root: Path) -> Path:
    """The file that `REF:path` names, in a copy of its commit's tree below `root`.

    `path` starts at the repository's root, as git has it. Raises UsageError when git, the ref or the file is not there.
    """
    ref, _, place = given.partition(":")
    top = Path(_git(root, "rev-parse", "--show-toplevel", problem=f"{given}: {root} is in no git repository").strip())
    gone = f"{given}: git knows no ref {ref} here; fetch it first (a shallow clone needs fetch-depth: 0)"
    commit = _git(
        top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", problem=gone
    ).strip()
    _git(top, "cat-file", "-e", f"{commit}:{place}", problem=f"{given}: there is no {place} at {ref}")
    tree = root / FOLDER / commit
    if not tree.is_dir():
        _lay_out(top, commit, tree)
    return tree / place


def _lay_out(top: Path, commit: str, tree: Path) -> None:
    """The commit's files, all or none."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as partial:
        archive = _bytes(top, "archive", "--format=tar", commit, problem=f"git could not lay out {commit}")
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(Path(partial) / "tree", filter="data")
        (Path(partial) / "tree").rename(tree)


def _git(folder: Path, *arguments: str, problem: str) -> str:
    return _bytes(folder, *arguments, problem=problem).decode("utf-8", errors="replace")


def _bytes(folder: Path, *arguments: str, problem: str) -> bytes:
    try:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"{problem}: git could not be used ({error})"
        raise UsageError(msg) from error
    if answer.returncode:
        raise UsageError(problem)
    return answer.stdout
