"""From the configuration to cells, from cells to jobs, from a job to the plan that goes into an environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.inside import checks
from watchdog import plan
from watchdog.config import Config, load
from watchdog.errors import UsageError
from watchdog.model import Cell, Check, Fault, Observation, Outcome, Scenario
from watchdog.plan import Job, Lane, Selection
from watchdog.runner import label

TWO_PINS = """
[watchdog]
baseline = "old"
targets = ["host", "tpu:v5e"]
[pins.new]
requirements = ["jax==0.10.2"]
[pins.old]
requirements = ["jax==0.8.3"]
"""
ATTENTION = """
[[kernel]]
name = "attention"
custom = "mine:attention"
native = "mine.native:attention"
also = { upstream = "theirs:attention" }
path = "kernels"
[[kernel.case]]
name = "small"
args = ["f32[8,128]"]
kwargs = { causal = true, window = [128, 0], scale = 0.088 }
seed = 7
length = 128
[[kernel.case]]
name = "large"
args = ["bf16[2048,128]"]
"""
NORM = """
[[kernel]]
name = "norm"
custom = "norms:rms"
native = "norms:plain"
[[kernel.case]]
name = "wide"
args = ["f32[8,4096]"]
"""
HOST_CHECKS = [Check.NUMERICS, Check.GRADIENTS, Check.RACES, Check.MEMORY, Check.TIMING]


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[str], Config]:
    def _configured(text: str) -> Config:
        (tmp_path / "kernels").mkdir()
        path = tmp_path / "watchdog.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return _configured


@pytest.fixture
def config(configured: Callable[[str], Config]) -> Config:
    """Two pins, two kernels, three implementations of the first."""
    return configured(TWO_PINS + ATTENTION + NORM)


def cell(check: Check, target: str = "host", case: str = "small", implementation: str = "custom") -> Cell:
    return Cell("attention", implementation, case, "old", target, check)


def imported(implementation: str = "custom") -> Cell:
    return Cell("attention", implementation, "", "old", "", Check.IMPORT)


class TestCells:
    def test_are_asked_in_a_fixed_order(self, config: Config) -> None:
        """Installation first, the baseline's pins first, then kernel by kernel as the file has them, each cell once."""
        found = plan.cells(config, Selection())
        assert len(found) == len(set(found))
        assert found[:2] == (
            Cell("", "", "", "old", "", Check.INSTALL),
            Cell("", "", "", "new", "", Check.INSTALL),
        )
        asked = [(each.pins, each.kernel, each.implementation) for each in found if each.check is Check.IMPORT]
        kernels = [("attention", name) for name in ("custom", "native", "upstream")]
        kernels += [("norm", name) for name in ("custom", "native")]
        assert asked == [(pins, *kernel) for pins in ("old", "new") for kernel in kernels]

    def test_of_an_implementation_follow_one_another(self, config: Config) -> None:
        """Import, lower and compile for all cases and targets, then for each case schedule and the host's questions."""
        one = [each for each in plan.cells(config, Selection()) if (each.pins, each.kernel) == ("old", "attention")]
        ours = [each for each in one if each.implementation == "custom" and each.scenario in ("", "steady")]
        by_compiler = [(target, check) for target in ("host", "tpu:v5e") for check in (Check.LOWER, Check.COMPILE)]
        per_case = [("tpu:v5e", Check.SCHEDULE), *(("host", check) for check in HOST_CHECKS)]
        expected = [("", "", Check.IMPORT)]
        for questions in (by_compiler, per_case):
            expected += [(case, target, check) for case in ("small", "large") for target, check in questions]
        assert [(each.case, each.target, each.check) for each in ours] == expected

    def test_memory_is_asked_in_each_scenario(self, config: Config) -> None:
        """One cell for each way of using the kernel, in the order of the words; no other check has one."""
        found = [each for each in plan.cells(config, Selection()) if each.scenario]
        ours = [each for each in found if (each.pins, each.kernel, each.case) == ("old", "attention", "small")]
        assert {each.check for each in found} == {Check.MEMORY}
        assert [each.scenario for each in ours if each.implementation == "custom"] == [one.value for one in Scenario]

    def test_a_kernel_may_have_scenarios_of_its_own(self, configured: Callable[[str], Config]) -> None:
        """The kernel's list goes before the general one, and a selection limits both."""
        general = TWO_PINS.replace('baseline = "old"', 'baseline = "old"\nscenarios = ["steady", "grad"]')
        own = ATTENTION.replace('name = "attention"', 'name = "attention"\nscenarios = ["eager", "grad"]', 1)
        config = configured(general + own + NORM)

        def scenarios(selection: Selection) -> dict[str, set[str]]:
            cells = [each for each in plan.cells(config, selection) if each.scenario]
            return {name: {one.scenario for one in cells if one.kernel == name} for name in ("attention", "norm")}

        assert scenarios(Selection()) == {"attention": {"eager", "grad"}, "norm": {"steady", "grad"}}
        chosen = scenarios(Selection(scenarios=("eager",)))
        assert chosen == {"attention": {"eager"}, "norm": {"eager"}}

    def test_an_unknown_scenario_is_refused(self, config: Config) -> None:
        """The message names the option and what was probably meant."""
        with pytest.raises(UsageError, match="--scenario steddy: there is no such scenario; did you mean steady"):
            plan.cells(config, Selection(scenarios=("steddy",)))

    def test_without_the_host_only_the_compiler_is_asked(self, config: Config) -> None:
        """Where this machine's device is no target, nothing is run on it."""
        found = plan.cells(config, Selection(targets=("tpu:v5e",)))
        assert {each.check for each in found if each.target} == {Check.LOWER, Check.COMPILE, Check.SCHEDULE}

    def test_only_what_is_selected_is_asked(self, config: Config) -> None:
        """Each option limits its own part; installation and import have no case or target to be limited by."""
        selection = Selection(("new",), ("attention",), ("large",), ("native",), ("host",), ("import", "numerics"))
        assert plan.cells(config, selection) == (
            Cell("attention", "native", "", "new", "", Check.IMPORT),
            Cell("attention", "native", "large", "new", "host", Check.NUMERICS),
        )

    @pytest.mark.parametrize(
        "selection", [Selection(cases=("wide",)), Selection(cases=("wide",), checks=("install", "import"))]
    )
    def test_a_kernel_without_a_selected_case_is_not_asked(self, config: Config, selection: Selection) -> None:
        """Where a case is selected, kernels that do not have it are not even imported."""
        assert {each.kernel for each in plan.cells(config, selection)} == {"", "norm"}

    def test_a_kernel_without_the_selected_implementation_is_not_asked(self, config: Config) -> None:
        """Where a further implementation is selected, kernels that lack it are left out."""
        found = plan.cells(config, Selection(implementations=("upstream",)))
        assert {each.kernel for each in found} == {"", "attention"}

    def test_a_check_that_the_file_leaves_out_can_be_selected(self, configured: Callable[[str], Config]) -> None:
        """The file says what is asked by default; the option may ask for any check that exists."""
        config = configured('[watchdog]\nchecks = ["install"]\n[pins.p]\nrequirements = ["jax"]\n' + NORM)
        assert {each.check for each in plan.cells(config, Selection())} == {Check.INSTALL}
        assert {each.check for each in plan.cells(config, Selection(checks=("memory",)))} == {Check.MEMORY}

    @pytest.mark.parametrize(
        ("selection", "message"),
        [
            (Selection(pins=("nwe",)), "--pins nwe: there is no such pins; did you mean new?"),
            (Selection(kernels=("atention",)), "--kernel atention: there is no such kernel; did you mean attention?"),
            (Selection(cases=("smal",)), "--case smal: there is no such case; did you mean small?"),
            (Selection(implementations=("upsteam",)), "there is no such implementation; did you mean upstream?"),
            (Selection(targets=("tpu:v6e",)), "--target tpu:v6e: there is no such target; did you mean tpu:v5e?"),
            (Selection(checks=("memroy",)), "--check memroy: there is no such check; did you mean memory?"),
            (Selection(scenarios=("zzz",)), "the configuration has steady, eager, shapes"),
            (Selection(kernels=("zzz",)), "the configuration has attention, norm"),
            (Selection(kernels=("norm",), cases=("small",)), "--case small: there is no such case"),
        ],
    )
    def test_a_name_that_does_not_exist_is_refused(self, config: Config, selection: Selection, message: str) -> None:
        """An unknown name is told with its option, and with the nearest that exists, or with all."""
        with pytest.raises(UsageError) as caught:
            plan.cells(config, selection)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "selection",
        [
            Selection(targets=("host",), checks=("schedule",)),
            Selection(cases=("wide",), implementations=("upstream",)),
        ],
    )
    def test_nothing_left_to_ask_is_refused(self, config: Config, selection: Selection) -> None:
        """Options that exclude one another are a mistake, not a run that passes."""
        with pytest.raises(UsageError, match="nothing is left to ask"):
            plan.cells(config, selection)

    def test_a_selection_is_kept_with_its_run(self) -> None:
        """A selection comes back from JSON as it was, so that a run can be resumed."""
        selection = Selection(("new",), (), ("large",), ("native",), ("host",), ("import", "memory"), ("grad",))
        assert Selection.from_json(json.loads(json.dumps(selection.to_json()))) == selection


