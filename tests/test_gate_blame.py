"""Which package did it: the search over real mixtures, with probes that are made up, and one that is real."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.projects import NEW
from tests.wheelhouse import Wheelhouse
from watchdog import config as configuration
from watchdog.environments import EnvironmentCache
from watchdog.gate.blame import blame
from watchdog.gate.deadline import Deadline
from watchdog.gate.mixtures import Roots
from watchdog.gate.probes import Evaluated, Once, Prober, Trial
from watchdog.gate.report import Blame, Probe, Probed
from watchdog.model import Cell, Check, Observation, Outcome, PackageChange, Status, Verdict
from watchdog.pins import Lock, PinsRequest, resolve
from watchdog.plan import Selection
from watchdog.store.engine import Store, open_store
from watchdog.uv import Uv, clean_environment

CONFIG = """
    [watchdog]
    baseline = "base"
    [pins.base]
    requirements = ["jax"]
    [pins.head]
    requirements = ["jax"]
    [[kernel]]
    name = "flash"
    custom = "flash:kernel"
    native = "flash:native"
    [[kernel.case]]
    name = "small"
    args = ["f32[8]"]
    """
IMPORT = Verdict(
    Cell("flash", "custom", "", "head", "", Check.IMPORT),
    Status.REGRESSED,
    "no absl",
    "base",
    kind="missing dependency",
)
NUMERICS = Verdict(
    Cell("flash", "custom", "small", "head", "host", Check.NUMERICS), Status.REGRESSED, "wrong", "base", kind="wrong"
)
MEMORY = Verdict(
    Cell("flash", "custom", "small", "head", "host", Check.MEMORY, "steady"), Status.REGRESSED, "leaks", "base"
)
PACKAGES = ("a", "b", "c", "d", "e", "f")

SCALED = """\
import part_a

def kernel(x):
    return x * float(part_a.VERSION)

def native(x):
    return x * 1.0
"""

# What a lock does to the kernel: the verdict on each of the cells above.
Behaviour = Callable[[Mapping[str, str | None]], Mapping[Cell, Verdict]]


def bad(verdict: Verdict, when: Callable[[Mapping[str, str | None]], bool]) -> Behaviour:
    """A finding that is there under some versions."""
    good = replace(verdict, status=Status.PASS, kind=None, summary="fine")
    return lambda versions: {verdict.cell: verdict if when(versions) else good}


@dataclass
class Bench:
    """Two locks of made-up packages, and a search among them whose probes are made up."""

    store: Store
    uv: Uv
    base: Lock
    head: Lock
    folder: Path
    behaviours: Sequence[Behaviour] = ()
    trials: list[Trial] = field(default_factory=list)
    told: list[Probe] = field(default_factory=list)

    def blamed(self, *regressed: Verdict, deadline: Deadline | None = None) -> tuple[Blame, ...]:
        return blame(
            regressed,
            self.base,
            self.head,
            roots=Roots(),
            prober=self.prober(),
            deadline=deadline or Deadline(1000.0),
            tell=lambda probe, _left: self.told.append(probe),
            uv=self.uv,
        )

    def prober(self) -> Prober:
        path = self.folder / "watchdog.toml"
        path.write_text(textwrap.dedent(CONFIG), encoding="utf-8")
        return Prober(self.store, configuration.load(path), "base", "head", self.base, {}, self._evaluate)

    def _evaluate(self, trial: Trial) -> Evaluated:
        self.trials.append(trial)
        versions = {entry.name: entry.version for entry in trial.locks["head"].entries}
        verdicts = {cell: one for behaviour in self.behaviours for cell, one in behaviour(versions).items()}
        seen = Observation(Cell("flash", "custom", "", "base", "", Check.IMPORT), Outcome.OBSERVED)
        return Evaluated(tuple(verdicts.values()), (seen,))


def locked(uv: Uv, folder: Path, *requirements: str) -> Lock:
    found = resolve(PinsRequest("pins", requirements, None, None, folder), uv)
    assert isinstance(found, Lock)
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bump of six packages that need nothing of each other."""
    wheels = Wheelhouse(tmp_path / "house")
    for name in PACKAGES:
        for version in ("1.0", "2.0"):
            wheels.add(name, version)
    uv = wheels.uv()
    base, head = (locked(uv, tmp_path, *(f"{name}=={version}" for name in PACKAGES)) for version in ("1.0", "2.0"))
    return Bench(open_store("sqlite:///watchdog.db", root=tmp_path), uv, base, head, tmp_path)


