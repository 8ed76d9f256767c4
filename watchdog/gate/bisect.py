"""Between which releases of one package a kernel's check broke: the list of releases, halved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from watchdog import interpreters, pins, plan
from watchdog.config import Config, Kernel, Pins
from watchdog.config_values import CUSTOM, NATIVE, suggest
from watchdog.errors import IncompleteError, UsageError
from watchdog.gate.deadline import Deadline
from watchdog.gate.mixtures import roots_of
from watchdog.gate.probes import Evaluate, Prober, Told, not_installed, told_of
from watchdog.gate.releases import Index, PreReleases, releases
from watchdog.gate.report import Bisected, Probe, Probed
from watchdog.gate.search import Edge, first_bad
from watchdog.installation import pins_request
from watchdog.interpreters import Interpreter
from watchdog.judges.wording import one_line
from watchdog.lockfiles import read_requirements_file
from watchdog.model import Cell, Check, Observation, PackageChange, Status, Verdict, package_changes
from watchdog.pins import Lock, PinsRequest, Unresolvable
from watchdog.plan import Selection
from watchdog.store.engine import Store
from watchdog.uv import Uv

Tell = Callable[[Probe, float], object]  # called with each probe and the seconds that are left

_IN_STEP = ("jax", "jaxlib", "libtpu")  # they are released together, and require each other


@dataclass(frozen=True)
class Asked:
    """What is to be found: the release of `package`, from `good` to `bad`, in which a kernel's check broke."""

    kernel: str
    check: Check
    package: str
    good: str
    bad: str
    implementation: str = CUSTOM
    cases: tuple[str, ...] = ()  # all when none is named
    targets: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    pins: str | None = None  # what the rest of each environment is; None: the baseline's
    pre_releases: PreReleases = PreReleases.LEFT_OUT

    @property
    def subject(self) -> str:
        return f"the {self.check} check of {self.kernel}/{self.implementation}"


@dataclass(frozen=True)
class Broken:
    """Whether a check says anything bad of a kernel, in any of its cases."""

    asked: Asked

    @property
    def selection(self) -> Selection:
        asked = self.asked
        return Selection(
            kernels=(asked.kernel,),
            cases=asked.cases,
            implementations=tuple(dict.fromkeys((asked.implementation, NATIVE))),
            targets=asked.targets,
            checks=tuple(dict.fromkeys((Check.INSTALL, *plan.prerequisites(asked.check), asked.check))),
            scenarios=asked.scenarios,
        )

    @property
    def subject(self) -> str:
        return self.asked.subject

    def answer(self, verdicts: Sequence[Verdict]) -> Told:
        check = self.asked.check
        if (failed := not_installed(verdicts)) is not None:
            return replace(failed, result=Probed.BAD) if check is Check.INSTALL else failed
        own = [one for one in verdicts if one.cell.implementation in ("", self.asked.implementation)]
        about = [one for one in own if one.cell.check is check]
        bad = next((one for one in about if one.status is Status.REGRESSED), None)
        if bad is not None:
            return Told(Probed.BAD, one_line(bad.summary, 300))
        earlier = (one for one in own if one.cell.check in plan.prerequisites(check))
        in_the_way = next((one for one in earlier if one.status is Status.REGRESSED), None)
        if in_the_way is not None:
            return Told(Probed.UNKNOWN, f"another fault: {one_line(in_the_way.summary, 280)}")
        return told_of(about)


def bisect(
    store: Store,
    config: Config,
    asked: Asked,
    *,
    evaluate: Evaluate,
    deadline: Deadline,
    tell: Tell,
    uv: Uv | None = None,
) -> Bisected:
    """The first release that is bad, counted from the good end, with the good end as the baseline of all others.

    What earlier searches learned is not asked again, but for the two sides of the edge. Raises UsageError for names and
    versions that are not there, IncompleteError when the index cannot be read.
    """
    found_uv = uv or Uv.found()
    kernel = _kernel(config, asked)
    question = Broken(asked)
    plan.cells(config, replace(question.selection, pins=(asked.pins or config.baseline,)))  # refuses unknown names
    recipe = _recipe(config, asked, kernel, found_uv)
    index = Index(
        recipe.package, recipe.interpreter, found_uv, config.root, recipe.options, pre_releases=asked.pre_releases
    )
    listed = releases(index, asked.good, asked.bad)
    search = _Bisecting(store, config, question, recipe, listed[0], evaluate, deadline, tell)
    edge = first_bad(listed, search.ask, search.ask_afresh, search.is_over)
    return _told(asked, recipe, edge, search)


