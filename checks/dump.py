"""The TPU compiler's dump of the final schedule: one set of files for each program (kernel, fusion, top level).

`…-final_bundles.txt` has one line per VLIW bundle, `…-final_hlo-static-per-bundle-utilization.txt` the use of each
slot in each bundle. What is not understood is said in a note, and the sums that are sure are given.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from . import control_flow, listing, programs, scalar
from .control_flow import NotUnderstoodError
from .programs import DESCRIBED, NONE, Listings, Program, Range

LABELS = ("final_bundles", "final_hlo-static-per-bundle-utilization")
_FILE = re.compile(r"(?P<stamp>\d+)-(?:(?P<program>.+)-)?\d+-(?P<label>[a-z_].*)\.txt")
_MODULE_FILE = re.compile(r"\d+-(?:TLP-)?hlo\.txt")
_TOP_LEVEL = "TLP"  # libtpu 0.0.11 leaves this name out
_RUNTIME = re.compile(r"<.*|continuation_tailcall")

_COMPUTATION = re.compile(r"(?:ENTRY )?%?(\S+) \(.*\{")
_FUSED = re.compile(r"\bcalls=%?([\w.-]+)")
_HLO_PROGRAM = re.compile(
    r"\s+(?:ROOT )?%?(?P<name>\S+) = .*? (?:(?P<fusion>fusion)\(|custom-call\(.*custom_call_target=\"tpu_custom_call\")"
)
_OPERATION = re.compile(r"\s+(?:ROOT )?%?(\S+) = ")
_SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TABLE_ROW = re.compile(r"^(\d+) (?:\"(?P<text>[^\"]*)\"|\{(?P<fields>[^}]*)\})$")
_TABLES = ("FileNames", "FileLocations", "StackFrames")


@dataclass(frozen=True)
class Schedule:
    """All programs of one compilation."""

    programs: list[Program]
    complete: bool
    notes: list[str] = field(default_factory=list)

    def with_note(self, note: str) -> Schedule:
        return replace(self, notes=[*self.notes, note])

    def to_json(self) -> dict[str, Any]:
        """The sums leave out the top level and what the runtime adds: they are the compiler's, whatever the kernel.

        What is executed is counted for each call of the top level's. Traffic is the exception: what the top level
        copies beforehand, a program need not fetch, and from release to release compilers change which of the two it
        is.
        """
        own = [program for program in self.programs if program.kind not in ("top level", "runtime")]
        top = [program for program in self.programs if program.kind == "top level"]
        return {
            **{key: sum(getattr(program, key) for program in own) for key in _SUMMED},
            "executed_bundles": _total(program.executed_bundles for program in _called(own)),
            "executed_spills": _total(program.executed_spills for program in _called(own)),
            "dma_bytes": _total(map(_traffic, [*_called(own), *top])) if own else None,
            "fingerprint": _fingerprint(own),
            **asdict(self),
        }


_SUMMED = ("bundles", "spill_stores", "spill_fills")
_OF_VECTORS = {"hbm → vmem", "vmem → hbm", "hbm → cmem", "cmem → hbm", "hbm → hbm", DESCRIBED}


def _called(own: Sequence[Program]) -> list[Program]:
    """The programs with what they execute in all of their calls."""

    def all_calls(program: Program) -> Program:
        bundles, spills = program.executed_bundles, program.executed_spills
        moved = [replace(one, bytes=one.bytes.times(program.calls)) for one in program.dma]
        return replace(
            program,
            executed_bundles=bundles and bundles.times(program.calls),
            executed_spills=spills and spills.times(program.calls),
            dma=moved,
        )

    return [all_calls(program) for program in own]


def _traffic(program: Program) -> Range | None:
    """Bytes that one program moves between HBM and the memories of vectors."""
    if program.executed_bundles is None:
        return None
    return sum((one.bytes for one in program.dma if one.direction in _OF_VECTORS), NONE)


def _total(parts: Iterable[Range | None]) -> dict[str, int | None] | None:
    """The sum; None where a part was not counted."""
    known = list(parts)
    if not known or None in known:
        return None
    return asdict(sum((part for part in known if part is not None), NONE))


def _fingerprint(own: Sequence[Program]) -> str | None:
    """Of all programs that compute, in whatever order several threads of the compiler wrote them."""
    if not own or any(program.fingerprint is None for program in own):
        return None
    return hashlib.sha256("\n".join(sorted(str(program.fingerprint) for program in own)).encode()).hexdigest()


def read(folder: Path, granule: int | None = None) -> Schedule:
    """Every program in a dump folder, and whether the compiled module's kernels and fusions are all among them.

    `granule` is the number of bytes in which the generation counts transfers, for a dump whose own comments do not
    tell.
    """
    module = _module(folder)
    expected = _expected(module) if module is not None else {}
    found = [_listings(name, labels) for name, labels in _files(folder)]
    slots = control_flow.delay_slots(each.bundles for each in found)
    always = _entry(module or "")
    calls, notes = _calls(found, slots, always)
    if module is None:
        notes = [*notes, "without the compiled module it cannot be told whether programs are missing"]
    read_programs: list[Program] = []
    for each in found:
        program, said = programs.read(each, slots, _granule(found) or granule, always)
        read_programs.append(_in_its_place(program, expected, calls))
        notes += [] if read_programs[-1].kind in ("runtime", "top level") else said
    missing = sorted(expected.keys() - {program.name for program in read_programs})
    if missing:
        notes.append(f"no schedule was found for {', '.join(missing)}")
    notes = sorted(dict.fromkeys(notes), key=lambda note: note in programs.OF_ALL)
    return Schedule(read_programs, complete=bool(found) and module is not None and not missing, notes=notes)


def _in_its_place(program: Program, expected: Mapping[str, _Expected], calls: Mapping[str, Range]) -> Program:
    """The program with what the module and the top level say of it."""
    known = expected.get(program.name)
    return replace(
        program,
        kind=known.kind if known else _other_kind(program.name),
        source=known.source if known else None,
        calls=calls.get(program.name, programs.ONCE),
    )


def _other_kind(name: str) -> str:
    """The kind of a program that the module does not name: the top level, what the runtime adds, or a copy, say."""
    if name == _TOP_LEVEL:
        return "top level"
    return "runtime" if _RUNTIME.fullmatch(name) else "other"


def _calls(found: Sequence[Listings], slots: int | None, always: set[str]) -> tuple[Mapping[str, Range], list[str]]:
    top = next((each for each in found if each.name == _TOP_LEVEL and each.bundles), None)
    if top is None:
        return {}, []
    try:
        return programs.calls(top.bundles, slots, always), []
    except NotUnderstoodError as error:
        return {}, [f"how often each program is called is not known: {error}"]


def _granule(found: Sequence[Listings]) -> int | None:
    """Bytes of one granule of a transfer, by the windows whose size in bytes is told beside it."""
    told = Counter(
        size // granules
        for each in found
        for _, statement in scalar.transfers(each.bundles)
        if (size := statement.window_bytes) and (granules := _number(statement.granules))
    )
    return told.most_common(1)[0][0] if told else None


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else None


def _listings(name: str, labels: dict[str, Path]) -> Listings:
    return Listings(name, listing.read(_text(labels[LABELS[0]])), programs.utilization(_text(labels[LABELS[1]])))


def _files(folder: Path) -> Iterator[tuple[str, dict[str, Path]]]:
    """The programs that have both listings, by name: they are compiled by several threads, in no order of their own."""
    files: dict[tuple[str, str], dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match and match["label"] in LABELS and path.is_file():
            files.setdefault((match["stamp"], match["program"] or _TOP_LEVEL), {})[match["label"]] = path
    whole = [(name, stamp, labels) for (stamp, name), labels in files.items() if len(labels) == len(LABELS)]
    return ((name, labels) for name, _, labels in sorted(whole, key=lambda one: one[:2]))


def _module(folder: Path) -> str | None:
    """The compiled module's text; where several were compiled, the texts of all."""
    files = [path for path in sorted(folder.iterdir()) if _MODULE_FILE.fullmatch(path.name) and path.is_file()]
    return "\n".join(map(_text, files)) if files else None