def named(found: Blame) -> list[str]:
    return [change.name for change in found.packages]


class TestOneFinding:
    @pytest.mark.parametrize("culprit", ["a", "d", "f"])
    def test_one_of_six_packages_is_named(self, bench: Bench, culprit: str) -> None:
        """In few probes, each of which is told as it is made and kept on the path."""
        bench.behaviours = [bad(NUMERICS, lambda versions: versions[culprit] == "2.0")]
        (found,) = bench.blamed(NUMERICS)
        assert found.packages == (PackageChange(culprit, "1.0", "2.0"),)
        assert (found.verdicts, found.complete) == ((NUMERICS.id,), True)
        assert found.said == f"{culprit} 1.0 → 2.0 brings it"
        assert list(found.path) == bench.told
        assert len(bench.trials) == len(bench.told) <= 8

    def test_two_that_do_it_together_are_both_named(self, bench: Bench) -> None:
        """Neither does it alone."""
        bench.behaviours = [bad(NUMERICS, lambda versions: versions["b"] == versions["e"] == "2.0")]
        (found,) = bench.blamed(NUMERICS)
        assert (named(found), found.complete) == (["b", "e"], True)
        assert found.said == "b 1.0 → 2.0 and e 1.0 → 2.0 together bring it"

    def test_a_second_cause_is_told(self, bench: Bench) -> None:
        """Taking back the one that is named would not be enough."""
        bench.behaviours = [bad(NUMERICS, lambda versions: "2.0" in (versions["a"], versions["f"]))]
        (found,) = bench.blamed(NUMERICS)
        assert named(found) == ["a"]
        assert found.said.endswith("; the rest of the change brings it as well")

    def test_the_only_change_is_named_without_a_probe(self, bench: Bench) -> None:
        """There is nothing to find out."""
        bench.head = locked(
            bench.uv, bench.folder, *(f"{name}=={'2.0' if name == 'c' else '1.0'}" for name in PACKAGES)
        )
        (found,) = bench.blamed(NUMERICS, IMPORT)
        assert (named(found), found.said, found.path) == (["c"], "c 1.0 → 2.0 is all that changed", ())
        assert found.verdicts == (NUMERICS.id, IMPORT.id)
        assert not bench.trials

    def test_another_fault_in_the_way_leaves_it_open(self, bench: Bench) -> None:
        """What hides the answer is not taken for the regression, nor for its absence."""
        other = replace(NUMERICS, kind="crash", summary="it crashed")

        def behaviour(versions: Mapping[str, str | None]) -> Mapping[Cell, Verdict]:
            mixed = (versions["a"] == "2.0") is not (versions["b"] == "2.0")
            return {
                NUMERICS.cell: other if mixed else bad(NUMERICS, lambda one: one["a"] == "2.0")(versions)[NUMERICS.cell]
            }

        bench.behaviours = [behaviour]
        (found,) = bench.blamed(NUMERICS)
        assert (set(named(found)), found.complete) == ({"a", "b"}, False)
        assert found.said.endswith("whether a and b must be among them could not be judged")
        assert {probe.result for probe in found.path} >= {Probed.UNKNOWN}

    def test_what_cannot_be_installed_is_said(self, bench: Bench) -> None:
        """Of the environment, and not of the kernel; it is not remembered, for another day may be better."""
        install = Verdict(Cell("", "", "", "head", "", Check.INSTALL), Status.REGRESSED, "no space left")
        bench.behaviours = [
            bad(NUMERICS, lambda versions: versions["f"] == "2.0"),
            bad(install, lambda versions: versions["a"] == "2.0" and versions["f"] == "1.0"),
        ]
        (found,) = bench.blamed(NUMERICS)
        assert named(found) == ["f"]
        failed = [probe for probe in found.path if probe.result is Probed.UNRESOLVABLE]
        assert failed
        assert {probe.said for probe in failed} == {"no space left"}
        assert not any(probe.remembered for probe in failed)