class TestEnvironments:
    def test_kernels_share_one_for_each_pins(self, config: Config) -> None:
        """Kernels that need nothing beside the pins share an environment, with one cell for its installation."""
        old, new = plan.environment_requests(config, Selection())
        assert (old.pins, new.pins) == ("old", "new")
        assert old.kernels == ("attention", "norm")
        assert old.install_cells == (Cell("", "", "", "old", "", Check.INSTALL),)

    def test_kernels_with_needs_of_their_own_have_their_own(self, configured: Callable[[str], Config]) -> None:
        """Where kernels need different packages, each set has an environment, and each kernel its installation's cell."""
        needs = 'requirements = ["tokamax"]\n'
        config = configured(
            TWO_PINS
            + ATTENTION.replace('path = "kernels"\n', needs)
            + NORM
            + NORM.replace('"norm"', '"second_norm"').replace("native =", needs + "native =")
        )
        requests = plan.environment_requests(config, Selection(pins=("old",)))
        assert [(each.kernels, each.requirements) for each in requests] == [
            (("attention", "second_norm"), ("tokamax",)),
            (("norm",), ()),
        ]
        assert [each.kernel for request in requests for each in request.install_cells] == [
            "attention",
            "second_norm",
            "norm",
        ]
        assert {each.kernel for each in plan.cells(config, Selection()) if each.check is Check.INSTALL} == {
            "attention",
            "second_norm",
            "norm",
        }


