"""The judges of exact figures: install, import, lower, compile, schedule, numerics, gradients, races."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from watchdog.judges import KernelFacts, judge_run
from watchdog.model import (
    Amount,
    Cell,
    Check,
    Environment,
    Figure,
    Observation,
    Outcome,
    Package,
    Status,
    Suspect,
    Verdict,
)

OLD, NEW = "current", "next"
MIB = 2**20
ENVIRONMENTS = (
    Environment(OLD, (), "sha256:1", "", "3.11.7", (Package("jax", "0.8.3"), Package("numpy", "2.4.6"))),
    Environment(NEW, (), "sha256:2", "", "3.11.7", (Package("jax", "0.9.2"), Package("numpy", "2.4.6"))),
)


def seen(check: Check, pins: str, implementation: str = "custom", **data: Any) -> Observation:
    return Observation(Cell("flash", implementation, "small", pins, "tpu:v5e", check), Outcome.OBSERVED, data=data)


def skipped(check: Check, pins: str) -> Observation:
    return replace(seen(check, pins), outcome=Outcome.SKIPPED, reason="does not import: no absl")


def verdicts_of(
    *observations: Observation, baseline: str | None = OLD, tolerance: float | None = None
) -> list[Verdict]:
    """The verdicts on the first observation's cell."""
    facts = {"flash": KernelFacts(tolerance=tolerance)}
    verdicts = judge_run(observations, ENVIRONMENTS, baseline, facts)
    return [verdict for verdict in verdicts if verdict.cell == observations[0].cell]


def verdict_of(*observations: Observation, baseline: str | None = OLD, tolerance: float | None = None) -> Verdict:
    (verdict,) = verdicts_of(*observations, baseline=baseline, tolerance=tolerance)
    return verdict


def test_skipped_is_never_passed() -> None:
    """A cell that was not asked keeps its reason and is skipped."""
    verdict = verdict_of(skipped(Check.COMPILE, NEW), seen(Check.COMPILE, OLD))
    assert (verdict.status, verdict.summary) == (Status.SKIPPED, "does not import: no absl")


def test_install_says_what_changed() -> None:
    """An installation passes with the number of packages and what changed."""
    cell = Cell("", "", "", NEW, "", Check.INSTALL)
    verdict = verdict_of(Observation(cell, Outcome.OBSERVED))
    assert verdict.status is Status.PASS
    assert verdict.figure == Figure.exact(2, "packages")
    assert "jax 0.8.3 → 0.9.2" in verdict.summary


def test_new_deprecations_of_an_import() -> None:
    """A deprecation that the baseline does not give is named; the import still passes."""
    old = {"category": "DeprecationWarning", "message": "old news", "where": "a.py:1"}
    new = {"category": "FutureWarning", "message": "maps goes away", "where": "a.py:2"}
    noise = {"category": "UserWarning", "message": "no device", "where": "a.py:3"}
    candidate = seen(Check.IMPORT, NEW, warnings=[old, new, noise])
    verdict = verdict_of(candidate, seen(Check.IMPORT, OLD, warnings=[old]))
    assert (verdict.status, verdict.kind) == (Status.PASS, "new warnings")
    assert "1 deprecation new against current: maps goes away" in verdict.summary


def test_lowered_module() -> None:
    """The same fingerprint is the identical module; another one is compared by size and passes."""
    old = seen(Check.LOWER, OLD, fingerprint="a", stablehlo_bytes=1000)
    same = verdict_of(seen(Check.LOWER, NEW, fingerprint="a", stablehlo_bytes=1000), old)
    grown = verdict_of(seen(Check.LOWER, NEW, fingerprint="b", stablehlo_bytes=5000), old)
    assert "identical module to current" in same.summary
    assert grown.status is Status.PASS
    assert "1,000 → 5,000 B (+400.0 %)" in grown.summary


