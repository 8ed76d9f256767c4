"""What this machine can and cannot answer, and why: pure findings, which the command line prints."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from watchdog import interpreters, machine
from watchdog.environments import EnvironmentCache
from watchdog.errors import WatchdogError
from watchdog.redaction import plain, redact
from watchdog.uv import Uv

INDEX_SECONDS = 30.0
ENVIRONMENT_BYTES = 1_200_000_000  # one environment with jax[tpu], measured
_ROOMY = 4  # environments for which space is no worry
_PROBE = "packaging"  # a small package that every index has
_OLDEST_UV = (0, 8)
_MEMORY_BYTES = 4 << 30  # what compiling an attention kernel for a TPU and interpreting it want, with reserve
_SAME_NAME = {"watchdog": "watchdog", "kernels": "kernels"}  # distributions that import under our names


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"  # works, with a limit worth knowing
    PROBLEM = "problem"  # something the program needs does not work


@dataclass(frozen=True)
class Finding:
    """One thing found out about this machine; `remedy` is empty where there is nothing to mend."""

    level: Level
    topic: str
    sentence: str
    remedy: str = ""


def examine(
    uv: Callable[[], Uv],
    cache: Callable[[Uv], EnvironmentCache],
    open_store: Callable[[], object],
    root: Path = machine.ROOT,
) -> list[Finding]:
    """Everything worth knowing about this machine, in reading order.

    The arguments make what is examined, so that their failing is a finding too. `root` is where device files are sought.
    """
    findings = [_python(), *_own_environment(_own_distributions())]
    try:
        tool = uv()
    except WatchdogError as error:
        findings.append(_problem("uv", str(error), "pip install uv"))
    else:
        findings += [_uv(tool), _interpreters(tool), _index(tool), *_cache(cache(tool), tool)]
    return [*findings, *_device(root), _compiler(), _cores(root), _memory(root), _store(open_store), _rights()]


def _python() -> Finding:
    return _ok("python", f"the program runs on Python {platform.python_version()} ({sys.executable})")


def _own_distributions() -> frozenset[str]:
    return frozenset(canonicalize_name(one.metadata["Name"]) for one in distributions())


def _own_environment(installed: Collection[str]) -> list[Finding]:
    """Whether packages stand beside the program that import under the same name as it, or as a room of it."""
    sharing = [name for name in _SAME_NAME if name in installed]
    if not sharing:
        return [_ok("environment", "no other package here imports as 'watchdog' or 'kernels'")]
    return [
        _problem(
            "environment",
            f"the program shares its environment with the package {name!r} of PyPI, which imports under the same name",
            "install the program in an environment of its own: uv tool install kernel-watchdog",
        )
        for name in sharing
    ]


def _uv(uv: Uv) -> Finding:
    answer = uv.call("--version", seconds=INDEX_SECONDS)
    words = answer.stdout.split()
    if not answer.succeeded or len(words) < 2:  # noqa: PLR2004 - "uv 0.9.1"
        return _problem(
            "uv", f"{uv.binary} does not say its version: {answer.stderr.strip()}", "pip install --upgrade uv"
        )
    version = tuple(int(part) for part in words[1].split(".")[:2] if part.isdigit())
    if version < _OLDEST_UV:
        return _problem("uv", f"uv {words[1]} is too old (0.8 or newer is needed)", "pip install --upgrade uv")
    return _ok("uv", f"uv {words[1]} ({uv.binary})")


def _interpreters(uv: Uv) -> Finding:
    found = interpreters.installed(uv)
    usable = [one.full_version for one in found if interpreters.satisfies(one, ">=3.10")]
    if not usable:
        return _problem("interpreters", "no Python from 3.10 on was found for environments", "uv python install 3.12")
    sentence = f"environments can use Python {', '.join(usable)}"
    if not any(interpreters.satisfies(one, ">=3.12") for one in found):
        return _note("interpreters", f"{sentence}; jax from 0.11 on needs 3.12 or newer", "uv python install 3.12")
    return _ok("interpreters", sentence)


def _index(uv: Uv) -> Finding:
    answer = uv.call(
        *("pip", "compile", "-", "--quiet", "--no-header", "--no-deps", "--refresh"),
        *("--python", sys.executable),
        seconds=INDEX_SECONDS,
        stdin=f"{_PROBE}\n",
    )
    if answer.succeeded:
        return _ok("index", "the package index answers")
    said = answer.stderr.strip() or f"no answer within {INDEX_SECONDS:.0f} s"
    remedy = "check the network, a proxy (HTTPS_PROXY) or a mirror (UV_DEFAULT_INDEX); cached environments still work"
    return _problem("index", f"the package index does not answer: {said}", remedy)


def _cache(cache: EnvironmentCache, uv: Uv) -> list[Finding]:
    try:
        cache.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache.directory):
            pass
    except OSError as error:
        sentence = f"environments cannot be kept in {cache.directory}: {error.strerror}"
        return [_problem("cache", sentence, f"set {cache.moved_by} to a folder that can be written")]
    return [_space(cache), *_links(cache, uv)]


def _space(cache: EnvironmentCache) -> Finding:
    free = shutil.disk_usage(cache.directory).free
    sentence = f"{_gigabytes(free)} free in {cache.directory}; one environment with jax[tpu] takes about {_gigabytes(ENVIRONMENT_BYTES)}"
    remedy = f"watchdog environments prune, or set {cache.moved_by} to a larger disk"
    if free < ENVIRONMENT_BYTES:
        return _problem("cache", sentence, remedy)
    if free < _ROOMY * ENVIRONMENT_BYTES:
        return _note("cache", sentence, remedy)
    return _ok("cache", sentence)


def _links(cache: EnvironmentCache, uv: Uv) -> list[Finding]:
    """Whether uv can link files from its own cache: only on one file system, otherwise it copies them."""
    answer = uv.call("cache", "dir", seconds=INDEX_SECONDS)
    own = Path(answer.stdout.strip())
    if not answer.succeeded or not own.is_dir() or own.stat().st_dev == cache.directory.stat().st_dev:
        return []
    sentence = (
        f"uv's cache {own} lies on another file system: every environment is a full copy, which takes time and space"
    )
    return [_note("cache", sentence, "set UV_CACHE_DIR to the same file system")]


def _device(root: Path) -> list[Finding]:
    """Which checks are answered for real here, and which in another way or not at all."""
    found = machine.devices(root)
    tpu = next((device for device in found if device.kind == "tpu"), None)
    if tpu:
        name = f"a TPU {tpu.generation}" if tpu.generation else "a TPU"
        return [_ok("device", f"{name} ({tpu.path}): every check is real where the pins bring libtpu")]
    if found:
        sentence = (
            f"a GPU ({found[0].path}), no TPU: what runs on GPUs is checked for real where the pins bring its plugin; "
            "TPU kernels are compiled by libtpu alone and interpreted, and are not timed"
        )
        return [_note("device", sentence)]
    sentence = (
        "no TPU and no GPU: compile and schedule are answered by libtpu's compiler alone; numerics, gradients, races and "
        "memory of TPU kernels by interpretation; timing only of what runs on the CPU, else it is skipped"
    )
    return [_note("device", sentence)]


def _compiler() -> Finding:
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return _ok("compiler", "libtpu can compile for TPUs here (Linux on x86_64)")
    sentence = (
        f"libtpu has no build for {platform.system()} on {platform.machine()}: nothing is compiled for tpu:… targets"
    )
    return _problem("compiler", sentence, "run on Linux on x86_64, or take the tpu:… targets out")


def _cores(root: Path) -> Finding:
    cores, quota = machine.usable_cores(), machine.core_quota(root)
    if quota is not None and quota < cores:
        return _note(
            "cores", f"{cores} cores, of which the control group allows {quota:g}: timing is throttled unevenly"
        )
    if cores == 1:
        return _note("cores", "one core: checks run one after another, and timing shares the core with the system")
    return _ok("cores", f"{cores} cores")


def _memory(root: Path) -> Finding:
    usable, limit = machine.usable_memory(root), machine.memory_limit(root)
    source = " (the control group's limit)" if limit == usable else ""
    sentence = f"{_gigabytes(usable)} of memory{source}"
    if usable < _MEMORY_BYTES:
        return _note("memory", f"{sentence}: large cases may be stopped", "lower cell_memory, or watch smaller cases")
    return _ok("memory", sentence)


def _store(open_store: Callable[[], object]) -> Finding:
    try:
        open_store()
    except (WatchdogError, OSError) as error:
        return _problem(
            "store", redact(plain(f"the store cannot be opened: {error}")), "correct 'database' in watchdog.toml"
        )
    return _ok("store", "the store opens")


def _rights() -> Finding:
    who = "as root" if os.geteuid() == 0 else "without root rights"
    return _ok("rights", f"running {who}; neither root rights nor user namespaces are needed")


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB"


def _ok(topic: str, sentence: str) -> Finding:
    return Finding(Level.OK, topic, sentence)


def _note(topic: str, sentence: str, remedy: str = "") -> Finding:
    return Finding(Level.NOTE, topic, sentence, remedy)


def _problem(topic: str, sentence: str, remedy: str) -> Finding:
    return Finding(Level.PROBLEM, topic, sentence, remedy)