class TestAddress:
    @pytest.mark.parametrize("scenario", ["", *Scenario])
    def test_ends_with_the_scenario_where_there_is_one(self, scenario: str) -> None:
        """Cells that differ in the scenario alone have addresses of their own, shown while they run."""
        memory = replace(cell(Check.MEMORY), scenario=str(scenario))
        beside = f"/{scenario}" if scenario else ""
        assert memory.address == f"attention/custom/small/old/host/memory{beside}"
        assert label(memory) == f"{f'memory {scenario}'.strip()}: attention/custom small (old host)"


class TestLanes:
    def test_a_machine_without_an_accelerator_has_two(self, config: Config) -> None:
        """All that runs beside others, and timing, which is alone."""
        lanes = {each.check: plan.lane(each, "cpu") for each in plan.cells(config, Selection())}
        assert [check for check, lane in lanes.items() if lane is Lane.TIMING] == [Check.TIMING]
        assert set(lanes.values()) == {Lane.SIDE_BY_SIDE, Lane.TIMING}

    @pytest.mark.parametrize("host", ["gpu", "tpu"])
    def test_an_accelerator_is_held_by_one_process_at_a_time(self, host: str) -> None:
        """What needs the device has a lane of its own; what the TPU compiler alone answers, and races, do not."""
        for check in (Check.LOWER, Check.COMPILE, Check.NUMERICS, Check.GRADIENTS, Check.MEMORY):
            assert plan.lane(cell(check), host) is Lane.DEVICE
        assert plan.lane(cell(Check.TIMING), host) is Lane.TIMING
        assert plan.lane(cell(Check.RACES), host) is Lane.SIDE_BY_SIDE
        assert plan.lane(cell(Check.LOWER, "tpu:v5e"), host) is Lane.SIDE_BY_SIDE
        assert plan.lane(cell(Check.SCHEDULE, "tpu:v5e"), host) is Lane.SIDE_BY_SIDE
        assert plan.lane(imported(), host) is Lane.SIDE_BY_SIDE

    def test_jobs_hold_every_cell_once(self, config: Config) -> None:
        """One job for each pins, kernel, implementation and lane; together they ask all but the installations."""
        asked = plan.cells(config, Selection())
        hosts = {"old": "cpu", "new": "gpu"}
        jobs = plan.jobs(asked, hosts.__getitem__)
        assert len({(job.pins, job.kernel, job.implementation, job.lane) for job in jobs}) == len(jobs)
        assert sorted(each for job in jobs for each in job.cells) == sorted(
            each for each in asked if each.check is not Check.INSTALL
        )
        assert {job.pins for job in jobs if job.lane is Lane.DEVICE} == {"new"}
        assert all(plan.lane(each, hosts[job.pins]) is job.lane for job in jobs for each in job.cells)


