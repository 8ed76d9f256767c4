"""Blocks and loops of a listing: where branches land, by generation, and where they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.inside import checks
from tests.test_checks_dump import DUMPS, unpack

listing = checks("listing")
control_flow = checks("control_flow")

SLOTS = {"v3": 1, "v4": 1, "v5e": 4, "v5p": 4, "v6e": 4, "tpu7x": 6}
GENERATION = {path: next((part for part in path.stem.split("-") if part in SLOTS), "v5e") for path in DUMPS}


def listings(path: Path, folder: Path) -> list[Any]:
    unpacked = unpack(path.stem.removeprefix("jax-"), folder)
    # libtpu 0.0.11 adds a tail call, which goes wherever the runtime says
    files = [file for file in sorted(unpacked.glob("*[0-9]-final_bundles.txt")) if "tailcall" not in file.name]
    return [listing.read(file.read_text(encoding="utf-8")) for file in files]


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_delay_slots_are_those_of_the_generation(path: Path, tmp_path: Path) -> None:
    """The ends of regions tell after how many bundles a branch lands: 1, 4 or 6."""
    assert control_flow.delay_slots(listings(path, tmp_path)) == SLOTS[GENERATION[path]]


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_every_bundle_is_in_one_block(path: Path, tmp_path: Path) -> None:
    """Blocks follow one another without a gap, and every block goes to one that there is."""
    found = listings(path, tmp_path)
    slots = control_flow.delay_slots(found)
    for bundles in filter(None, found):
        blocks = control_flow.blocks(bundles, slots)
        assert [block.first for block in blocks] == [0, *(block.last + 1 for block in blocks[:-1])]
        assert blocks[-1].last == len(bundles) - 1
        assert {block.taken for block in blocks} | {block.following for block in blocks} <= {-1, *range(len(blocks))}


def blocks(text: str, slots: int) -> list[tuple[int, int]]:
    return [(block.first, block.last) for block in control_flow.blocks(listing.read(text), slots)]


FORWARD = """
     0   :  { %1 = sbr.rel (%p2_p0) target = $region3 }
   0x1   :  { %s3_s0 = smov (!%p2_p0), 1 }
   0x2   :  {}
   0x3   :  { %s4_s1 = smov 1 }
   0x4   :  { %s5_s1 = smov 1 }
   0x5   :  { %s6_s1 = smov 1 }
   0x6   :  { %s7_s1 = smov 1 }
   0x7   :  { %s8_s1 = smov 1 }
   0x8 PF:  { %s9_s1 = smov 1 } /* Start region 3 */
   0x9   :  { %10 = sfence }
"""


def test_an_empty_bundle_may_stand_for_several_slots_where_they_are_six() -> None:
    """tpu7x: the branch lands behind the empty bundle that ends what repeats its predicate; others count bundles."""
    assert blocks(FORWARD, 6) == [(0, 2), (3, 7), (8, 9)]
    assert blocks(FORWARD, 4) == [(0, 4), (5, 7), (8, 9)]


def test_the_end_of_a_region_shows_where_six_slots_end() -> None:
    """A region around the branch that ends in its slots ends where they do, whatever is empty before."""
    looped = FORWARD.replace("target = $region3", "target = $region1").replace(
        "     0   :  {", "     0 LB:  { %11 = sfence  ;;"
    )
    looped = looped.replace("$region1 }", "$region1 } /* Start region 1 */").replace(
        "0x5   :  { %s6_s1 = smov 1 }", "0x5   :  { %s6_s1 = smov 1 } /* End region 1 */"
    )
    assert blocks(looped, 6)[0] == (0, 5)


@pytest.mark.parametrize(
    "branches",
    [
        "%1 = sbr.ind %s9_s1",
        "%1 = sbr.rel (%p2_p0) target = $region3  ;;  %2 = sbr.rel (%p3_p0) target = $region3",
        "%1 = sbr.rel (%p2_p0) target",
    ],
)
def test_a_branch_of_another_kind_is_refused(branches: str) -> None:
    """What is not known to be a branch of the releases so far is said, never guessed."""
    with pytest.raises(control_flow.NotUnderstoodError):
        control_flow.blocks(listing.read(FORWARD.replace("%1 = sbr.rel (%p2_p0) target = $region3", branches)), 4)


def test_a_branch_in_the_slots_of_another_is_refused() -> None:
    """Two branches in flight are not understood."""
    twice = FORWARD.replace("%s5_s1 = smov 1", "%5 = sbr.rel (%p3_p0) target = $region3")
    with pytest.raises(control_flow.NotUnderstoodError, match="has not landed"):
        control_flow.blocks(listing.read(twice), 4)


def test_a_region_without_a_name_is_the_first_bundle_or_the_last() -> None:
    """The first and the last bundle carry the program's name in place of their regions."""
    to_exit = FORWARD.replace("$region3", "$region77").replace("0x9   :", "0x9 PF:")
    assert control_flow.blocks(listing.read(to_exit), 1)[0].taken == 2
    to_start = FORWARD.replace("$region3", "$region77").replace("     0   :", "     0 LB:")
    assert control_flow.blocks(listing.read(to_start), 1)[0].taken == 0