def compiled(pins: str, temp: int, implementation: str = "custom", code: int = 0) -> Observation:
    return seen(Check.COMPILE, pins, implementation, temp_bytes=temp, output_bytes=MIB, code_bytes=code)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (196, 67 * MIB, Status.REGRESSED),
        (67 * MIB, 196, Status.IMPROVED),
        (100 * MIB, 104 * MIB, Status.PASS),
        (100 * MIB, 106 * MIB, Status.REGRESSED),
        (196, MIB, Status.PASS),
    ],
)
def test_temporary_memory(old: int, new: int, status: Status) -> None:
    """Growth counts beyond 5 % and 1 MiB, as does shrinking."""
    assert verdict_of(compiled(NEW, new), compiled(OLD, old)).status is status


def test_lost_donation_names_bytes_and_suspect() -> None:
    """The verdict on more memory holds the exact difference, its signal, and the library it came with."""
    verdict = verdict_of(compiled(NEW, 67 * MIB), compiled(OLD, 0))
    assert (verdict.kind, verdict.signal, verdict.suspect) == ("more memory", "temp_bytes", Suspect.LIBRARY)
    assert verdict.figure == Figure.exact(67 * MIB, "B")
    assert verdict.detectable == Amount(MIB, "B")


def test_code_alone_counts_in_the_total() -> None:
    """A program whose code grew by megabytes needs more memory though its temporaries did not move."""
    verdict = verdict_of(compiled(NEW, 0, code=9 * MIB), compiled(OLD, 0, code=MIB))
    assert (verdict.status, verdict.signal) == (Status.REGRESSED, "total_bytes")


@pytest.mark.parametrize("baseline", [None, OLD])
def test_compiling_is_answered_without_a_baseline(baseline: str | None) -> None:
    """That it compiles is an answer of its own; only the comparison is missing, and is said to be."""
    verdict = verdict_of(compiled(NEW, 0), baseline=baseline)
    assert verdict.status is Status.PASS
    assert "nothing to compare with" in verdict.summary


def scheduled(pins: str, bundles: int | None, implementation: str = "custom", **data: Any) -> Observation:
    return seen(Check.SCHEDULE, pins, implementation, **{"bundles": bundles, "complete": True, **data})


@pytest.mark.parametrize(
    ("new", "status", "kind"),
    [(514, Status.PASS, None), (700, Status.REGRESSED, "more bundles"), (300, Status.IMPROVED, "fewer bundles")],
)
def test_bundles(new: int, status: Status, kind: str | None) -> None:
    """What compilers drift by passes with its figure; more is a change."""
    verdict = verdict_of(scheduled(NEW, new), scheduled(OLD, 505))
    assert (verdict.status, verdict.kind) == (status, kind)
    assert verdict.summary.startswith(f"505 → {new} bundles")


def test_bundles_are_never_called_a_time() -> None:
    """No sentence on a schedule speaks of time, speed or cycles."""
    summary = verdict_of(scheduled(NEW, 900), scheduled(OLD, 505)).summary
    assert not any(word in summary for word in ("slow", "fast", "cycle", "second", "time"))


def test_wrapping_is_not_the_kernel() -> None:
    """What the compiler wraps around a kernel may grow; only programs that compute are counted."""
    wrapped = [
        [
            {"name": "flash.1", "kind": "kernel", "bundles": kernel, "spill_stores": 0, "spill_fills": 0},
            {"name": "TLP", "kind": "top level", "bundles": 116},
            {"name": "<late-initialization>", "kind": "other", "bundles": late},
        ]
        for kernel, late in ((467, 1), (476, 320))
    ]
    verdict = verdict_of(scheduled(NEW, 912, programs=wrapped[1]), scheduled(OLD, 584, programs=wrapped[0]))
    assert (verdict.status, verdict.figure) == (Status.PASS, Figure.exact(476, "bundles"))


def test_program_that_grew_is_named() -> None:
    """The sentence on more bundles names the program that grew most."""
    before = [{"name": "dq.1", "kind": "kernel", "bundles": 397}, {"name": "dkv.1", "kind": "kernel", "bundles": 500}]
    after = [{"name": "dq.1", "kind": "kernel", "bundles": 800}, {"name": "dkv.1", "kind": "kernel", "bundles": 501}]
    verdict = verdict_of(scheduled(NEW, 1301, programs=after), scheduled(OLD, 897, programs=before))
    assert verdict.status is Status.REGRESSED
    assert "most of it in dq.1 (397 → 800 listed)" in verdict.summary