class TestSameQuestions:
    def shared(self, config: Config) -> list[tuple[Cell, Cell]]:
        """(the cell that is asked, one that it answers) of all pairs."""
        same = plan.same_questions(config, plan.cells(config, Selection(pins=("old",))))
        return [(first, other) for first, others in same.items() for other in others]

    def beside(self, part: str, other: str) -> str:
        """The kernel, and the same under a second name with one part of it changed."""
        assert part in ATTENTION
        return TWO_PINS + ATTENTION + ATTENTION.replace('name = "attention"', 'name = "second"').replace(part, other)

    def test_a_kernel_of_its_own_is_asked_everything(self, config: Config) -> None:
        """Cells that differ in anything are all asked."""
        assert self.shared(config) == []

    def test_what_two_kernels_share_is_asked_once(self, configured: Callable[[str], Config]) -> None:
        """A native implementation and cases that two kernels share are asked for the first and answer the second."""
        config = configured(self.beside('"mine:attention"', '"other:attention"'))
        pairs = self.shared(config)
        assert {(first.kernel, other.kernel) for first, other in pairs} == {("attention", "second")}
        assert {first.implementation for first, _ in pairs} == {"native", "upstream"}
        assert all(first.address.split("/")[1:] == other.address.split("/")[1:] for first, other in pairs)
        every = [each for each in plan.cells(config, Selection(pins=("old",))) if each.implementation == "native"]
        assert len([pair for pair in pairs if pair[0].implementation == "native"]) * 2 == len(every)

    def test_each_scenario_is_a_question_of_its_own(self, configured: Callable[[str], Config]) -> None:
        """An answer goes to the other kernel's cell of the same scenario, and to no other scenario's."""
        pairs = self.shared(configured(self.beside('"mine:attention"', '"other:attention"')))
        watched = [(first.scenario, other.scenario) for first, other in pairs if first.check is Check.MEMORY]
        assert {first for first, _ in watched} == {one.value for one in Scenario}
        assert all(first == other for first, other in watched)

    def test_another_length_is_another_question(self, configured: Callable[[str], Config]) -> None:
        """Where another dimension is varied, what one kernel was asked answers nothing of the other's case."""
        pairs = self.shared(configured(self.beside("length = 128", "length = 8")))
        assert {first.case for first, _ in pairs} == {"", "large"}

    def test_another_truth_is_another_question(self, configured: Callable[[str], Config]) -> None:
        """Where the references differ, numbers and gradients are asked of both, the rest once."""
        pairs = self.shared(configured(self.beside("path =", 'reference = "mine:truth"\npath =')))
        assert {first.check for first, _ in pairs} == set(Check) - {Check.INSTALL, Check.NUMERICS, Check.GRADIENTS}

    def test_another_native_is_another_question_where_it_counts(self, configured: Callable[[str], Config]) -> None:
        """Native's size decides what may be interpreted: beside another native, what is run is asked again."""
        shared = self.shared(configured(self.beside("mine.native:", "other:")))
        pairs = [pair for pair in shared if pair[0].implementation == "custom"]
        assert {first.check for first, _ in pairs} == {
            Check.IMPORT,
            Check.LOWER,
            Check.COMPILE,
            Check.SCHEDULE,
            Check.TIMING,
        }


