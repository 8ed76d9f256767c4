"""What other tools say to the same series, by their own code. Runs where those are installed: `uv run --with asv …`.

Reads an .npz file of `base` and `head` (gates × processes × rounds, seconds), prints how many gates each rule fails.
Each rule gets what its tool takes by default: asv two processes of ten rounds, pyperf three values of each of twenty
processes, pytest-benchmark one process, the pooled t-test everything.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from typing import Any

import numpy as np
from asv.commands.compare import _is_result_better  # what `asv compare` marks a benchmark by
from asv_runner.statistics import compute_stats
from pyperf._utils import is_significant  # what `pyperf compare_to` marks one by
from pytest_benchmark.utils import parse_compare_fail
from scipy import stats

_ASV_PROCESSES, _PYPERF_VALUES = 2, 3
_SIGNIFICANT = 0.05


def _asv(factor: float) -> Callable[[Any, Any], bool]:
    def fails(base: Any, head: Any) -> bool:
        samples = [side[:_ASV_PROCESSES].ravel().tolist() for side in (base, head)]
        (old, old_stats), (new, new_stats) = (compute_stats(one, 1) for one in samples)
        return bool(_is_result_better(old, new, (old_stats, samples[0]), (new_stats, samples[1]), factor))

    return fails


def _pyperf(base: Any, head: Any) -> bool:
    old, new = (side[:, :_PYPERF_VALUES].ravel().tolist() for side in (base, head))
    return bool(is_significant(old, new)[0] and np.mean(new) > np.mean(old))


def _pytest_benchmark(base: Any, head: Any) -> bool:
    check = parse_compare_fail("min:5%")  # type: ignore[no-untyped-call]
    return check.fails({"min": float(head[0].min())}, {"min": float(base[0].min())}) is not None


def _pooled(base: Any, head: Any) -> bool:
    test = stats.ttest_ind(head.ravel(), base.ravel())
    return bool(test.pvalue < _SIGNIFICANT and test.statistic > 0)


RULES: dict[str, Callable[[Any, Any], bool]] = {
    f"asv {version('asv')}, factor 1.0": _asv(1.0),
    f"asv {version('asv')}, factor 1.1": _asv(1.1),
    f"pyperf {version('pyperf')}, t-test": _pyperf,
    f"pytest-benchmark {version('pytest-benchmark')}, min:5%": _pytest_benchmark,
    "pooled t-test": _pooled,
}


def failing(pair: tuple[Any, Any]) -> list[str]:
    """The rules that fail a gate, given as the times of base and head."""
    return [name for name, fails in RULES.items() if fails(*pair)]


if __name__ == "__main__":
    with np.load(sys.argv[1]) as gates, ProcessPoolExecutor() as pool:
        pairs = list(zip(gates["base"], gates["head"], strict=True))
        counted = Counter(name for names in pool.map(failing, pairs, chunksize=20) for name in names)
    print(json.dumps({name: counted[name] for name in RULES}))  # noqa: T201