@dataclass
class _Recipe:
    """How a release becomes a lock: what is asked for beside it, and what is held fixed."""

    package: str  # normalised
    extras: str  # "[tpu]", or nothing
    others: tuple[str, ...]  # requirements
    constraints: tuple[str, ...]
    options: tuple[str, ...]
    python: str | None
    interpreter: Interpreter
    root: Path
    notes: tuple[str, ...]
    uv: Uv
    locks: dict[str, Lock | Unresolvable] = field(default_factory=dict)

    def lock(self, version: str) -> Lock | Unresolvable:
        """Resolved once. Raises IncompleteError when the index cannot be read: that is not the release's fault."""
        if version not in self.locks:
            self.locks[version] = self._resolved(version)
        return self.locks[version]

    def _resolved(self, version: str) -> Lock | Unresolvable:
        wanted = (f"{self.package}{self.extras}=={version}", *self.others)
        name = f"{self.package}-{version}"
        request = PinsRequest(name, wanted, None, self.python, self.root, self.constraints, self.options)
        lock = pins.resolve(request, self.uv)
        if isinstance(lock, Unresolvable) and lock.reason in ("index", "time limit"):
            msg = f"{name} could not be resolved, and that is not its fault: {one_line(lock.explanation, 200)}"
            raise IncompleteError(msg)
        return lock


def _recipe(config: Config, asked: Asked, kernel: Kernel, uv: Uv) -> _Recipe:
    name = asked.pins or config.baseline
    table = config.pins[name]
    interpreter = interpreters.find(table.python, uv)
    if interpreter is None:
        msg = (
            f"pins {name!r} need Python {table.python}, which is not installed here; install it, or set python in them"
        )
        raise UsageError(msg)
    package = canonicalize_name(asked.package)
    own = config.absolute_requirements(kernel)
    if table.lock is not None:
        return _from_lock(_resolved_pins(config, name, own, uv), package, table, interpreter, uv)
    words: tuple[str, ...] = config.absolute_requirements(table)
    options: tuple[str, ...] = ()
    if table.requirements_file is not None:
        given = read_requirements_file(config.absolute(table.requirements_file), interpreter)
        words, options = given.requirements, given.options
    extras, others, notes = _replaced((*words, *own), package, name)
    return _Recipe(package, extras, others, (), options, table.python, interpreter, config.root, notes, uv)


def _resolved_pins(config: Config, name: str, own: tuple[str, ...], uv: Uv) -> Lock:
    lock = pins.resolve(pins_request(config, name, own), uv)
    if isinstance(lock, Unresolvable):
        msg = f"pins {name!r} cannot be resolved: {one_line(lock.explanation, 200)}; name others with --pins"
        raise UsageError(msg)
    return lock


def _from_lock(lock: Lock, package: str, table: Pins, interpreter: Interpreter, uv: Uv) -> _Recipe:
    """Every other package as the lock has it, where it is needed; those that move in step with this one are free."""
    free = set(_IN_STEP) & {entry.name for entry in lock.entries} if package in _IN_STEP else set()
    free.add(package)
    extras = (
        "[tpu]" if package == "jax" and "libtpu" in free else ""
    )  # a lock does not tell which extras it was made of
    places = {entry.name: entry.place for entry in lock.entries}
    others = [places[name] if " @ " in places[name] else name for name in roots_of(lock, uv) if name not in free]
    constraints = tuple(place for name, place in places.items() if name not in free)
    notes = _released(sorted(free - {package}), package)
    return _Recipe(
        package, extras, tuple(others), constraints, lock.options, table.python, interpreter, lock.root, notes, uv
    )


