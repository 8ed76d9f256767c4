"""`make names-table`: asks releases of jax for their public names, and writes the table that the judges read.

    python -m tests.names_table [RELEASE …]

Each release is installed without an accelerator into an environment of the program's own cache and asked there; what it
answered is kept in `.watchdog/names-table`. Asked are the releases that the table has, and those that are named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from tests.commands import ROOT
from tests.names_table import merge
from watchdog.environments import Built, EnvironmentCache
from watchdog.judges.names import DATA, known
from watchdog.pins import Lock, PinsRequest, resolve
from watchdog.uv import Uv

KEPT = ROOT / ".watchdog" / "names-table"
_WANTS_ABSL = "absl-py"  # 0.5.3 to 0.6.1 and 0.9.2 do not say that Pallas needs it
_OLD_NUMPY = ("numpy<2", "scipy<1.13")  # before 0.4.26 jax was built against the former
_NUMPY_2_FROM = Version("0.4.26")
_PYTHON_312_FROM = Version("0.11")
_SECONDS = 300


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0 when the table is written."""
    KEPT.mkdir(parents=True, exist_ok=True)
    uv = Uv.found()
    cache = EnvironmentCache(uv=uv)
    answers = [_answer(release, cache, uv) for release in dict.fromkeys((*known().releases, *arguments))]
    DATA.write_text(_text(merge.table(answers)), encoding="utf-8")
    sys.stderr.write(f"wrote {DATA}: {DATA.stat().st_size:,} B\n")
    return 0


def _answer(release: str, cache: EnvironmentCache, uv: Uv) -> Mapping[str, Any]:
    """What a release says of itself, kept from an earlier time or asked now."""
    kept = KEPT / f"{release}.json"
    if not kept.exists():
        sys.stderr.write(f"asking jax {release}\n")
        built = _environment(release, cache, uv)
        asked = KEPT / "asked.json"
        question = [str(built.python), str(Path(__file__).with_name("inside.py")), str(asked)]
        subprocess.run(question, check=True, capture_output=True, timeout=_SECONDS, cwd=KEPT)
        asked.rename(kept)
    answer: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return answer


def _environment(release: str, cache: EnvironmentCache, uv: Uv) -> Built:
    version = Version(release)
    older = _OLD_NUMPY if version < _NUMPY_2_FROM else ()
    python = "3.12" if version >= _PYTHON_312_FROM else "3.11"
    requirements = (f"jax=={release}", f"jaxlib<={release}", _WANTS_ABSL, *older)
    lock = resolve(PinsRequest(f"jax-{release}", requirements, None, python, KEPT), uv)
    if not isinstance(lock, Lock):
        sys.exit(f"jax {release} cannot be resolved: {lock.explanation}")
    built = cache.build(lock)
    if not isinstance(built, Built):
        sys.exit(f"jax {release} cannot be installed: {built.explanation}")
    return built


def _text(table: Mapping[str, Any]) -> str:
    """JSON with a line for each module, callable or name, so that a change of the table can be read."""
    parts = []
    for key, value in table.items():
        if isinstance(value, dict):
            lines = ",\n".join(f"{json.dumps(name)}:{_compact(held)}" for name, held in value.items())
            parts.append(f"{json.dumps(key)}:{{\n{lines}\n}}")
        else:
            parts.append(f"{json.dumps(key)}:{_compact(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
