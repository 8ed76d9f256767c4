"""The scalar part of a listing, executed: on listings by hand, and on what real compilers wrote for known loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.inside import checks
from tests.test_checks_dump import DUMPS, program, read

listing = checks("listing")
control_flow = checks("control_flow")
programs = checks("programs")
scalar = checks("scalar")

# Three grid steps; in those where the step is even, a loop of (step + 2) trips.
COUNTED = """
     0   :  { %s1_s0 = smov 0 } /* Start region 9 */
   0x1   :  {} /* End region 9 */
   0x2 LB: > { %s2_s0 = sphi %s1_s0, %s3_s0  ;;  %s3_s0 = sadd.s32 1, %s2_s0 } /* Start region 1 */
   0x3   : > { %s4_s1 = sand.u32 1, %s2_s0 }
   0x4   : > { %p5_p0 = scmp.ne.s32.totalorder %s4_s1, 0 }
   0x5   : > { %6 = sbr.rel (%p5_p0) target = $region3 }
   0x6   :  {} /* End region 1 */
   0x7   : > { %s7_s2 = smov 0  ;;  %s8_s3 = sadd.s32 2, %s2_s0 } /* Start region 4 */
   0x8 LB: >> { %s9_s2 = sphi %s7_s2, %s10_s2  ;;  %s10_s2 = sadd.s32 1, %s9_s2 } /* Start region 2 */
   0x9   : >> { %p11_p1 = scmp.ge.s32.totalorder %s10_s2, %s8_s3 }
   0xa   : >> { %12 = sbr.rel (!%p11_p1) target = $region2 }
   0xb   :  {} /* End region 2 */
   0xc PF: > { %p13_p2 = scmp.ge.s32.totalorder %s3_s0, 3 } /* Start region 3 */
   0xd   : > { %14 = sbr.rel (!%p13_p2) target = $region1 }
   0xe   :  {} /* End region 3 */
   0xf   :  { %15 = sfence } /* Start region 5 */
