"""The `install` check: from pins to an environment that holds exactly its lock, or to the reason why there is none."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from watchdog import pins as pinning
from watchdog.config import Config, Kernel
from watchdog.environments import BuildFailed, Built, EnvironmentCache
from watchdog.errors import UsageError
from watchdog.model import Environment, Fault, Observation, Outcome
from watchdog.pins import Lock, PinsRequest, Unresolvable
from watchdog.plan import EnvironmentRequest
from watchdog.store import reader, writer
from watchdog.store.engine import Store
from watchdog.store.values import Lock as StoredLock
from watchdog.uv import Uv

_LIBRARIES = frozenset({"jax", "jaxlib", "libtpu"})  # never a kernel's own, even where its module lies in them


@dataclass(frozen=True)
class Installed:
    """An environment of the run, ready or not; `lock` and `built` are there as far as it came."""

    request: EnvironmentRequest
    environment: Environment
    observations: tuple[Observation, ...]
    lock: Lock | None = None
    built: Built | None = None


@dataclass(frozen=True)
class Installer:
    """Resolves and builds. A request that was resolved before keeps its lock, unless `refresh` is asked for."""

    config: Config
    store: Store
    cache: EnvironmentCache
    uv: Uv
    refresh: bool
    given: Mapping[str, Lock] = field(default_factory=dict)  # by pins: locks that need no resolving
    _resolved: dict[EnvironmentRequest, Lock | Unresolvable] = field(default_factory=dict)

    def install(self, request: EnvironmentRequest) -> Installed:
        """Never raises for what is wrong with the pins: that is the observation."""
        began = time.monotonic()
        lock = self.lock(request)
        if isinstance(lock, Unresolvable):
            fault = Fault(kind=f"unresolvable: {lock.reason}", message=lock.explanation)
            return self._without(request, fault, lock.log, began, None)
        built = self.cache.build(lock)
        if isinstance(built, BuildFailed):
            fault = Fault(kind=f"not installed: {built.stage}", message=built.explanation)
            return self._without(request, fault, built.log, began, lock)
        return Installed(request, _environment(request, lock), self._success(request, built, began), lock, built)

    def lock(self, request: EnvironmentRequest) -> Lock | Unresolvable:
        """What a request resolves to; resolved once, however often it is asked."""
        if request not in self._resolved:
            given = self.given.get(request.pins)
            self._resolved[request] = self._lock(self._asked(request)) if given is None else given
        return self._resolved[request]

    def _asked(self, request: EnvironmentRequest) -> PinsRequest:
        return pins_request(self.config, request.pins, request.requirements)

    def _lock(self, asked: PinsRequest) -> Lock | Unresolvable:
        """The stored lock of this request, or a new one. Files and local projects are read anew: they may change."""
        stored = None if self.refresh or asked.lock or asked.file else reader.find_lock(self.store, asked.key)
        if stored is not None:
            kept = pinning.read_lock(stored.text, stored.python, asked.root, self.uv)
            if isinstance(kept, Lock) and not any(entry.folder for entry in kept.entries):
                return kept
        try:
            lock = pinning.resolve(asked, self.uv)
        except UsageError as error:
            return Unresolvable(str(error), "", "unreadable")
        if isinstance(lock, Lock):
            writer.store_lock(self.store, asked.key, StoredLock(lock.hash, lock.text, lock.packages, lock.python))
        return lock

    def _success(self, request: EnvironmentRequest, built: Built, began: float) -> tuple[Observation, ...]:
        data = {
            "requested": list(self._asked(request).requirements),
            "seconds": built.seconds,
            "cached": built.cached,
            "tools": {tool.name: tool.version for tool in built.tool_versions},
            "verified": built.verified,
        }
        seconds = time.monotonic() - began
        return tuple(Observation(cell, Outcome.OBSERVED, data=data, seconds=seconds) for cell in request.install_cells)

    def _without(
        self, request: EnvironmentRequest, fault: Fault, log: str, began: float, lock: Lock | None
    ) -> Installed:
        seconds = time.monotonic() - began
        observations = tuple(
            Observation(cell, Outcome.FAILED, fault=fault, log_tail=log, seconds=seconds)
            for cell in request.install_cells
        )
        return Installed(request, _environment(request, lock), observations, lock)


def _environment(request: EnvironmentRequest, lock: Lock | None) -> Environment:
    kernels = () if request.shared_by_all else request.kernels
    if lock is None:
        return Environment(request.pins, kernels, "", "", "", ())
    return Environment(request.pins, kernels, lock.hash, lock.text, lock.python, lock.packages)


def pins_request(config: Config, name: str, own: Sequence[str]) -> PinsRequest:
    """What pins of the configuration ask for, together with the requirements `own` of a kernel."""
    table = config.pins[name]
    return PinsRequest(
        name=name,
        requirements=(*config.absolute_requirements(table), *own),
        lock=Path(table.lock) if table.lock else None,
        python=table.python,
        root=config.root,
        file=Path(table.requirements_file) if table.requirements_file else None,
    )


def own_packages(config: Config, kernel: Kernel, installed: Sequence[Installed]) -> frozenset[str]:
    """The packages that are the kernel's own: what it requires beside the pins, and what its module comes from."""
    return frozenset(
        name
        for one in installed
        if kernel.name in one.request.kernels and one.lock is not None
        for name in (*_required(config, kernel, one.lock), *_providers(kernel, one.built))
    )


def _required(config: Config, kernel: Kernel, lock: Lock) -> list[str]:
    names: list[str] = []
    for requirement in config.absolute_requirements(kernel):
        try:
            names.append(canonicalize_name(Requirement(requirement).name))
        except InvalidRequirement:  # a local project, known by its folder
            names += [entry.name for entry in lock.entries if entry.folder == Path(requirement)]
    return names


def _providers(kernel: Kernel, built: Built | None) -> list[str]:
    """The distributions whose files hold the custom implementation's module."""
    if built is None:
        return []
    top = kernel.custom.partition(":")[0].partition(".")[0]
    found: list[str] = []
    for folder in built.directory.glob("venv/lib/python*/site-packages"):
        for distribution in importlib.metadata.distributions(path=[str(folder)]):
            name = canonicalize_name(distribution.name)
            files = (str(file) for file in distribution.files or ())
            if name not in _LIBRARIES and any(file in (f"{top}.py", f"{top}/__init__.py") for file in files):
                found.append(name)
    return found
