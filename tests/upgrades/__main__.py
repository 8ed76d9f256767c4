"""`python -m tests.upgrades`: sound kernels and broken ones under many releases and for many TPU generations.

Nothing may be said against the sound ones, and of each broken one what is known of it. Exit code 1 where anything was
missed, invented or not answered.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.upgrades import campaign
from tests.upgrades.broken_kernels import BROKEN
from tests.upgrades.expectations import GENERATIONS, RELEASES, Answer, Row, Watched, rows, table, version
from tests.upgrades.shared_cases import shared_cases
from tests.upgrades.sound_kernels import SOUND


def main() -> int:
    options = _options()
    kernels = _chosen([*SOUND, *BROKEN, *(shared_cases(options.cases) if options.cases else ())], options.kernels)
    started = time.monotonic()
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="upgrades-") as temporary:
        for project in campaign.projects(kernels, SOUND):
            found += _watch((options.folder or Path(temporary)) / project.name, project, options)
    counts = Counter(row.answer for row in found)
    told = ", ".join(f"{counts[answer]} {answer}" for answer in Answer)
    sys.stdout.write(f"{len(found)} rows in {time.monotonic() - started:.0f} s: {told}\n")
    return int(counts[Answer.RIGHT] < len(found))


def _watch(folder: Path, project: campaign.Project, options: argparse.Namespace) -> list[Row]:
    targets = project.targets(options.generations)
    run = campaign.run(folder, project, options.releases, targets)
    found = rows(project.kernels, run, options.releases, targets)
    sys.stdout.writelines(f"{line}\n" for line in table(found))
    sys.stdout.flush()
    return found


def _chosen(kernels: list[Watched], names: Sequence[str] | None) -> list[Watched]:
    known = {one.name: one for one in kernels}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        sys.exit(f"there is no kernel {unknown[0]}; the campaign has {', '.join(known)}")
    return [known[name] for name in names] if names else kernels


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades", description=__doc__.splitlines()[0])
    parser.add_argument("--releases", nargs="+", default=RELEASES, metavar="RELEASE", help="of jax")
    parser.add_argument("--generations", nargs="+", choices=GENERATIONS, default=GENERATIONS)
    parser.add_argument("--kernels", nargs="+", metavar="NAME")
    parser.add_argument("--cases", type=Path, metavar="DIR", help="a folder of further broken kernels")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where projects and reports go, and stay")
    options = parser.parse_args()
    options.releases = sorted(options.releases, key=version)
    return options


if __name__ == "__main__":
    sys.exit(main())
