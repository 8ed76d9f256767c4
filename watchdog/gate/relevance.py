"""Does a change touch anything that a watched kernel depends on? Answered from the locks alone, before anything is built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from packaging.utils import canonicalize_name

from watchdog.config import Config
from watchdog.gate.report import Difference
from watchdog.pins import Lock
from watchdog.publish.wording import listed
from watchdog.uv import Uv

_SECONDS = 60.0
_LINE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?\s*==[^#]*(#\s*via\s+(?P<via>.*))?$")
_ALWAYS = re.compile(r"python|jax.*|libtpu.*|nvidia-.*|ml-dtypes|numpy|scipy|opt-einsum")


def unrelated(config: Config, difference: Difference, locks: Sequence[Lock], uv: Uv) -> str | None:
    """A sentence when nothing that the kernels depend on changed; None when something did, or it cannot be ruled out.

    What a kernel may depend on: jax and what it brings, everything where the kernel names requirements of its own or
    a package's modules, and, for a kernel in a folder, every package whose name its code imports, with what those need.
    """
    changed = {change.package.name for change in difference.changes}
    imported = _imported(config)
    if imported is None or any(_ALWAYS.fullmatch(name) for name in changed):
        return None
    needs: dict[str, set[str]] = {}
    for lock in locks:
        graph = _graph(lock, uv)
        if graph is None:
            return None
        for name, found in graph.items():
            needs.setdefault(name, set()).update(found)
    if changed & _closure(needs, imported):
        return None
    names = listed(sorted(changed), 4)
    return f"nothing that the kernels depend on changed: none of them needs {names}"


def _imported(config: Config) -> set[str] | None:
    """The names that the kernels' own code imports, as names of packages; None where the code is not in a folder."""
    names: set[str] = {"jax", "jaxlib"}
    for kernel in config.kernel:
        if kernel.path is None or kernel.requirements:
            return None
        for file in config.absolute(kernel.path).rglob("*.py"):
            text = file.read_text(encoding="utf-8", errors="replace")
            if re.search(r"import_module|__import__|entry_points", text):
                return None
            found = re.findall(
                r"^\s*(?:from|import)\s+([A-Za-z_]\w*)|^\s*import\s.*,\s*([A-Za-z_]\w*)", text, re.MULTILINE
            )
            names |= {str(canonicalize_name(name)) for pair in found for name in pair if name}
        functions = (*kernel.implementations.values(), kernel.inputs, kernel.reference)
        names |= {
            str(canonicalize_name(function.partition(".")[0].partition(":")[0])) for function in functions if function
        }
    return names


def _graph(lock: Lock, uv: Uv) -> dict[str, set[str]] | None:
    """What each package of a lock needs; None where uv cannot tell."""
    answer = uv.call(
        *("pip", "compile", "-", "--annotation-style", "line", "--no-header", "--python", str(lock.interpreter)),
        seconds=_SECONDS,
        folder=lock.root,
        stdin="\n".join((*lock.options, *(line for line in _pins(lock)))) + "\n",
    )
    if not answer.succeeded:
        return None
    needs: dict[str, set[str]] = {}
    for match in filter(None, map(_LINE.match, answer.stdout.splitlines())):
        name = str(canonicalize_name(match["name"]))
        for user in re.split(r",\s*", match["via"] or ""):
            needs.setdefault(str(canonicalize_name(user.partition("[")[0].strip())), set()).add(name)
    return needs


def _pins(lock: Lock) -> Iterable[str]:
    for entry in lock.entries:
        yield f"{entry.name} @ {entry.url}" if entry.url else f"{entry.name}=={entry.version}"


def _closure(needs: Mapping[str, set[str]], roots: Iterable[str]) -> set[str]:
    found, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needs.get(name, ())
    return found
