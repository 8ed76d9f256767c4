"""Listings of bundles, statement by statement, and the fingerprint of what a program does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.inside import checks
from tests.test_checks_dump import DUMPS, read, unpack

listing = checks("listing")


def bundle(body: str) -> Any:
    (found,) = listing.read(f"   0x1   : > {{ {body} }} /* Start region 3 :: End region 2 */\n")
    return found


def statement(body: str) -> Any:
    (found,) = bundle(body).statements
    return found


def test_a_bundle_has_its_regions_and_statements() -> None:
    """Regions that begin and end here, an empty one among them, and scalar statements without the vector ones."""
    (found,) = listing.read(
        " 0x2a PF: > { %v1_v0 = vld [vmem:[%s3_s1]]  ;;  %s4_s2 = sadd.s32 1, %s3_s1 }"
        " /* End region 7 :: Start/End empty region 8 :: Start region 9 */"
    )
    assert (found.label, found.starts, found.ends) == ("PF", (8, 9), (7, 8))
    assert [(one.result, one.operation, one.operands) for one in found.statements] == [
        ("s4_s2", "sadd.s32", ("1", "%s3_s1"))
    ]
    assert not found.is_empty


def test_comments_hide_nothing_and_add_nothing() -> None:
    """What stands in a comment is neither statement nor end, on however many lines it stands."""
    found = bundle("%s1_s0 = smov 3 /* a ;; %s9_s9 = smov 4 }\nbounds: (1) */  ;;  %s2_s1 = smov 5 /* } */")
    assert [one.operands for one in found.statements] == [("3",), ("5",)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%1 = sbr.rel (!%p2_p0) target = $region9", ("p2_p0", True, None)),
        ("%s1_s0 = sadd.s32 (%p2_p0), 1, %s3_s1", ("p2_p0", False, None)),
        ("%s1_s0 = smov (!%p2_p0, %s3_s0), 255", ("p2_p0", True, "%s3_s0")),
        ("%s1_s0 = sld [smem:[#allocation7_spill]] (%p2_p0)", ("p2_p0", False, None)),
    ],
)
def test_predicates_are_read_wherever_they_stand(body: str, expected: tuple[str, bool, str | None]) -> None:
    """The register, whether it is negated, and what the result is when it is false."""
    found = statement(body).predicate
    assert (found.name, found.negated, found.otherwise) == expected


@pytest.mark.parametrize(
    "body",
    ["%1 = sbr.rel (%p2_p0) target = $region28", "%1 = sbr.rel (%p2_p0) target bundleno = 84 (0x54), region = 28"],
)
def test_both_spellings_of_a_target_are_read(body: str) -> None:
    """libtpu names a region, up to 0.0.32 with a bundle beside it that is wrong for loops of one block."""
    assert statement(body).target == 28


def test_a_transfer_has_its_size() -> None:
    """Granules from the operand's comment, bytes from the comment that describes the window."""
    window = "\nbase_bounds: (24, 4, 1)\ndynamic_base_bounds: (24, 4, 1)\nwindow_bounds: (24, 1, 1)\n"
    found = statement(
        "%36 = dma.hbm_to_vmem [thread:$0]  (!%p1_p1), /*hbm=*/%s2_s2, /*size_in_granules=*/3072, /*vmem=*/%s3_s3 /* "
        f"{window}element_size_in_bytes: 4096 */"
    )
    assert (found.operation, found.granules, found.window_bytes) == ("dma.hbm_to_vmem", "3072", 24 * 4096)


def test_names_and_buffers_do_not_show_in_a_fingerprint() -> None:
    """The same program under other names of values, buffers and regions is the same; another constant is another."""
    first = "0 : { %s1_s0 = sld [smem:[#allocation7]] } /* Start region 4 */\n 0x1 : { %2 = sbr.rel (%p3_p0) target = $region4 }"
    other = "0 : { %s8_s0 = sld [smem:[#allocation2]] /* x */ } /* Start region 9 */\n 0x1 : { %5 = sbr.rel (%p6_p0) target = $region9 }"
    same, renamed = (listing.fingerprint(listing.read(text)) for text in (first, other))
    assert same == renamed
    for changed in (
        first.replace("_s0", "_s1"),
        first.replace("(%p", "(!%p"),
        first.replace("0x1 : {", "0x1 : { %7 = sfence ;; "),
    ):
        assert listing.fingerprint(listing.read(changed)) != same


def test_why_a_program_would_stop_does_not_show_in_a_fingerprint() -> None:
    """A bounds check names values of before register allocation, in a comment that ends too early."""
    checks_bounds = "0 : { %1 = shalt.err (!%p2_p0) /* BoundsCheck 0 for dma /*hbm=*/%s127, /*size_in_granules=*/3 */ }"
    first, other = (
        listing.fingerprint(listing.read(text)) for text in (checks_bounds, checks_bounds.replace("%s127", "%s125"))
    )
    assert first == other
    assert listing.fingerprint(listing.read(checks_bounds.replace("(!%p", "(%p"))) != first


def test_releases_that_schedule_alike_have_one_fingerprint(tmp_path: Path) -> None:
    """libtpu 0.0.11 to 0.0.32 give one kernel the same bundles, under three names of it; 0.0.42 gives it others."""
    found = []
    for release in ("0.5.3", "0.6.2", "0.8.3", "0.10.2"):
        (tmp_path / release).mkdir()
        found.append(read(f"{release}-kernel", tmp_path / release).to_json()["fingerprint"])
    assert len(set(found[:3])) == 1
    assert found[3] not in (None, found[0])


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_every_bundle_is_read(path: Path, tmp_path: Path) -> None:
    """In every release and generation bundles are numbered from 0 without a gap, and each one is read."""
    folder = unpack(path.stem.removeprefix("jax-"), tmp_path)
    for file in folder.glob("*[0-9]-final_bundles.txt"):
        text = file.read_text(encoding="utf-8")
        last = [line.split()[0] for line in text.splitlines() if line.strip()[:1].isdigit() and "{" in line][-1]
        assert len(listing.read(text)) == int(last, 0) + 1