class TestRequirements:
    def test_what_a_package_no_longer_requires_is_told(self, tmp_path: Path) -> None:
        """jax, with jaxlib in step, has lost absl-py; the other packages are innocent."""
        wheels = Wheelhouse(tmp_path / "house")
        for version, rest in (("1.0", ("absl-py",)), ("2.0", ())):
            wheels.add("jax", version, requires=(f"jaxlib=={version}", *rest))
            for name in ("jaxlib", "numpy", "toml"):
                wheels.add(name, version)
        wheels.add("absl_py", "1.0")
        uv = wheels.uv()
        base, head = (
            locked(uv, tmp_path, *(f"{name}=={version}" for name in ("jax", "numpy", "toml")))
            for version in ("1.0", "2.0")
        )
        bench = Bench(open_store("sqlite:///watchdog.db", root=tmp_path), uv, base, head, tmp_path)
        bench.behaviours = [bad(IMPORT, lambda versions: "absl-py" not in versions)]
        (found,) = bench.blamed(IMPORT)
        assert named(found) == ["jax", "jaxlib"]
        assert found.said == (
            "jax 1.0 → 2.0 (with jaxlib, which it must move with) brings it: its requirements lost absl-py"
        )
        assert found.path[0].what == "jax 2.0, jaxlib 2.0"


class TestSeveralFindings:
    def test_findings_of_one_cause_share_a_blame(self, bench: Bench) -> None:
        """They are asked in the same probes; the one that stands in the others' way leads."""
        at = lambda versions: versions["d"] == "2.0"  # noqa: E731
        bench.behaviours = [bad(IMPORT, at), bad(NUMERICS, at), bad(MEMORY, at)]
        (found,) = bench.blamed(MEMORY, NUMERICS, IMPORT)
        assert (named(found), set(found.verdicts)) == (["d"], {IMPORT.id, NUMERICS.id, MEMORY.id})
        asked_of_memory = [trial for trial in bench.trials if Check.MEMORY in trial.selection.checks]
        assert len(asked_of_memory) == 1  # what is slow is asked of the package that was found alone

    def test_findings_of_two_causes_have_a_blame_each(self, bench: Bench) -> None:
        """What the first search learned of the second finding is not asked again."""
        bench.behaviours = [
            bad(IMPORT, lambda versions: versions["b"] == "2.0"),
            bad(NUMERICS, lambda versions: versions["e"] == "2.0"),
        ]
        first, second = bench.blamed(NUMERICS, IMPORT)
        assert (first.verdicts, named(first)) == ((IMPORT.id,), ["b"])
        assert (second.verdicts, named(second)) == ((NUMERICS.id,), ["e"])
        locks = [trial.locks["head"].hash for trial in bench.trials]
        assert len(locks) == len(set(locks))


