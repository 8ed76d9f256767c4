"""Bisecting the releases of a package: real releases of made-up wheels, and verdicts that are made up."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.wheelhouse import Wheelhouse
from watchdog import config as configuration
from watchdog.errors import IncompleteError, UsageError
from watchdog.gate.bisect import Asked, bisect
from watchdog.gate.deadline import Deadline
from watchdog.gate.probes import Evaluated, Trial
from watchdog.gate.report import Bisected, Probe, Probed
from watchdog.model import Cell, Check, Observation, Outcome, PackageChange, Status, Verdict
from watchdog.store.engine import Store, open_store
from watchdog.uv import Answer, Uv

CONFIG = """
    [watchdog]
    baseline = "current"
    [pins.current]
    requirements = {requirements}
    [pins.locked]
    lock = "locked.txt"
    [[kernel]]
    name = "flash"
    custom = "flash:kernel"
    native = "flash:native"
    [[kernel.case]]
    name = "small"
    args = ["f32[8]"]
    """
RELEASES = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
IMPORT = Asked("flash", Check.IMPORT, "jax", "1.0", "1.5")
NUMERICS = replace(IMPORT, check=Check.NUMERICS)

Versions = Mapping[str, str | None]


def later(bad: str) -> Callable[[Versions], Status]:
    """It is broken from this release of jax on."""
    return lambda versions: Status.REGRESSED if (versions["jax"] or "") >= bad else Status.PASS


@dataclass
class Bench:
    """Releases of jax, each with a jaxlib and a libtpu of its own, and a search whose verdicts are made up."""

    wheels: Wheelhouse
    store: Store
    folder: Path
    statuses: dict[Check, Callable[[Versions], Status]] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    told: list[Probe] = field(default_factory=list)
    requirements: tuple[str, ...] = ("jax[tpu]==1.0", "numpy==1.0")

    def found(self, asked: Asked, **options: Any) -> Bisected:
        path = self.folder / "watchdog.toml"
        path.write_text(textwrap.dedent(CONFIG).format(requirements=list(self.requirements)), encoding="utf-8")
        given = {
            "evaluate": self._evaluate,
            "deadline": Deadline(1000.0),
            "tell": lambda probe, _left: self.told.append(probe),
            "uv": self.wheels.uv(),
        }
        return bisect(self.store, configuration.load(path), asked, **{**given, **options})

    def _evaluate(self, trial: Trial) -> Evaluated:
        self.trials.append(trial)
        verdicts, observations = [], []
        for pins, lock in trial.locks.items():
            versions = {entry.name: entry.version for entry in lock.entries}
            for check, status in self.statuses.items():
                cell = Cell("flash", "custom", "" if check is Check.IMPORT else "small", pins, "", check)
                verdicts.append(Verdict(cell, status(versions), f"{check} under {pins}"))
                observations.append(Observation(cell, Outcome.OBSERVED))
        return Evaluated(tuple(verdicts), tuple(observations))

    @property
    def asked(self) -> list[str | None]:
        """The releases that were tried, in their order."""
        tried = (list(trial.locks.values())[-1] for trial in self.trials)
        return [next(entry.version for entry in lock.entries if entry.name == "jax") for lock in tried]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    wheels = Wheelhouse(tmp_path / "house")
    for version in RELEASES:
        wheels.add("jax", version, requires=(f"jaxlib=={version}", "numpy", f"libtpu=={version}; extra == 'tpu'"))
        wheels.add("jaxlib", version)
        wheels.add("libtpu", version)
        wheels.add("numpy", version)
    (tmp_path / "locked.txt").write_text("jax==1.0\njaxlib==1.0\nlibtpu==1.0\nnumpy==1.2\n", encoding="utf-8")
    bench = Bench(wheels, open_store("sqlite:///watchdog.db", root=tmp_path), tmp_path)
    bench.statuses = {Check.IMPORT: later("1.4")}
    return bench


class TestEdge:
    @pytest.mark.parametrize("bad", ["1.1", "1.4"])
    def test_the_first_bad_release_is_found_and_confirmed(self, bench: Bench, bad: str) -> None:
        """Both ends first, then halves, at last both sides of the edge again."""
        bench.statuses = {Check.IMPORT: later(bad)}
        found = bench.found(IMPORT)
        good = RELEASES[RELEASES.index(bad) - 1]
        assert (found.last_good, found.first_bad, found.certain, found.exit_code) == (good, bad, True, 0)
        assert found.said == f"jax {bad} is the first bad one after {good}: import under jax-{bad}"
        assert bench.asked[:2] == ["1.0", "1.5"]
        assert bench.asked[-2:] == [good, bad]
        assert len(bench.asked) <= 7
        assert list(found.path) == bench.told

    def test_it_can_be_searched_downwards(self, bench: Bench) -> None:
        """Where the newer release is the good one."""
        bench.statuses = {Check.IMPORT: lambda at: Status.PASS if (at["jax"] or "") >= "1.4" else Status.REGRESSED}
        found = bench.found(replace(IMPORT, good="1.5", bad="1.0"))
        assert (found.last_good, found.first_bad, found.certain) == ("1.4", "1.3", True)

    def test_each_release_is_judged_against_the_good_end(self, bench: Bench) -> None:
        """Whose observations are asked for once; to confirm a good end it is asked afresh."""
        bench.found(IMPORT)
        assert {next(iter(trial.locks)) for trial in bench.trials} == {"jax-1.0"}
        assert {trial.config.baseline for trial in bench.trials} == {"jax-1.0"}
        assert all(cell.pins == "jax-1.0" for trial in bench.trials for cell in trial.seen)
        assert bench.trials[-1].seen

    def test_without_an_edge_there_is_nothing_to_find(self, bench: Bench) -> None:
        """A good end that is bad, and a bad end that is good, are told as what they are."""
        bench.statuses = {Check.IMPORT: later("1.0")}
        found = bench.found(IMPORT)
        assert (found.last_good, found.certain, found.exit_code) == (None, False, 3)
        assert found.said == "jax 1.0 is not good, so there is no edge to find: import under jax-1.0"
        bench.statuses = {Check.IMPORT: later("9")}
        found = bench.found(replace(IMPORT, kernel="flash", good="1.1"))
        assert (found.last_good, found.first_bad, found.exit_code) == ("1.1", None, 3)
        assert found.said.startswith("jax 1.5 is not bad")


class TestUnjudged:
    def test_releases_that_cannot_be_judged_are_walked_around_and_named(self, bench: Bench) -> None:
        """Another fault stands before the question; the range that is left is told as a range."""
        bench.statuses = {
            Check.IMPORT: lambda at: Status.REGRESSED if at["jax"] in ("1.2", "1.3") else Status.PASS,
            Check.NUMERICS: lambda at: Status.SKIPPED if at["jax"] in ("1.2", "1.3") else later("1.3")(at),
        }
        found = bench.found(NUMERICS)
        assert (found.last_good, found.first_bad, found.between) == ("1.1", "1.4", ("1.2", "1.3"))
        assert (found.certain, found.exit_code) == (False, 3)
        assert found.said == ("it broke after jax 1.1 and not later than in 1.4; what lies between could not be judged")
        assert "jax 1.2: another fault: import under jax-1.2" in found.notes

    def test_releases_that_cannot_be_resolved_are_walked_around(self, bench: Bench) -> None:
        """Their reason is told; for the check install it would be the answer."""
        bench.wheels.add("jax", "1.3", requires=("missing",))
        found = bench.found(IMPORT)
        assert (found.last_good, found.first_bad, found.between) == ("1.2", "1.4", ("1.3",))
        (unresolvable,) = {probe.said for probe in found.path if probe.result is Probed.UNRESOLVABLE}
        assert "missing" in unresolvable
        bench.statuses = {Check.INSTALL: lambda _: Status.PASS}
        found = bench.found(replace(IMPORT, check=Check.INSTALL, bad="1.3"))
        assert (found.last_good, found.first_bad, found.certain) == ("1.2", "1.3", True)

    def test_a_release_that_contradicts_itself_is_told(self, bench: Bench) -> None:
        """An edge that is not the same twice is none."""
        answers = iter([Status.REGRESSED, Status.PASS])
        bench.statuses = {Check.IMPORT: lambda at: next(answers) if at["jax"] == "1.4" else later("1.5")(at)}
        found = bench.found(IMPORT)
        assert not found.certain
        assert "answered otherwise when it was asked again under jax 1.4" in found.said

    def test_an_index_that_goes_away_is_no_ones_fault(self, bench: Bench) -> None:
        """The search ends with what it knows kept, and says so."""
        real = bench.wheels.uv()

        def run(command: Any, **options: Any) -> Answer:
            if "pylock.toml" in command and "jax[tpu]==1.5" in options["stdin"]:
                return Answer(2, "", "error: Failed to fetch: https://index/simple/jax/", 0.1)
            return real.run(command, **options)

        with pytest.raises(IncompleteError, match=r"jax-1\.5 could not be resolved, and that is not its fault"):
            bench.found(IMPORT, uv=Uv(real.binary, real.environment, run))
        assert bench.asked == ["1.0"]


class TestRestOfTheEnvironment:
    def test_other_requirements_stay_and_what_is_in_step_moves(self, bench: Bench) -> None:
        """jaxlib was pinned by hand, too; extras are kept."""
        bench.requirements = ("jax[tpu]==1.0", "jaxlib==1.0", "numpy==1.0")
        found = bench.found(IMPORT)
        assert "jaxlib moved along with jax, as its releases require" in found.notes
        assert found.moved == (PackageChange("jaxlib", "1.3", "1.4"), PackageChange("libtpu", "1.3", "1.4"))
        for trial in bench.trials:
            versions = {entry.name: entry.version for entry in list(trial.locks.values())[-1].entries}
            assert versions["numpy"] == "1.0"
            assert versions["jax"] == versions["jaxlib"] == versions["libtpu"]

    def test_of_a_lock_all_else_is_held(self, bench: Bench) -> None:
        """As constraints: what no release requires any more does not stay."""
        bench.wheels.add("jax", "1.5", requires=("jaxlib==1.5", "libtpu==1.5; extra == 'tpu'"))
        found = bench.found(replace(IMPORT, pins="locked"))
        assert (found.last_good, found.first_bad) == ("1.3", "1.4")
        by_release = {
            one: {entry.name: entry.version for entry in list(trial.locks.values())[-1].entries}
            for one, trial in zip(bench.asked, bench.trials, strict=True)
        }
        assert by_release["1.4"]["numpy"] == "1.2"
        assert by_release["1.4"]["libtpu"] == "1.4"
        assert "numpy" not in by_release["1.5"]

    def test_a_package_that_others_bring_is_added(self, bench: Bench) -> None:
        """And that is said."""
        bench.requirements = ("jax[tpu]==1.0",)
        bench.statuses = {Check.IMPORT: lambda at: Status.REGRESSED if at["numpy"] == "1.5" else Status.PASS}
        found = bench.found(replace(IMPORT, package="numpy"))
        assert (found.last_good, found.first_bad) == ("1.4", "1.5")
        assert "numpy is no requirement of current: each release was added to it" in found.notes


class TestMemoryAndTime:
    def test_a_second_search_asks_the_edge_alone(self, bench: Bench) -> None:
        """All else is remembered; the edge is confirmed afresh."""
        bench.found(IMPORT)
        count = len(bench.asked)
        found = bench.found(IMPORT)
        assert found.certain
        assert bench.asked[count:] == ["1.3", "1.4"]
        assert [probe.what for probe in found.path if not probe.remembered] == ["jax 1.3 again", "jax 1.4 again"]

    @pytest.mark.parametrize("limit", [0, 3])
    def test_a_search_that_was_stopped_goes_on_where_it_was(self, bench: Bench, limit: int) -> None:
        """What was asked before the budget ended is not asked again before the edge is confirmed."""
        left = [limit]

        def clock() -> float:
            return 0.0 if len(bench.trials) < left[0] else 100.0

        stopped = bench.found(IMPORT, deadline=Deadline(50.0, clock=clock) if limit else Deadline(0.0))
        assert not stopped.certain
        assert len(bench.trials) == limit
        before = list(bench.asked)
        found = bench.found(IMPORT)
        assert (found.last_good, found.first_bad, found.certain) == ("1.3", "1.4", True)
        assert not set(before) & set(bench.asked[limit:-2])


class TestMistakes:
    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"kernel": "flush"}, "--kernel flush: there is no such kernel; did you mean"),
            ({"pins": "currant"}, "--pins currant: there are no such pins"),
            ({"cases": ("large",)}, "--case large: there is no such case"),
            ({"implementation": "other"}, "--implementation other: there is no such implementation"),
            ({"good": "0.9"}, "jax has no release 0.9"),
            ({"good": "1.5"}, "are the same release"),
        ],
    )
    def test_what_is_not_there_is_refused(self, bench: Bench, changed: dict[str, Any], said: str) -> None:
        """Before anything is asked."""
        with pytest.raises(UsageError, match=said):
            bench.found(replace(IMPORT, **changed))
        assert not bench.trials

    def test_a_package_that_comes_from_elsewhere_has_no_releases(self, bench: Bench) -> None:
        """Its requirement names a place; credentials in it are not shown."""
        bench.requirements = ("jax @ https://user:secret@example.org/jax-1.0-py3-none-any.whl",)
        with pytest.raises(UsageError, match="which has no releases") as refused:
            bench.found(IMPORT)
        assert "secret" not in str(refused.value)
