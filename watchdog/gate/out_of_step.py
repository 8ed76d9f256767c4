"""Do jax, jaxlib and libtpu of a lock belong to each other? Each release of jax says which of the others it wants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from watchdog.pins import Lock
from watchdog.uv import Uv

_PARTNERS = ("jaxlib", "libtpu")
_SECONDS = 60.0


@dataclass(frozen=True)
class _Pair:
    jax: str  # version
    partner: str
    version: str
    lock: Lock


def warnings(given: str, locks: Sequence[Lock], uv: Uv) -> tuple[str, ...]:
    """One sentence for each partner that another release of jax wants. `given`: what the user calls these locks.

    uv is asked, with the index that these locks come from; where it cannot tell, nothing is said.
    """
    asked = list(dict.fromkeys(pair for lock in locks for pair in _pairs(lock)))
    with ThreadPoolExecutor(len(_PARTNERS)) as pool:
        told = list(pool.map(lambda pair: _wanted(pair, uv), asked))
    return tuple(
        f"{given}: jax {pair.jax} wants {wanted}, but {pair.partner} is {pair.version}: they are out of step"
        for pair, wanted in zip(asked, told, strict=True)
        if wanted
    )


def _pairs(lock: Lock) -> Iterator[_Pair]:
    held = {package.name: package.version for package in lock.packages}
    for partner in _PARTNERS:
        if "jax" in held and partner in held:
            yield _Pair(held["jax"], partner, held[partner], lock)


def _wanted(pair: _Pair, uv: Uv) -> str | None:
    """What this jax asks of a partner that it does not go with; None where it does, or uv cannot tell."""
    lines = (*pair.lock.options, f"jax[tpu]=={pair.jax}", f"{pair.partner}=={pair.version}")
    answer = uv.call(
        *("pip", "compile", "-", "--quiet", "--no-header", "--no-annotate", "--python", str(pair.lock.interpreter)),
        seconds=_SECONDS,
        folder=pair.lock.root,
        stdin="\n".join(lines) + "\n",
    )
    asks = rf"\bjax(\[tpu\])?[<>=]\S* depends on (?P<wanted>{pair.partner}[<>=!~]\S*?)[,.]?(\s|$)"
    found = None if answer.succeeded else re.search(asks, answer.stderr)
    return None if found is None else found["wanted"]
