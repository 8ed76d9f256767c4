"""The reader of the compiler's dump, on dumps that real compilers wrote (tests/dumps/make.py says how)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inside import checks

dump = checks("dump")
programs = checks("programs")

DUMPS = sorted((Path(__file__).parent / "dumps").glob("*.txt"), key=lambda path: path.name)
UTILIZATION = "final_hlo-static-per-bundle-utilization"


def unpack(name: str, folder: Path) -> Path:
    """A stored dump as the folder that the compiler left."""
    text = (Path(__file__).parent / "dumps" / f"jax-{name}.txt").read_text(encoding="utf-8")
    for part in text.removeprefix("==== ").split("\n==== "):
        file, _, content = part.partition("\n")
        (folder / file).write_text(content + "\n", encoding="utf-8")
    return folder


def read(name: str, folder: Path) -> Any:
    return dump.read(unpack(name, folder))


def program(schedule: Any, name: str) -> Any:
    return next(each for each in schedule.programs if each.name == name)


def named(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def totals(folder: Path) -> dict[str, tuple[int, int]]:
    """(bundles, empty bundles) of each program by the compiler's own analysis, which the reader does not look at."""
    found = {}
    for path in folder.glob("*schedule-analysis_final_bundles.txt"):
        numbers = re.findall(r"\t(?:total|empty) scheduled bundles: +(\d+)", path.read_text(encoding="utf-8"))
        name = re.sub(r"^\d+-|\d+-schedule-analysis.*", "", path.name).strip("-") or "TLP"
        if numbers:  # an aborted dump leaves an empty file
            found[name] = (int(numbers[0]), int(numbers[1]))
    return found


def _of_the_program(note: str) -> bool:
    """Whether a note says what the program leaves open, and not what the reader did not understand."""
    return ": what only the runtime knows decides " in note or note.startswith("two cores share")


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_bundles_are_those_that_the_compiler_counts(path: Path, tmp_path: Path) -> None:
    """In every release and program, bundles and empty bundles equal the compiler's own totals; nothing is left over."""
    schedule = read(path.stem.removeprefix("jax-"), tmp_path)
    ours = {each.name: (each.bundles, each.empty_bundles) for each in schedule.programs}
    theirs = totals(tmp_path)
    assert theirs
    assert {name: ours[name] for name in theirs} == theirs
    assert schedule.complete
    assert [note for note in schedule.notes if not _of_the_program(note)] == []


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("0.5.3-kernel", "main"),
        ("0.6.2-kernel", "main.1"),
        ("0.8.3-kernel", "halving_maximum.1"),
        ("0.10.2-kernel", "halving_maximum.1"),
    ],
)
def test_loops_are_nested_and_counted(name: str, kernel: str, tmp_path: Path) -> None:
    """A grid of 4 (6 trips of its pipeline) around a loop of 24 is read so; every bundle is in one loop or in none."""
    found = program(read(name, tmp_path), kernel)
    assert found.kind == "kernel"
    assert [(loop.depth, loop.trips) for loop in found.loops] == [(1, 6), (2, 24)]
    inside = sum(loop.bundles for loop in found.loops)
    assert found.bundles - 20 < inside < found.bundles
    assert found.loops[1].bundles == 8, "with those that run while its branch lands"
    assert found.loops[1].executions == programs.Range(4 * 24, 4 * 24)
    assert found.loops[1].executed_bundles == programs.Range(4 * 24 * 8, 4 * 24 * 8)


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_there_are_as_many_loops_as_the_listing_marks(path: Path, tmp_path: Path) -> None:
    """One loop for each mark of a loop's body, whatever the compiler packed between its bundles."""
    schedule = read(path.stem.removeprefix("jax-"), tmp_path)
    listings = [each for each in tmp_path.glob("*-final_bundles.txt") if "schedule-analysis" not in each.name]
    marks = sum(len(re.findall(r"^ +0x\w+ LB:", each.read_text(encoding="utf-8"), re.MULTILINE)) for each in listings)
    assert sum(len(each.loops) for each in schedule.programs) == marks


def test_slots_are_summed_with_their_capacity(tmp_path: Path) -> None:
    """A slot's use is the sum of its column, its capacity the number under its name."""
    schedule = read("0.9.2-native", tmp_path)
    matrix = program(schedule, "fusion.5")
    assert matrix.slots["MXU"] == {"capacity": 4, "used": 32}
    lines = named(tmp_path, f"*-fusion.5-*{UTILIZATION}.txt").read_text(encoding="utf-8").splitlines()
    columns = list(zip(*(map(int, line.split()) for line in lines[4:]), strict=True))
    assert [slot["used"] for slot in matrix.slots.values()] == [sum(column) for column in columns]
    assert list(matrix.slots) == lines[1].split(", ")