@dataclass(frozen=True)
class _Expected:
    """What the module says of one of its programs."""

    kind: str
    source: str | None  # file:line of the operation that it was made from


def _expected(module: str) -> dict[str, _Expected]:
    """Each program that a module names: its kernels and fusions, save those inside a fusion."""
    fused, tables = set(_FUSED.findall(module)), _tables(module)
    found: dict[str, _Expected] = {}
    computation = ""
    for line in module.splitlines():
        opening, program = _COMPUTATION.match(line), _HLO_PROGRAM.match(line)
        computation = opening[1] if opening else computation
        if program and computation not in fused:
            found[program["name"]] = _Expected("fusion" if program["fusion"] else "kernel", _source(line, tables))
    return found


def _entry(module: str) -> set[str]:
    """The names of the operations of a module's entry, which run once whenever it is called."""
    found: set[str] = set()
    inside = False
    for line in module.splitlines():
        if _COMPUTATION.match(line):
            inside = line.startswith("ENTRY")
        elif inside and (operation := _OPERATION.match(line)):
            found.add(operation[1])
    return found


def _source(line: str, tables: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str | None:
    """The place of an operation, by its own metadata or (from jax 0.8 on) through the module's tables."""
    if named := _SOURCE.search(line):
        return f"{named[1].rpartition('/')[2]}:{named[2]}"
    frame = _FRAME.search(line)
    location = tables["StackFrames"].get(frame[1], {}).get("file_location_id") if frame else None
    place = tables["FileLocations"].get(location or "", {})
    file = tables["FileNames"].get(place.get("file_name_id", ""), {}).get("text")
    return f"{file.rpartition('/')[2]}:{place['line']}" if file and "line" in place else None


def _tables(module: str) -> dict[str, dict[str, dict[str, str]]]:
    """The module's tables of files, places and stack frames, by number; empty ones where it has none."""
    found: dict[str, dict[str, dict[str, str]]] = {name: {} for name in _TABLES}
    current: dict[str, dict[str, str]] | None = None
    for line in module.splitlines():
        row = _TABLE_ROW.match(line)
        if row is None:
            current = found.get(line)
        elif current is not None:
            fields = dict(part.split("=", 1) for part in (row["fields"] or "").split() if "=" in part)
            current[row[1]] = {**fields, **({"text": row["text"]} if row["text"] is not None else {})}
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