def test_small_programs_do_not_alarm() -> None:
    """Seven bundles more are no finding, whatever share they are."""
    assert verdict_of(scheduled(NEW, 27), scheduled(OLD, 20)).status is Status.PASS


def test_new_spills() -> None:
    """Spills that appear are a verdict of their own beside the bundles'."""
    new = scheduled(NEW, 505, spill_stores=20, spill_fills=20)
    verdicts = verdicts_of(new, scheduled(OLD, 505, spill_stores=0, spill_fills=0))
    assert [(one.signal, one.status, one.kind) for one in verdicts] == [
        ("bundles", Status.PASS, None),
        ("spills", Status.REGRESSED, "more spills"),
    ]
    assert len({one.id for one in verdicts}) == 2


def test_incomplete_dump() -> None:
    """A dump that lacks a program decides nothing and says why."""
    verdict = verdict_of(scheduled(NEW, 505, complete=False, notes=["fusion.3 is missing"]), scheduled(OLD, 505))
    assert verdict.status is Status.INCONCLUSIVE
    assert "fusion.3 is missing" in verdict.summary


def test_schedule_of_the_baseline_itself() -> None:
    """The baseline's own cell passes with its figure."""
    verdict = verdict_of(scheduled(OLD, 505))
    assert (verdict.status, verdict.figure, verdict.baseline) == (Status.PASS, Figure.exact(505, "bundles"), None)


def test_schedule_without_anything_to_compare() -> None:
    """A schedule is a comparison: with no baseline it is skipped, and keeps its figure."""
    verdict = verdict_of(scheduled(NEW, 505), skipped(Check.SCHEDULE, OLD))
    assert (verdict.status, verdict.figure) == (Status.SKIPPED, Figure.exact(505, "bundles"))
    assert "does not import: no absl" in verdict.summary


def output(rms: float | None, peak: float | None = None, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    largest = peak if peak is not None else rms and 5 * rms
    known = {"name": "out", "shape": [1, 2, 256, 128], "dtype": dtype, "scale": 0.1, "nan": 0, "inf": 0}
    return known | {"rms": rms, "max_abs": largest} | more


def numbers(pins: str, one: dict[str, Any], name: str = "custom") -> Observation:
    return seen(Check.NUMERICS, pins, name, mode="tpu interpreter", outputs=[one])


def beside(native: dict[str, Any] | None, pins: str = OLD) -> list[Observation]:
    """Native's own cell, where there is one."""
    return [numbers(pins, native, name="native")] if native else []


@pytest.mark.parametrize(
    ("one", "native", "status"),
    [
        (output(2e-8), output(1e-8), Status.PASS),
        (output(2e-7), output(1e-8), Status.PASS),  # within what float32 sums explain
        (output(1e-4), output(1e-8), Status.REGRESSED),
        (output(1e-3, dtype="bfloat16"), output(4e-4, dtype="bfloat16"), Status.PASS),
        (output(2e-2, dtype="bfloat16"), output(4e-4, dtype="bfloat16"), Status.REGRESSED),
        (output(1e-8, peak=1e-4), output(1e-8), Status.REGRESSED),  # one element
        (output(1e-8), None, Status.PASS),
        (output(0.0, dtype="int32"), output(0.0, dtype="int32"), Status.PASS),
        (output(0.01, dtype="int32"), output(0.0, dtype="int32"), Status.REGRESSED),
    ],
)
def test_accuracy(one: dict[str, Any], native: dict[str, Any] | None, status: Status) -> None:
    """An error passes when its type or native's own error explains it, in the mean and at the worst element."""
    assert verdict_of(numbers(OLD, one), *beside(native)).status is status


def test_tolerance_of_the_author() -> None:
    """The author may allow more."""
    assert verdict_of(numbers(OLD, output(1e-4)), *beside(output(1e-8)), tolerance=1e-2).status is Status.PASS


def test_broken_native_excuses_nobody() -> None:
    """A native implementation that is wrong by 2.5 does not make an error of 1 right."""
    verdict = verdict_of(numbers(OLD, output(1.0)), *beside(output(2.5)))
    assert (verdict.status, verdict.kind, verdict.suspect) == (Status.REGRESSED, "wrong numbers", Suspect.LIBRARY)


def test_native_that_an_upgrade_repairs() -> None:
    """The library's own fault under the baseline, gone under the candidate, is an improvement."""
    verdict = verdict_of(numbers(NEW, output(2e-8), name="native"), numbers(OLD, output(2.47), name="native"))
    assert (verdict.status, verdict.kind) == (Status.IMPROVED, "repaired")


def test_native_wrong_under_its_own_bound() -> None:
    """Native is judged too, and the library suspected."""
    verdict = verdict_of(numbers(OLD, output(2.47), name="native"))
    assert (verdict.status, verdict.suspect) == (Status.REGRESSED, Suspect.LIBRARY)


def test_not_a_number() -> None:
    """NaN where the reference has none is regressed, and has no figure."""
    verdict = verdict_of(
        numbers(NEW, output(None, nan=32)),
        numbers(OLD, output(1e-8)),
        *beside(output(1e-8), NEW),
        *beside(output(1e-8)),
    )
    assert (verdict.status, verdict.kind, verdict.figure) == (Status.REGRESSED, "nan", None)
    assert verdict.suspect is Suspect.LIBRARY
    assert "right under current" in verdict.summary


def test_less_accurate_within_the_bound() -> None:
    """Ten times the baseline's error, beyond what the type explains, is regressed though native is as bad."""
    verdict = verdict_of(
        numbers(NEW, output(1e-6)), numbers(OLD, output(5e-8)), *beside(output(5e-7), NEW), *beside(output(5e-8))
    )
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, "less accurate")