def test_spills_are_counted_where_the_compiler_has_no_slot_for_them(tmp_path: Path) -> None:
    """A kernel that spills does so in 0.6.2 too, whose slots do not tell, and as often as in 0.10.2, whose slots do."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = program(read("0.6.2-spills", tmp_path / "old"), "main.1")
    new = program(read("0.10.2-spills", tmp_path / "new"), "halving_maximum.1")
    assert (old.spill_stores, old.spill_fills) == (new.spill_stores, new.spill_fills)
    assert new.spill_stores == new.slots["VSTORE:SPILL"]["used"] > 0
    assert "VSTORE:SPILL" not in old.slots
    without = program(read("0.10.2-kernel", tmp_path), "halving_maximum.1")
    assert (without.spill_stores, without.spill_fills) == (0, 0)


def test_kernels_and_fusions_are_told_apart_from_the_rest(tmp_path: Path) -> None:
    """A kernel in a loop in a branch is a kernel, a fusion in the other branch a fusion; copies are neither."""
    schedule = read("0.10.2-branches", tmp_path)
    assert {each.name: each.kind for each in schedule.programs} == {
        "<late-initialization>": "runtime",
        "<late-finalization>": "runtime",
        "TLP": "top level",
        "copy.11": "other",
        "slice.1": "other",
        "copy.5": "other",
        "tanh_multiply_fusion": "fusion",
        "halving_maximum.3": "kernel",
    }


def test_sums_are_of_what_the_kernel_is_made_of(tmp_path: Path) -> None:
    """The top level and what the runtime adds to every program are listed, and left out of the sums."""
    document = read("0.10.2-spills", tmp_path).to_json()
    (kernel,) = [each for each in document["programs"] if each["kind"] == "kernel"]
    assert len(document["programs"]) > 1
    assert {key: document[key] for key in ("bundles", "spill_stores", "spill_fills")} == {
        key: kernel[key] for key in ("bundles", "spill_stores", "spill_fills")
    }


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """A fusion of the module that has no listing makes the schedule incomplete, and is named."""
    unpack("0.9.2-native", tmp_path)
    named(tmp_path, "*-fusion.4-[0-9][0-9]-final_bundles.txt").unlink()
    schedule = dump.read(tmp_path)
    assert not schedule.complete
    assert schedule.notes == ["no schedule was found for fusion.4"]
    assert "fusion.5" in {each.name for each in schedule.programs}


def test_the_order_of_compilation_does_not_show(tmp_path: Path) -> None:
    """Several threads compile fusions, in another order in each run; what is read is the same."""
    (tmp_path / "first").mkdir()
    (tmp_path / "other").mkdir()
    first = read("0.9.2-native", tmp_path / "first").to_json()
    for path in unpack("0.9.2-native", tmp_path / "other").iterdir():
        stamp, _, rest = path.name.partition("-")
        if rest.startswith("fusion"):
            path.rename(path.with_name(f"{10**19 - int(stamp)}-{rest}"))
    assert dump.read(tmp_path / "other").to_json() == first


def test_without_the_module_nothing_is_called_complete(tmp_path: Path) -> None:
    """When the module's text is missing, the programs are read, and that some may be missing is said."""
    unpack("0.10.2-kernel", tmp_path)
    named(tmp_path, "*-hlo.txt").unlink()
    schedule = dump.read(tmp_path)
    assert not schedule.complete
    assert "without the compiled module" in schedule.notes[0]
    assert program(schedule, "halving_maximum.1").kind == "other"


def test_an_empty_dump_is_incomplete(tmp_path: Path) -> None:
    """A compiler that wrote nothing gives no programs and no exception."""
    schedule = dump.read(tmp_path)
    assert (schedule.programs, schedule.complete) == ([], False)


def test_a_header_that_is_not_known_is_a_note(tmp_path: Path) -> None:
    """When a release names its slots in another way, bundles and loops stand, and the note names the program."""
    unpack("0.10.2-kernel", tmp_path)
    table = named(tmp_path, f"*halving_maximum.1-*{UTILIZATION}.txt")
    known = program(dump.read(tmp_path), "halving_maximum.1")
    table.write_text(table.read_text(encoding="utf-8").replace("MXU, XLU", "MATRIX; CROSS"), encoding="utf-8")
    schedule = dump.read(tmp_path)
    found = program(schedule, "halving_maximum.1")
    assert found.slots == {}
    assert (found.bundles, found.loops) == (known.bundles, known.loops)
    assert schedule.notes == ["halving_maximum.1: this libtpu writes its slot use in a form that is not understood"]


def test_a_listing_that_is_cut_off_is_a_note(tmp_path: Path) -> None:
    """When fewer bundles are listed than the table has rows, the table's count stands and the note says so."""
    unpack("0.10.2-kernel", tmp_path)
    known = program(dump.read(tmp_path), "halving_maximum.1")
    listing = named(tmp_path, "*halving_maximum.1-[0-9][0-9]-final_bundles.txt")
    listing.write_text("".join(listing.read_text(encoding="utf-8").splitlines(keepends=True)[:40]), encoding="utf-8")
    schedule = dump.read(tmp_path)
    assert program(schedule, "halving_maximum.1").bundles == known.bundles
    assert "31 bundles were understood of 92" in schedule.notes[0]


GARBAGE = st.binary(max_size=60) | st.text(alphabet=" \n\t|,:>{}0123456789x²٣abLBMXU=%*/", max_size=200).map(str.encode)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "1-TLP-hlo.txt",
                "1-hlo.txt",
                "1-k-00-final_bundles.txt",
                f"1-k-01-{UTILIZATION}.txt",
                "1-02-final_bundles.txt",
                f"1-03-{UTILIZATION}.txt",
                "notes",
            ]
        ),
        GARBAGE,
    )
)
def test_garbage_never_raises(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    """Whatever the files hold, the reader returns a schedule that can be written as JSON."""
    folder = tmp_path_factory.mktemp("dump")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    document = dump.read(folder).to_json()
    assert document["bundles"] >= 0


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_damaged_dump_never_raises(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A real dump with pieces cut out and put elsewhere is read without an exception."""
    folder = unpack("0.6.2-kernel", tmp_path_factory.mktemp("dump"))
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        path.write_bytes(content[:start] + data.draw(GARBAGE) + content[end:])
    assert isinstance(dump.read(folder).to_json()["complete"], bool)


def test_folders_among_the_files_are_passed_over(tmp_path: Path) -> None:
    """A folder named like a file of the dump is not opened."""
    for name in ("1-TLP-hlo.txt", "1-k-00-final_bundles.txt", f"1-k-01-{UTILIZATION}.txt"):
        (tmp_path / name).mkdir()
    assert dump.read(tmp_path).programs == []
