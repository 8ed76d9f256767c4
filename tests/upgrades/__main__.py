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
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.upgrades import campaign
from tests.upgrades.broken_kernels import BROKEN
from tests.upgrades.expectations import GENERATIONS, HOST, RELEASES, Answer, Row, Watched, rows, table, version
from tests.upgrades.shared_cases import shared_cases
from tests.upgrades.sound_kernels import SOUND


def main() -> int:
    options = _options()
    kernels = _chosen([*SOUND, *BROKEN, *(shared_cases(options.cases) if options.cases else ())], options.kernels)
    started = time.monotonic()
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="upgrades-") as temporary:
        folder = options.folder or Path(temporary)
        for name, some, checks in _projects(kernels):
            found += _watch(folder / name, some, options, checks)
    sys.stdout.writelines(f"{line}\n" for line in table(found))
    counts = Counter(row.answer for row in found)
    told = ", ".join(f"{counts[answer]} {answer}" for answer in Answer)
    sys.stdout.write(f"{len(found)} rows in {time.monotonic() - started:.0f} s: {told}\n")
    return int(counts[Answer.RIGHT] < len(found))


def _projects(kernels: Sequence[Watched]) -> Iterable[tuple[str, list[Watched], tuple[str, ...]]]:
    """Sound kernels are asked everything; what is wrong with the broken ones shows without watching memory."""
    sound = [one for one in kernels if one in SOUND]
    broken = [one for one in kernels if one not in SOUND]
    projects = (("sound", sound, campaign.WHOLE), ("broken", broken, campaign.QUICK))
    return [project for project in projects if project[1]]


def _watch(folder: Path, kernels: Sequence[Watched], options: argparse.Namespace, checks: tuple[str, ...]) -> list[Row]:
    targets = [HOST, *options.generations]
    run = campaign.run(folder, kernels, options.releases, targets, checks)
    return rows(kernels, run, options.releases, targets)


def _chosen(kernels: list[Watched], names: Sequence[str] | None) -> list[Watched]:
    known = {one.name: one for one in kernels}
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