def test_twice_the_error_is_said_and_passes() -> None:
    """A doubled error beyond the type's floor, as good as native's, passes with a word on it."""
    verdict = verdict_of(
        numbers(NEW, output(1e-6)), numbers(OLD, output(4e-7)), *beside(output(5e-7), NEW), *beside(output(4e-7))
    )
    assert verdict.status is Status.PASS
    assert "2.5 times the error" in verdict.summary


def test_zero_truth_borrows_the_scale_of_the_others() -> None:
    """Rounding noise on a gradient that is exactly zero is not wrong when the other gradients are of order one."""
    zero = output(1e-9, scale=0.0) | {"name": "dq"}
    outputs = [zero, output(1e-8, scale=1.0) | {"name": "dv"}]
    observation = seen(Check.GRADIENTS, OLD, mode="tpu interpreter", outputs=outputs, native=None)
    assert verdict_of(observation).status is Status.PASS


def test_nothing_measured() -> None:
    """An observation without errors decides nothing."""
    assert verdict_of(seen(Check.NUMERICS, OLD, outputs=[])).status is Status.INCONCLUSIVE


def test_races() -> None:
    """A race is an absolute fault with its place; none passes and says what cannot be seen."""
    raced = seen(Check.RACES, NEW, races=2, messages=["race: core 0 writes, core 1 reads at /srv/my_kernel.py:12 …"])
    verdict = verdict_of(raced, seen(Check.RACES, OLD, races=2), seen(Check.RACES, NEW, "native", races=0))
    assert (verdict.status, verdict.kind, verdict.suspect) == (Status.REGRESSED, "race", Suspect.KERNEL)
    assert verdict.where == "my_kernel.py:12"
    assert "cannot be seen" in verdict_of(seen(Check.RACES, OLD, races=0)).summary


def test_races_that_were_not_counted() -> None:
    """An interpreter that counts no races decides nothing."""
    verdict = verdict_of(seen(Check.RACES, OLD, races=None, mode="generic interpreter"))
    assert verdict.status is Status.INCONCLUSIVE


def test_a_gradient_that_is_lost() -> None:
    """No gradient is no fault, but to have had one under the baseline is."""
    none = replace(skipped(Check.GRADIENTS, NEW), reason="has no gradient: ValueError: no rule")
    had = seen(Check.GRADIENTS, OLD, mode="tpu interpreter", outputs=[output(1e-8)])
    lost = verdict_of(none, had)
    assert (lost.status, lost.kind, lost.suspect) == (Status.REGRESSED, "lost gradient", Suspect.LIBRARY)
    never = replace(none, cell=replace(none.cell, pins=OLD))
    assert verdict_of(none, never).status is Status.SKIPPED