class TestBlocked:
    FAULT = Fault(kind="ModuleNotFoundError", message="No module named 'absl'\nmore")

    def failed(self, which: Cell, outcome: Outcome = Outcome.FAILED) -> dict[Cell, Observation]:
        return {which: Observation(which, outcome, fault=self.FAULT)}

    @pytest.mark.parametrize("check", [check for check in Check if check not in (Check.INSTALL, Check.IMPORT)])
    def test_nothing_is_asked_of_what_does_not_import(self, check: Check) -> None:
        """Every later question is answered by the import's fault, in one line."""
        reason = plan.blocked(cell(check), self.failed(imported()))
        assert reason == "does not import: ModuleNotFoundError: No module named 'absl'"

    @pytest.mark.parametrize(
        ("before", "check", "target", "reason"),
        [
            (Check.LOWER, Check.COMPILE, "tpu:v5e", "does not lower: "),
            (Check.LOWER, Check.SCHEDULE, "tpu:v5e", "does not lower: "),
            (Check.COMPILE, Check.SCHEDULE, "tpu:v5e", "does not compile: "),
            (Check.COMPILE, Check.TIMING, "host", "does not compile: "),
            (Check.COMPILE, Check.NUMERICS, "host", None),  # interpreted where it does not compile
            (Check.LOWER, Check.MEMORY, "host", None),
            (Check.NUMERICS, Check.GRADIENTS, "host", None),
        ],
    )
    def test_a_question_needs_its_own_stages(
        self, before: Check, check: Check, target: str, reason: str | None
    ) -> None:
        """What fails on the way to a question answers it; what lies elsewhere does not."""
        found = plan.blocked(cell(check, target), self.failed(cell(before, target)))
        assert found == (f"{reason}ModuleNotFoundError: No module named 'absl'" if reason else None)

    @pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG, Outcome.OUT_OF_MEMORY])
    def test_every_fault_blocks(self, outcome: Outcome) -> None:
        """A crash, a hang and a memory limit are faults like an exception."""
        assert plan.blocked(cell(Check.COMPILE), self.failed(cell(Check.LOWER), outcome)) is not None

    def test_a_good_answer_or_none_does_not(self) -> None:
        """What was observed, or was not asked, stands in nobody's way."""
        good = {cell(Check.LOWER): Observation(cell(Check.LOWER), Outcome.OBSERVED)}
        assert plan.blocked(cell(Check.COMPILE), good) is None
        assert plan.blocked(cell(Check.COMPILE), {}) is None
        assert plan.blocked(imported(), self.failed(cell(Check.INSTALL))) is None

    @pytest.mark.parametrize(
        "other",
        [
            cell(Check.LOWER, "tpu:v5e"),
            cell(Check.LOWER, case="large"),
            cell(Check.LOWER, implementation="native"),
            Cell("attention", "custom", "small", "new", "host", Check.LOWER),
            Cell("norm", "custom", "small", "old", "host", Check.LOWER),
        ],
    )
    def test_faults_of_others_do_not(self, other: Cell) -> None:
        """Another target, case, implementation, kernel or other pins do not speak for this one."""
        assert plan.blocked(cell(Check.COMPILE), self.failed(other)) is None

    def test_what_could_not_be_asked_has_the_same_reason(self) -> None:
        """A skipped stage skips what follows from it, with the reason that it had."""
        lower = cell(Check.LOWER)
        seen = {lower: Observation(lower, Outcome.SKIPPED, reason="holds a Pallas TPU kernel")}
        assert plan.blocked(cell(Check.COMPILE), seen) == "holds a Pallas TPU kernel"

    def test_a_fault_without_a_text_is_its_kind(self) -> None:
        """An exception without a message is named by its class."""
        seen = {imported(): Observation(imported(), Outcome.FAILED, fault=Fault("SystemExit", " \n"))}
        assert plan.blocked(cell(Check.LOWER), seen) == "does not import: SystemExit"