"""


def flow(text: str) -> Any:
    bundles = listing.read(text)
    return programs.flow(bundles, control_flow.delay_slots([bundles]))


def loops(text: str) -> list[tuple[int, Any, Any]]:
    bundles = listing.read(text)
    found = programs.read(programs.Listings("k", bundles, None), control_flow.delay_slots([bundles]), 32)[0]
    return [(loop.depth, loop.trips, loop.executions.exact) for loop in found.loops]


def test_trips_and_conditions_are_executed() -> None:
    """Of three steps, two run the inner loop, 2 and 4 times (its trips vary); every bundle runs as arithmetic says."""
    assert loops(COUNTED) == [(1, 3, 3), (2, None, 6)]
    found = flow(COUNTED)
    assert found.is_exact
    assert sum(found.times()) == 2 + 3 * 5 + 2 * 1 + 6 * 4 + 3 * 3 + 1


def test_what_the_runtime_decides_is_a_range() -> None:
    """A condition on what was loaded runs its part never or always, and the range says so."""
    unknown = COUNTED.replace("%s4_s1 = sand.u32 1, %s2_s0", "%s4_s1 = sld [smem:[#allocation7]]")
    read_program, notes = programs.read(programs.Listings("k", listing.read(unknown), None), 1, 32)
    low, high = read_program.executed_bundles.low, read_program.executed_bundles.high
    assert low == 2 + 3 * 5 + 3 * 3 + 1
    assert high == low + 3 * 1 + (2 + 3 + 4) * 4
    assert notes[-1] == "k: what only the runtime knows decides whether bundles run, at 0x5; counts are ranges"


def test_a_loop_whose_end_is_unknown_has_no_upper_end() -> None:
    """Its count has a lower end alone, and the note says why; what is around it is exact all the same."""
    unknown = COUNTED.replace("%s8_s3 = sadd.s32 2, %s2_s0", "%s8_s3 = sld [smem:[#allocation7]]")
    read_program, notes = programs.read(programs.Listings("k", listing.read(unknown), None), 1, 32)
    assert read_program.executed_bundles.high is None
    assert (
        notes[-1] == "k: what only the runtime knows decides where a loop ends, at 0xa; counts there have no upper end"
    )
    assert [loop.executions for loop in read_program.loops] == [programs.Range(3, 3), programs.Range(2, None)]
    assert [loop.trips for loop in read_program.loops] == [3, None]


def test_an_endless_loop_ends() -> None:
    """A branch that is always taken is given up after so many blocks."""
    endless = COUNTED.replace("scmp.ge.s32.totalorder %s3_s0, 3", "scmp.lt.s32.totalorder %s3_s0, 0")
    bundles = listing.read(endless)
    blocks = control_flow.blocks(bundles, 1)
    assert not scalar.count(bundles, blocks, whole=False).is_whole
    read_program, notes = programs.read(programs.Listings("k", bundles, None), 1, 32)
    assert read_program.executed_bundles.high is None
    assert notes[-1].startswith("k: counting was given up after")


def test_division_gives_quotient_then_remainder() -> None:
    """Two values come off a division, the quotient first; one alone is what the comment says."""
    divided = COUNTED.replace(
        "%s4_s1 = sand.u32 1, %s2_s0 }",
        "%20 = sdivrem.u32 %s2_s0, 2 /* kDivAndRem */ }\n 0x3 : > { %s21_s5 = spop.drf %20 }\n"
        " 0x3 : > { %s4_s1 = spop.drf %20 }",
    )
    assert loops(divided) == loops(COUNTED)
    single = divided.replace("kDivAndRem", "kRem").replace("%s21_s5 = spop.drf %20", "%s21_s5 = smov 0")
    assert loops(single) == loops(COUNTED)


@pytest.mark.parametrize(
    "odd",
    [
        "%s4_s1 = sand.u32 1",
        "%4 = sdivrem.u32 %s2_s0, 2 }\n 0x3 : > { %s4_s1 = sadd.s32 1, %4",
        "%s4_s1 = smul.u32 %p5_p0",
    ],
)
def test_statements_of_another_form_are_not_executed(odd: str) -> None:
    """Operands that an operation does not take in any release make a note, and no count and no exception."""
    bundles = listing.read(COUNTED.replace("%s4_s1 = sand.u32 1, %s2_s0", odd))
    read_program, notes = programs.read(programs.Listings("k", bundles, None), 1, 32)
    assert read_program.executed_bundles is None
    assert notes[-1].startswith("k: how often its parts run is not known: ")


def test_a_slot_without_capacity_has_no_occupancy() -> None:
    """A table that gives a slot no capacity at all, as a damaged one may, has no share of it."""
    assert programs.Utilization({"MXU": 0, "XLU": 2}, [[1, 1]]).occupancy([3]) == {"XLU": 0.5}


def test_spilled_registers_are_remembered() -> None:
    """A counter that was spilled to SMEM is read back with its value."""
    spilled = COUNTED.replace("%s8_s3 = sadd.s32 2, %s2_s0", "%30 = sst [smem:[#allocation9_spill]] %s2_s0").replace(
        "%p11_p1 = scmp",
        "%s31_s6 = sld [smem:[#allocation9_spill]] }\n 0x9 : >> { %s8_s3 = sadd.s32 2, %s31_s6 }\n 0x9 : >> { %p11_p1 = scmp",
    )
    assert [trips for _, _, trips in loops(spilled)] == [3, 6]


def of(name: str) -> pytest.MarkDecorator:
    """The stored dumps of one program of tests/dumps/make.py."""
    paths = [path for path in DUMPS if path.stem.endswith(f"-{name}")]
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def the_kernel(path: Path, folder: Path) -> Any:
    schedule = read(path.stem.removeprefix("jax-"), folder)
    (kernel,) = (one for one in schedule.programs if one.kind == "kernel")
    return kernel


@of("kernel")
def test_real_kernels_run_as_often_as_their_grid_says(path: Path, tmp_path: Path) -> None:
    """A grid of 4 with a loop of 24 inside: 96 trips, four windows fetched, four written, 32 KiB and 4 KiB at a time.

    For tpu7x this compiler puts what the kernel reads into VMEM beforehand.
    """
    kernel = the_kernel(path, tmp_path)
    assert kernel.loops[1].executions.exact == 4 * 24
    assert kernel.executed_bundles.exact == sum(loop.executed_bundles.exact for loop in kernel.loops) + (
        kernel.bundles - sum(loop.bundles for loop in kernel.loops)
    )
    fetched = {} if "tpu7x" in path.stem else {"hbm → vmem": 24 * 32 * 128 * 4 + 4 * 8 * 128 * 4}
    moved = {one.direction: one.bytes.exact for one in kernel.dma}
    assert moved == {**fetched, "vmem → hbm": 4 * 8 * 128 * 4}
    assert 0 < kernel.occupancy["VALU"] < 1
    assert kernel.hottest.loop == 1
    assert kernel.source in ("make.py:121", "make.py:191")  # the line of its pallas_call, then and now


@of("masked")
def test_what_the_grid_masks_does_not_run(path: Path, tmp_path: Path) -> None:
    """Where j > i nothing runs: the loop's (i + 2) trips in the steps of the triangle, on five generations.

    Each of the 24 blocks of x is fetched, each of y's 4 once, and each result written once.
    """
    kernel = the_kernel(path, tmp_path)
    grid, inner = kernel.loops
    assert (grid.trips, inner.trips) == (4 * 6 + 2, None)
    assert inner.executions.exact == sum(i + 2 for i in range(4) for j in range(6) if j <= i)
    moved = {one.direction: (one.executed.exact, one.bytes.exact) for one in kernel.dma}
    assert moved == {"hbm → vmem": (24 + 4, 28 * 4096), "vmem → hbm": (4, 4 * 4096)}


@of("pipeline")
def test_a_pipeline_inside_a_kernel_is_counted(path: Path, tmp_path: Path) -> None:
    """`emit_pipeline` over 24 blocks of 4 KiB makes 24 trips and fetches 96 KiB, whose sizes no comment tells."""
    kernel = the_kernel(path, tmp_path)
    assert kernel.loops[0].trips == 24
    assert {one.direction: one.bytes.exact for one in kernel.dma} == {"hbm → vmem": 24 * 4096}


@of("looked_up")
def test_a_loop_of_looked_up_length_leaves_the_rest_exact(path: Path, tmp_path: Path) -> None:
    """The grid's loop and its transfers are exact; the loop inside has no upper end, nor has the whole."""
    kernel = the_kernel(path, tmp_path)
    grid, inner = kernel.loops
    assert (grid.trips, grid.executions.exact) == (6, 6)
    assert inner.executions == programs.Range(0, None)
    assert (kernel.executed_bundles.low > 0, kernel.executed_bundles.high) == (True, None)
    moved = {one.direction: one.bytes.exact for one in kernel.dma}
    assert (moved["hbm → vmem"], moved["vmem → hbm"]) == (4 * 4096, 4 * 4096)
    assert kernel.hottest is None


def test_calls_of_the_top_level_are_counted(tmp_path: Path) -> None:
    """A kernel in a loop of 7 inside a condition that only the runtime knows runs 0 or 7 times."""
    schedule = read("0.10.2-branches", tmp_path)
    kernel = program(schedule, "halving_maximum.3")
    assert kernel.calls == programs.Range(0, 7)
    total = schedule.to_json()["executed_bundles"]
    assert total["low"] < kernel.executed_bundles.exact
    assert total["high"] > 7 * kernel.executed_bundles.exact


def test_what_is_fetched_beforehand_is_traffic_too(tmp_path: Path) -> None:
    """The same kernel moves the same bytes whether it fetches windows (v5e) or the top level all at once (tpu7x)."""
    moved = 24 * 32 * 128 * 4 + 2 * 32 * 128 * 4
    for name in ("0.10.2-kernel", "0.10.2-tpu7x-kernel"):
        (tmp_path / name).mkdir()
        assert read(name, tmp_path / name).to_json()["dma_bytes"] == {"low": moved, "high": moved}