class TestMemoryAndTime:
    def test_a_second_search_probes_nothing(self, bench: Bench) -> None:
        """Its path is the same, and says that it is remembered."""
        bench.behaviours = [bad(NUMERICS, lambda versions: versions["c"] == "2.0")]
        (first,) = bench.blamed(NUMERICS)
        count = len(bench.trials)
        (second,) = bench.blamed(NUMERICS)
        assert len(bench.trials) == count
        assert all(probe.remembered for probe in second.path)
        assert [(probe.what, probe.result) for probe in second.path] == [
            (probe.what, probe.result) for probe in first.path
        ]

    def test_another_kernel_is_asked_anew(self, bench: Bench) -> None:
        """What was learned of the code as it was holds no longer."""
        bench.behaviours = [bad(NUMERICS, lambda versions: versions["c"] == "2.0")]
        prober = bench.prober()
        kernel = prober.config.kernel[0].model_copy(update={"tolerance": 0.5})
        other = replace(prober, config=prober.config.model_copy(update={"kernel": (kernel,)}))
        question = type("Question", (), {"subject": "same", "selection": Selection()})()
        assert prober.digest(question) != other.digest(question)

    def test_without_time_nothing_is_asked(self, bench: Bench) -> None:
        """And that is said."""
        (found,) = bench.blamed(NUMERICS, IMPORT, deadline=Deadline(0.0))
        assert (found.packages, found.complete, len(found.verdicts)) == ((), False, 2)
        assert found.said == "the budget ended before the package could be searched for"
        assert not bench.trials

    def test_when_the_time_is_up_what_is_left_is_told(self, bench: Bench) -> None:
        """The search had come down to some of the packages."""
        bench.behaviours = [bad(NUMERICS, lambda versions: versions["f"] == "2.0")]
        clock = iter([0.0] * 12 + [100.0] * 1000)
        (found,) = bench.blamed(NUMERICS, deadline=Deadline(50.0, clock=lambda: next(clock)))
        assert not found.complete
        assert found.said.startswith("the budget ended before the package was found")
        assert not found.packages or "f" in named(found)

    def test_equal_sides_have_nobody_to_blame(self, bench: Bench) -> None:
        """The package is not the cause where none changed."""
        bench.head = bench.base
        assert bench.blamed(NUMERICS) == ()


@pytest.mark.real
def test_the_package_that_changes_a_kernels_numbers_is_named(tmp_path: Path) -> None:
    """A bump of six packages beside a real jax: five are idle, and the kernel takes its factor from one."""
    house = Wheelhouse(tmp_path / "house")
    for name in PACKAGES:
        for version in ("1.0", "2.0"):
            house.add(f"part_{name}", version)
    known = clean_environment(os.environ)
    links = ",".join(filter(None, (known.get("UV_FIND_LINKS"), str(house.wheels))))
    uv = Uv(Uv.found().binary, {**known, "UV_FIND_LINKS": links})
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scaled.py").write_text(SCALED, encoding="utf-8")
    (tmp_path / "watchdog.toml").write_text(textwrap.dedent(CONFIG.replace("flash", "scaled")), encoding="utf-8")
    loaded = configuration.load(tmp_path / "watchdog.toml")
    loaded = loaded.model_copy(update={"kernel": (loaded.kernel[0].model_copy(update={"path": "kernels"}),)})
    base, head = (
        locked(uv, tmp_path, NEW, *(f"part_{name}=={version}" for name in PACKAGES)) for version in ("1.0", "2.0")
    )
    once = Once(EnvironmentCache(tmp_path / "environments", uv), uv, Deadline(600))
    asked = Selection(kernels=("scaled",), checks=("install", "import", "numerics"))
    done = once(Trial(loaded, asked, {"base": base, "head": head}, {}))
    regressed = [one for one in done.verdicts if one.status is Status.REGRESSED]
    assert [(one.cell.implementation, one.cell.check) for one in regressed] == [("custom", Check.NUMERICS)]
    seen = {one.cell: one for one in done.observations if one.cell.pins == "base"}
    store = open_store("sqlite:///watchdog.db", root=tmp_path)
    prober = Prober(store, loaded, "base", "head", base, seen, once)
    (found,) = blame(
        regressed, base, head, roots=Roots(), prober=prober, deadline=Deadline(600.0), tell=lambda *_: None, uv=uv
    )
    assert (named(found), found.complete) == (["part-a"], True)
