"""The TPU compiler's dump of the final schedule: one set of files for each program (kernel, fusion, top level).

`…-final_bundles.txt` has one line per VLIW bundle, `…-final_hlo-static-per-bundle-utilization.txt` the use of each
slot in each bundle. What is not understood is said in a note, and the sums that are sure are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

_LABELS = ("final_bundles", "final_hlo-static-per-bundle-utilization")
_FILE = re.compile(r"(?P<stamp>\d+)-(?P<program>.+)-\d+-(?P<label>[a-z_].*)\.txt")
_BUNDLE = re.compile(r"\s*(?:0x[0-9a-f]+|\d+)\s+(?P<label>[A-Z]{2})?\s*:\s(?P<depth>[> ]*)\{(?P<body>.*)")
_EXIT_TEST = re.compile(r"scmp\.\w+\S* [^,]+, (\d+) /\* loop exit test \*/")
_HLO_PROGRAM = re.compile(
    r"^\s+(?:ROOT )?%?(\S+) = .*? (?:fusion\(|custom-call\(.*custom_call_target=\"tpu_custom_call\")"
)


def flags(folder: Path) -> str:
    """The value of LIBTPU_INIT_ARGS that has the schedule written to `folder`.

    Without the expression a flash kernel writes 200 MB and compiles 10 to 40 times slower.
    """
    labels = "|".join(_LABELS)
    return f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true --xla_jf_dump_llo_pass_label_regex=({labels}|heap_sizes)"


@dataclass(frozen=True)
class Loop:
    """A loop of a program: nesting depth from 1, trips when its exit test is a constant, bundles outside inner loops."""

    depth: int
    trips: int | None
    bundles: int


@dataclass(frozen=True)
class Program:
    """One compiled program."""

    name: str
    kind: str  # "kernel", "fusion", "top level", "runtime" (what libtpu adds to every program) or "other"
    bundles: int
    empty_bundles: int
    loops: list[Loop]
    slots: dict[str, dict[str, int]]  # slot → {capacity per bundle, uses in all bundles}
    spill_stores: int
    spill_fills: int


@dataclass(frozen=True)
class Schedule:
    """All programs of one compilation."""

    programs: list[Program]
    complete: bool
    notes: list[str] = field(default_factory=list)

    def with_note(self, note: str) -> Schedule:
        return replace(self, notes=[*self.notes, note])

    def to_json(self) -> dict[str, Any]:
        """The sums leave out the top level and what the runtime adds: they are the compiler's, whatever the kernel."""
        own = [program for program in self.programs if program.kind not in ("top level", "runtime")]
        sums = {key: sum(getattr(program, key) for program in own) for key in _SUMMED}
        return {**sums, **asdict(self)}


_SUMMED = ("bundles", "spill_stores", "spill_fills")


def read(folder: Path) -> Schedule:
    """Every program in a dump folder, and whether the compiled module's kernels and fusions are all among them."""
    files: dict[tuple[str, str], dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match and match["label"] in _LABELS:
            files.setdefault((match["stamp"], match["program"]), {})[match["label"]] = path
    expected = _expected(folder)
    programs, notes = [], []
    for (_, name), labels in files.items():
        if set(labels) == set(_LABELS):
            program, said = _program(name, expected.get(name), labels)
            programs.append(program)
            notes += said
    missing = sorted(expected.keys() - {program.name for program in programs})
    if missing:
        notes.append(f"no schedule was found for {', '.join(missing)}")
    return Schedule(programs, complete=bool(programs) and not missing, notes=notes)


def _expected(folder: Path) -> dict[str, str]:
    """The kernels and fusions of the compiled module's entry, by name, from the module's text in the dump."""
    found: dict[str, str] = {}
    for path in folder.glob("*-TLP-hlo.txt"):
        _, _, entry = path.read_text(encoding="utf-8", errors="replace").partition("\nENTRY ")
        for line in entry.splitlines():
            match = _HLO_PROGRAM.match(line)
            if match:
                found[match[1].lstrip("%")] = "fusion" if " fusion(" in line else "kernel"
    return found


def _program(name: str, kind: str | None, labels: dict[str, Path]) -> tuple[Program, list[str]]:
    rows, capacity, notes = _utilization(name, labels[_LABELS[1]])
    bundles = list(_bundles(labels[_LABELS[0]]))
    used = {slot: sum(row[n] for row in rows) for n, slot in enumerate(capacity)}
    if len(bundles) < len(rows):
        notes.append(f"{name}: {len(bundles)} bundles were understood of {len(rows)}; its loops are not complete")
    return (
        Program(
            name=name,
            kind=kind or _other_kind(name),
            bundles=max(len(rows), len(bundles)),
            empty_bundles=sum(1 for _, _, body in bundles if body.strip() in ("}", "")),
            loops=_loops(bundles),
            slots={slot: {"capacity": capacity[slot], "used": used[slot]} for slot in capacity},
            spill_stores=used.get("VSTORE:SPILL", 0),
            spill_fills=used.get("VLOAD:FILL", 0),
        ),
        notes,
    )


def _other_kind(name: str) -> str:
    """The kind of a program that the module's entry does not name: `TLP`, `<late-initialization>`, or a copy, say."""
    return "top level" if name == "TLP" else "runtime" if name.startswith("<") else "other"


def _utilization(name: str, path: Path) -> tuple[list[list[int]], dict[str, int], list[str]]:
    """Per-bundle slot use and each slot's capacity. Older libtpu separate by `|`, newer by commas and blanks."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    cells = [[cell for cell in re.split(r"[|,\s]+", line.strip()) if cell] for line in lines]
    numbers = [[int(cell) for cell in row] for row in cells if row and all(cell.isdigit() for cell in row)]
    header = next((row for row in cells if "MXU" in row), None)
    if header is None or not numbers or any(len(row) != len(header) for row in numbers):
        return [], {}, [f"{name}: this libtpu writes its slot use in a form that is not understood"]
    return numbers[1:], dict(zip(header, numbers[0], strict=True)), []


def _bundles(path: Path) -> Iterator[tuple[str | None, int, str]]:
    """(label, loop depth, text) of each bundle."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            match = _BUNDLE.match(line)
            if match:
                yield match["label"], match["depth"].count(">"), match["body"]


def _loops(bundles: list[tuple[str | None, int, str]]) -> list[Loop]:
    """The loops in order of their beginning. A loop begins where its depth is first reached, and ends where it is left."""
    loops: list[Loop] = []
    open_loops: list[int] = []  # indices into `loops`, outermost first
    for label, depth, body in bundles:
        begins_again = label == "LB" and depth == len(open_loops)
        del open_loops[depth - begins_again :]
        while len(open_loops) < depth:
            open_loops.append(len(loops))
            loops.append(Loop(len(open_loops), None, 0))
        if open_loops:
            current = loops[open_loops[-1]]
            exit_test = _EXIT_TEST.search(body)
            trips = int(exit_test[1]) if exit_test else current.trips
            loops[open_loops[-1]] = replace(current, bundles=current.bundles + 1, trips=trips)
    return loops