class TestDocument:
    def document(self, config: Config, lane: Lane, host: str = "gpu") -> Any:
        """The plan of the cells that are asked of `small`, as it arrives inside."""
        asked = plan.cells(config, Selection(pins=("old",), kernels=("attention",)))
        steady = replace(cell(Check.MEMORY), scenario="steady")
        eager = replace(steady, scenario="eager")
        members = (imported(), cell(Check.LOWER, "tpu:v5e"), cell(Check.NUMERICS), steady, eager)
        written = plan.document(
            Job("old", "attention", "custom", lane, members),
            dict(enumerate(members)),
            config,
            asked=asked,
            host=host,
            scratch=Path("/scratch"),
            tools=Path("/tools"),
        )
        return json.loads(json.dumps(written))

    def test_is_read_inside_as_it_was_meant(self, config: Config) -> None:
        """Everything that the environment's side knows of a plan is there, and arrives as it stands in the file."""
        inside = checks("plan").Plan.from_json(self.document(config, Lane.SIDE_BY_SIDE))
        (kernel, _) = config.kernel
        assert inside.kernel.name == "attention"
        assert inside.kernel.path == str(config.root / "kernels")
        assert inside.kernel.implementations == kernel.implementations
        assert (inside.kernel.layout, inside.kernel.static, inside.kernel.differentiate) == ({}, None, None)
        assert inside.implementation == "custom"
        assert [(each.number, each.check, each.case, each.target, each.scenario) for each in inside.cells] == [
            (0, "import", "", "", ""),
            (1, "lower", "small", "tpu:v5e", ""),
            (2, "numerics", "small", "host", ""),
            (3, "memory", "small", "host", "steady"),
            (4, "memory", "small", "host", "eager"),
        ]
        assert inside.interpret_limit == config.watchdog.interpret_limit
        assert inside.memory_budget == config.watchdog.memory_budget
        assert inside.scratch == Path("/scratch")

    def test_holds_the_cases_that_are_asked_and_no_other(self, config: Config) -> None:
        """Arguments, keyword arguments, seed and length of each case arrive unchanged."""
        inside = checks("plan").Plan.from_json(self.document(config, Lane.SIDE_BY_SIDE))
        assert list(inside.cases) == ["small"]
        small = inside.cases["small"]
        assert (small.args, small.seed, small.length) == (["f32[8,128]"], 7, 128)
        assert small.kwargs == {"causal": True, "window": [128, 0], "scale": 0.088}

    def test_says_what_the_whole_run_asks(self, config: Config) -> None:
        """The checks of other processes are told, so that a fault is reported once."""
        assert set(self.document(config, Lane.SIDE_BY_SIDE)["asked"]) == {check.value for check in Check}

    @pytest.mark.parametrize(
        ("lane", "platform"),
        [(Lane.SIDE_BY_SIDE, "cpu"), (Lane.DEVICE, "gpu"), (Lane.TIMING, "gpu")],
    )
    def test_a_process_computes_where_its_lane_is(self, config: Config, lane: Lane, platform: str) -> None:
        """Only the lanes of the device compute on it; the others leave it free."""
        document = self.document(config, lane)
        assert (document["host"], document["platform"]) == ("gpu", platform)

    def test_has_the_keys_that_are_documented(self, config: Config) -> None:
        """The plan is the one that docs/observations.md shows, key by key."""
        text = (Path(__file__).parents[1] / "docs" / "observations.md").read_text(encoding="utf-8")
        shown = json.loads(text.split("```json\n")[1].split("```")[0])
        document = self.document(config, Lane.SIDE_BY_SIDE)
        assert document.keys() == shown.keys()
        assert document["kernel"].keys() == shown["kernel"].keys()
        assert document["cases"][0].keys() == shown["cases"][0].keys()
        assert document["cells"][0].keys() == shown["cells"][0].keys()