def _replaced(requirements: Sequence[str], package: str, name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Extras of the package, the other requirements, and what must be said of them."""
    extras, others, released, found = "", [], [], False
    for text in requirements:
        parsed = _parsed(text)
        if parsed is None:
            others.append(text)
            continue
        of = canonicalize_name(parsed.name)
        if of == package and parsed.url:
            msg = (
                f"pins {name!r} take {package} from {parsed.url.split('@')[-1]}, which has no releases; name other pins"
            )
            raise UsageError(msg)
        if of == package:
            extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else extras
            found = True
        elif package in _IN_STEP and of in _IN_STEP and _is_exact(parsed):
            released.append(of)
            others.append(f"{parsed.name}[{','.join(sorted(parsed.extras))}]" if parsed.extras else parsed.name)
        else:
            others.append(text)
    added = () if found else (f"{package} is no requirement of {name}: each release was added to it",)
    return extras, tuple(others), (*_released(released, package), *added)


def _released(names: Sequence[str], package: str) -> tuple[str, ...]:
    return (f"{' and '.join(names)} moved along with {package}, as its releases require",) if names else ()


def _parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:  # a local project
        return None


def _is_exact(requirement: Requirement) -> bool:
    return any(one.operator in ("==", "===") for one in requirement.specifier)


def _kernel(config: Config, asked: Asked) -> Kernel:
    kernels = {kernel.name: kernel for kernel in config.kernel}
    if asked.kernel not in kernels:
        msg = f"--kernel {asked.kernel}: there is no such kernel; {suggest(asked.kernel, kernels)}"
        raise UsageError(msg)
    if asked.pins is not None and asked.pins not in config.pins:
        msg = f"--pins {asked.pins}: there are no such pins; {suggest(asked.pins, config.pins)}"
        raise UsageError(msg)
    return kernels[asked.kernel]


@dataclass
class _Bisecting:
    """Asks releases, and keeps the path."""

    store: Store
    config: Config
    question: Broken
    recipe: _Recipe
    good: str
    evaluate: Evaluate
    deadline: Deadline
    tell: Tell
    seen: dict[Cell, Observation] = field(default_factory=dict)
    path: list[Probe] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)  # by release
    longest: float = 0.0  # seconds of a probe so far

    def is_over(self) -> bool:
        """Whether another probe would not fit in what is left."""
        return self.deadline.is_over or self.deadline.left < self.longest

    def ask(self, release: str) -> Probed:
        return self._noted(
            release, release, self._told(release, lambda prober, lock: prober.ask(lock, [self.question]))
        )

    def ask_afresh(self, release: str) -> Probed:
        """Ask again, whatever is known of it."""
        if release == self.good:
            self.seen.clear()
        told = self._told(release, lambda prober, lock: prober.ask_afresh(lock, [self.question]))
        return self._noted(release, f"{release} again", told)

    def _told(self, release: str, put: Callable[[Prober, Lock], list[Told]]) -> Told:
        base, lock = self.recipe.lock(self.good), self.recipe.lock(release)
        if isinstance(lock, Unresolvable):
            is_answer = self.question.asked.check is Check.INSTALL
            return Told(Probed.BAD if is_answer else Probed.UNRESOLVABLE, one_line(lock.explanation, 300))
        if isinstance(base, Unresolvable):  # asked first, so that nothing else is asked any more
            return Told(Probed.UNKNOWN, one_line(base.explanation, 300))
        (told,) = put(self._prober(base, release), lock)
        return told

    def _prober(self, base: Lock, release: str) -> Prober:
        package, python = self.recipe.package, self.recipe.python
        versions = tuple(dict.fromkeys((self.good, release)))
        tables = {f"{package}-{one}": Pins(requirements=(f"{package}=={one}",), python=python) for one in versions}
        config = self.config.model_copy(update={"pins": tables})
        good, tried = f"{package}-{self.good}", f"{package}-{release}"
        return Prober(self.store, config, good, tried, base, self.seen, self.evaluate)

    def _noted(self, release: str, what: str, told: Told) -> Probed:
        probe = Probe(f"{self.recipe.package} {what}", told.result, told.said, told.seconds, told.remembered)
        self.longest = max(self.longest, 0.0 if told.remembered else told.seconds)
        self.path.append(probe)
        self.said[release] = told.said
        self.tell(probe, self.deadline.left)
        return told.result


def _told(asked: Asked, recipe: _Recipe, edge: Edge[str], search: _Bisecting) -> Bisected:
    return Bisected(
        asked.kernel,
        asked.check.value,
        recipe.package,
        asked.good,
        asked.bad,
        edge.last_good,
        edge.first_bad,
        edge.between,
        edge.is_certain,
        _sentence(asked, recipe.package, edge, search.said),
        tuple(search.path),
        _moved(recipe, edge),
        (*recipe.notes, *(f"{recipe.package} {one}: {search.said[one]}" for one in edge.unjudged)),
    )


def _moved(recipe: _Recipe, edge: Edge[str]) -> tuple[PackageChange, ...]:
    """What else differs between the two sides of the edge."""
    if edge.last_good is None or edge.first_bad is None:
        return ()
    old, new = recipe.lock(edge.last_good), recipe.lock(edge.first_bad)
    if isinstance(old, Unresolvable) or isinstance(new, Unresolvable):
        return ()
    return tuple(change for change in package_changes(old.packages, new.packages) if change.name != recipe.package)


def _sentence(asked: Asked, package: str, edge: Edge[str], said: dict[str, str]) -> str:
    """What was found, or why nothing was."""
    if edge.last_good is None:
        why = said.get(asked.good) or next(iter(said.values()), "the budget ended first")
        return f"{package} {asked.good} is not good, so there is no edge to find: {why}"
    if edge.first_bad is None:
        why = list(said.values())[-1] if len(said) > 1 else "the budget ended first"
        return f"{package} {asked.bad} is not bad, so there is no edge to find: {why}"
    if edge.contradictions:
        flaky = " and ".join(edge.contradictions)
        return f"undecided: {asked.subject} answered otherwise when it was asked again under {package} {flaky}"
    if edge.between:
        why = "the budget ended first" if edge.out_of_time else "what lies between could not be judged"
        return f"it broke after {package} {edge.last_good} and not later than in {edge.first_bad}; {why}"
    found = f"{package} {edge.first_bad} is the first bad one after {edge.last_good}: {said[edge.first_bad]}"
    return found if edge.confirmed else f"{found}; the budget ended before both could be asked again"
