"""Does a change touch anything that a watched kernel depends on? Answered from the locks alone, before anything is built."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from watchdog.config import Config
from watchdog.gate.report import Difference
from watchdog.pins import Lock
from watchdog.publish.wording import listed
from watchdog.uv import Uv

_SECONDS = 60.0
_LINE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?\s*==[^#]*(#\s*via\s+(?P<via>.*))?$")
_INDIRECT = re.compile(r"import_module|__import__|entry_points")
_ALWAYS = re.compile(r"python|jax.*|libtpu.*|nvidia-.*|ml-dtypes|numpy|scipy|opt-einsum")


def unrelated(config: Config, difference: Difference, locks: Sequence[Lock], uv: Uv) -> str | None:
    """A sentence when nothing that the kernels depend on changed; None when something did, or it cannot be ruled out.

    What a kernel may depend on: jax and what it brings, everything where the kernel names requirements of its own or
    a package's modules, and, for a kernel in a folder, every package whose name its code imports, with what those need.
    """
    changed = {change.package.name for change in difference.changes}
    imported = _imported(config)
    held = {package.name for lock in locks for package in lock.packages}
    if imported is None or not imported <= held or any(_ALWAYS.fullmatch(name) for name in changed):
        return None  # what is imported under another name than its package's cannot be followed
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
    """The packages that the kernels' own code imports, by their modules' names; None where that cannot be told."""
    names: set[str] = {"jax", "jaxlib"}
    for kernel in config.kernel:
        if kernel.path is None or kernel.requirements:
            return None
        folder = config.absolute(kernel.path)
        found = [_names_in(file) for file in folder.rglob("*.py")]
        if None in found:
            return None
        functions = (*kernel.implementations.values(), kernel.inputs, kernel.reference, *kernel.layouts.values())
        named = {re.split(r"[.:]", function)[0] for function in functions if function}
        own = {place.stem for place in folder.iterdir() if place.is_dir() or place.suffix == ".py"}
        names |= named.union(*filter(None, found)) - own - sys.stdlib_module_names
    return {str(canonicalize_name(name)) for name in names}


def _names_in(file: Path) -> set[str] | None:
    """The top modules that a file imports; None where it cannot be parsed, or imports by names that it makes."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if _INDIRECT.search(text):
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
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
