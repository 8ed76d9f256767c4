"""Pins that do not fit together: one finding about the pins, however many kernels they break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.test_judges_aspects import ENVIRONMENTS, NEW, OLD
from watchdog.judges import exit_code, judge_run
from watchdog.model import Cell, Check, Environment, Fault, Observation, Outcome, Package, Status, Suspect, Verdict

TOO_OLD = "INTERNAL: Mosaic failed to compile TPU kernel: Unsupported version: expected <= 4 but got 7"
PACKAGES = (Package("jax", "0.10.2"), Package("jaxlib", "0.10.2"), Package("libtpu", "0.0.17"))
PINS = (ENVIRONMENTS[0], replace(ENVIRONMENTS[1], packages=PACKAGES))
INSTALL = Observation(Cell("", "", "", NEW, "", Check.INSTALL), Outcome.OBSERVED)


def failed(kernel: str, target: str = "tpu:v5e", pins: str = NEW, message: str = TOO_OLD) -> Observation:
    cell = Cell(kernel, "custom", "small", pins, target, Check.COMPILE)
    return Observation(cell, Outcome.FAILED, fault=Fault(kind="XlaRuntimeError", message=message))


def judged(*observations: Observation, environments: Sequence[Environment] = PINS) -> list[Verdict]:
    return list(judge_run(observations, environments, OLD, {}))


def regressed(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.status is Status.REGRESSED]


def test_told_once_with_the_install_check() -> None:
    """Three kernels and two generations make one finding, on the install check; the kernels are skipped."""
    cells = [failed(kernel, target) for kernel in ("a", "b", "c") for target in ("tpu:v5e", "tpu:v6e")]
    verdicts = judged(INSTALL, *cells)
    (finding,) = regressed(verdicts)
    assert (finding.cell, finding.kind, finding.suspect) == (INSTALL.cell, "pins mismatch", Suspect.PINS)
    for part in ("libtpu 0.0.17", "jax 0.10.2", "a, b, c", "tpu:v5e, tpu:v6e"):
        assert part in finding.summary
    skipped = [verdict for verdict in verdicts if verdict.status is Status.SKIPPED]
    assert len(skipped) == len(cells)
    assert all("the install check tells" in verdict.summary for verdict in skipped)
    assert exit_code(verdicts) == 1


def test_without_an_install_check_the_first_cell_tells() -> None:
    """Where install was not asked, one cell carries the finding."""
    verdicts = judged(failed("a"), failed("b"))
    (finding,) = regressed(verdicts)
    assert (finding.cell.kernel, finding.suspect) == ("a", Suspect.PINS)


def test_a_trivial_kernel_that_fails_as_well_convicts_the_pins() -> None:
    """Whatever the text, what a trivial kernel has too is no fault of the kernel."""
    toolchain = {"fits": False, "error": "RuntimeError: no", "generation": "v5e", "libtpu": "0.0.17", "jax": "0.10.2"}
    cells = [replace(failed(name, message="INTERNAL: strange"), data={"toolchain": toolchain}) for name in "ab"]
    (finding,) = regressed(judged(INSTALL, *cells))
    assert (finding.cell, finding.kind) == (INSTALL.cell, "pins mismatch")


def test_another_fault_stays_the_kernels() -> None:
    """Beside a mismatch of one kernel, what is wrong with another is told of that one."""
    verdicts = judged(INSTALL, failed("a"), failed("b", message="RESOURCE_EXHAUSTED: scoped vmem"))
    assert {verdict.cell.kernel for verdict in regressed(verdicts)} == {"", "b"}


def test_each_environment_for_itself() -> None:
    """Pins that are installed twice, for kernels with requirements of their own, are told of where they do not fit."""
    own = replace(PINS[1], kernels=("b",), lock_hash="sha256:3")
    installs = [replace(INSTALL, cell=replace(INSTALL.cell, kernel=kernel)) for kernel in ("a", "b")]
    shared = replace(PINS[1], kernels=("a",))
    verdicts = judged(*installs, failed("b"), environments=(PINS[0], shared, own))
    assert [verdict.cell.kernel for verdict in regressed(verdicts)] == ["b"]
