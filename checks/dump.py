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

LABELS = ("final_bundles", "final_hlo-static-per-bundle-utilization")
_FILE = re.compile(r"(?P<stamp>\d+)-(?:(?P<program>.+)-)?\d+-(?P<label>[a-z_].*)\.txt")
_MODULE_FILE = re.compile(r"\d+-(?:TLP-)?hlo\.txt")
_TOP_LEVEL = "TLP"  # libtpu 0.0.11 leaves this name out
_RUNTIME = re.compile(r"<.*|continuation_tailcall")

_BUNDLE = re.compile(r"\s*(?:0x[0-9a-f]+|\d+)\s+(?P<label>[A-Z]{2})?\s*:\s(?P<depth>[> ]*)\{(?P<body>.*)")
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)")
_OPERAND = " = inlined_call_operand"
_EXIT_TEST = re.compile(r"scmp\.\w+\S* [^,]+, ([0-9]{1,18}) /\* loop exit test \*/")
_SPILL_STORE = re.compile(r"= vst [^{}]*\[#allocation\d+_spill\]")
_SPILL_FILL = re.compile(r"= vld [^{}]*\[#allocation\d+_spill\]")
_COUNT = re.compile(r"[0-9]{1,9}")

_COMPUTATION = re.compile(r"(?:ENTRY )?%?(\S+) \(.*\{")
_FUSED = re.compile(r"\bcalls=%?([\w.-]+)")
_HLO_PROGRAM = re.compile(
    r"\s+(?:ROOT )?%?(\S+) = .*? (?:(?P<fusion>fusion)\(|custom-call\(.*custom_call_target=\"tpu_custom_call\")"
)


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
    module = _module(folder)
    expected = _kinds(module) if module is not None else {}
    programs: list[Program] = []
    notes = [] if module is not None else ["without the compiled module it cannot be told whether programs are missing"]
    for name, labels in _listings(folder):
        program, said = _program(name, expected.get(name), labels)
        programs.append(program)
        notes += said
    missing = sorted(expected.keys() - {program.name for program in programs})
    if missing:
        notes.append(f"no schedule was found for {', '.join(missing)}")
    return Schedule(programs, complete=bool(programs) and module is not None and not missing, notes=notes)


def _listings(folder: Path) -> Iterator[tuple[str, dict[str, Path]]]:
    """The programs that have both listings, by name, in the order in which they were compiled."""
    files: dict[tuple[str, str], dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match and match["label"] in LABELS and path.is_file():
            files.setdefault((match["stamp"], match["program"] or _TOP_LEVEL), {})[match["label"]] = path
    return ((name, labels) for (_, name), labels in files.items() if len(labels) == len(LABELS))


def _module(folder: Path) -> str | None:
    """The compiled module's text; where several were compiled, the texts of all."""
    files = [path for path in sorted(folder.iterdir()) if _MODULE_FILE.fullmatch(path.name) and path.is_file()]
    return "\n".join(map(_text, files)) if files else None


def _kinds(module: str) -> dict[str, str]:
    """The kind of each program that a module names: its kernels and fusions, save those inside a fusion."""
    fused = set(_FUSED.findall(module))
    kinds: dict[str, str] = {}
    computation = ""
    for line in module.splitlines():
        opening, program = _COMPUTATION.match(line), _HLO_PROGRAM.match(line)
        computation = opening[1] if opening else computation
        if program and computation not in fused:
            kinds[program[1]] = "fusion" if program["fusion"] else "kernel"
    return kinds


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _program(name: str, kind: str | None, labels: dict[str, Path]) -> tuple[Program, list[str]]:
    rows, capacity, notes = _utilization(name, labels[LABELS[1]])
    bundles = _bundles(labels[LABELS[0]])
    used = {slot: sum(row[n] for row in rows) for n, slot in enumerate(capacity)}
    if len(bundles) < len(rows):
        notes.append(f"{name}: {len(bundles)} bundles were understood of {len(rows)}; its loops are not complete")
    return (
        Program(
            name=name,
            kind=kind or _other_kind(name),
            bundles=max(len(rows), len(bundles)),
            empty_bundles=sum(bundle.is_empty for bundle in bundles),
            loops=_loops(bundles),
            slots={slot: {"capacity": capacity[slot], "used": used[slot]} for slot in capacity},
            # libtpu up to 0.0.17 has no slot of its own for spills; the listing shows them in every release
            spill_stores=used.get("VSTORE:SPILL", _occurrences(_SPILL_STORE, bundles)),
            spill_fills=used.get("VLOAD:FILL", _occurrences(_SPILL_FILL, bundles)),
        ),
        notes,
    )


def _other_kind(name: str) -> str:
    """The kind of a program that the module does not name: the top level, what the runtime adds, or a copy, say."""
    if name == _TOP_LEVEL:
        return "top level"
    return "runtime" if _RUNTIME.fullmatch(name) else "other"


def _utilization(name: str, path: Path) -> tuple[list[list[int]], dict[str, int], list[str]]:
    """Per-bundle slot use and each slot's capacity. Older libtpu separate by `|`, newer by commas and blanks."""
    cells = [[cell for cell in re.split(r"[|,\s]+", line) if cell] for line in _text(path).splitlines()]
    numbers = [[int(cell) for cell in row] for row in cells if row and all(map(_COUNT.fullmatch, row))]
    header = next((row for row in cells if "MXU" in row), None)
    if header is None or not numbers or any(len(row) != len(header) for row in numbers):
        return [], {}, [f"{name}: this libtpu writes its slot use in a form that is not understood"]
    return numbers[1:], dict(zip(header, numbers[0], strict=True)), []


@dataclass(frozen=True)
class _Bundle:
    """One line of the listing of bundles."""

    label: str | None
    depth: int
    body: str  # what follows the opening brace

    @property
    def is_empty(self) -> bool:
        """Whether nothing happens in it; naming the program's operands is nothing."""
        statements = _COMMENT.sub("", self.body).strip().removesuffix("}").split(";;")
        return all(not text.strip() or _OPERAND in text for text in statements)


def _bundles(path: Path) -> list[_Bundle]:
    matches = map(_BUNDLE.match, _text(path).splitlines())
    return [_Bundle(match["label"], match["depth"].count(">"), match["body"]) for match in matches if match]


def _occurrences(pattern: re.Pattern[str], bundles: list[_Bundle]) -> int:
    return sum(len(pattern.findall(bundle.body)) for bundle in bundles)


def _loops(bundles: list[_Bundle]) -> list[Loop]:
    """The loops in order of their beginning.

    A loop begins at its mark. Bundles of the outer loop may be packed among its own, so they do not end it; an empty
    bundle has no mark of depth and belongs where the one before it does.
    """
    loops: list[Loop] = []
    open_loops: list[int] = []  # indices into `loops`, outermost first
    depth = 0
    for bundle in bundles:
        depth = depth if bundle.is_empty else bundle.depth
        if bundle.label == "LB" and depth > 0:
            del open_loops[depth - 1 :]
        while len(open_loops) < depth:
            open_loops.append(len(loops))
            loops.append(Loop(len(open_loops), None, 0))
        if depth > 0:
            own = open_loops[depth - 1]
            loops[own] = _with_bundle(loops[own], bundle)
    return loops


def _with_bundle(loop: Loop, bundle: _Bundle) -> Loop:
    exit_test = _EXIT_TEST.search(bundle.body)
    return replace(loop, bundles=loop.bundles + 1, trips=int(exit_test[1]) if exit_test else loop.trips)
