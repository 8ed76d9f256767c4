"""One `final_bundles` listing: a program's VLIW bundles, in the order in which they lie in memory.

It is the whole program after register allocation: statements with their predicates, the regions that branches go to,
and comments that name what a statement stands for. Vector statements are counted and not taken apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BUNDLE = re.compile(
    r"^[ \t]*(?:0x[0-9a-f]+|\d+)[ \t]+(?P<label>[A-Z]{2})?[ \t]*:[ \t](?P<depth>[> ]*)\{", re.MULTILINE
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_STARTS = re.compile(r"Start(?:/End empty)? region ([0-9]{1,9})")
_ENDS = re.compile(r"End (?:empty )?region ([0-9]{1,9})")
_STATEMENT = re.compile(r"\s*(?:%(?P<result>\w+) = )?(?P<operation>[a-z][\w.<>-]*)")
_PREDICATE = re.compile(r"\((?P<negated>!?)%(?P<name>\w+)(?:, (?P<otherwise>[^()]*))?\)")
_TARGET = re.compile(r"\btarget (?:= \$region|.*\bregion = )([0-9]{1,9})")
_WINDOW = re.compile(
    r"\n ?window_bounds: \((?P<window>[0-9, ]+)\).*?element_size_in_bytes: (?P<size>[0-9]{1,9})", re.DOTALL
)
_GRANULES = re.compile(r"/\*size_in_granules=\*/(?P<granules>[^,\s}]+)")
_CALLED = re.compile(r"/\* (?:%(?P<program>\S+) = |(?P<runtime><\S+>) )")
_SPILL_STORE = re.compile(r"= vst [^{}]*\[#allocation\d+_spill\]")
_SPILL_FILL = re.compile(r"= vld [^{}]*\[#allocation\d+_spill\]")
_OPERAND = "inlined_call_operand"


@dataclass(frozen=True)
class Predicate:
    """The register that decides whether a statement happens, and what its result is when it does not."""

    name: str
    negated: bool
    otherwise: str | None


@dataclass(frozen=True)
class Statement:
    """One scalar operation: arithmetic, a branch, a transfer, a call. `text` is as written, comments included."""

    result: str | None
    operation: str
    predicate: Predicate | None
    operands: tuple[str, ...]
    text: str

    @property
    def target(self) -> int | None:
        """The region that a branch goes to."""
        found = _TARGET.search(self.text)
        return int(found[1]) if found else None

    @property
    def granules(self) -> str | None:
        """The size of a transfer in granules: a number, or the register that holds it."""
        found = _GRANULES.search(self.text)
        return found["granules"] if found else None

    @property
    def window_bytes(self) -> int | None:
        """The bytes of the window that a pipeline's transfer moves, from the comment that describes the window."""
        found = _WINDOW.search(self.text)
        if not found:
            return None
        size = int(found["size"])
        for bound in re.findall(r"[0-9]{1,9}", found["window"]):
            size *= int(bound)
        return size

    @property
    def called(self) -> str | None:
        """The program that a call of the top level calls."""
        found = _CALLED.search(self.text)
        return (found["program"] or found["runtime"]) if found else None


@dataclass(frozen=True)
class Bundle:
    """What is issued at once."""

    label: str | None
    statements: tuple[Statement, ...]  # the scalar ones
    starts: tuple[int, ...]  # regions
    ends: tuple[int, ...]
    is_empty: bool  # nothing happens in it; naming the program's operands is nothing
    spill_stores: int
    spill_fills: int
    code: str  # all statements, without comments


def read(text: str) -> tuple[Bundle, ...]:
    """The bundles of a listing; what is no bundle is passed over."""
    heads = list(_BUNDLE.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return tuple(_bundle(head["label"], text[head.end() : end]) for head, end in zip(heads, ends, strict=False))


def _bundle(label: str | None, text: str) -> Bundle:
    written = list(_written(text))
    code = " ;; ".join(bare for bare, _ in written)
    return Bundle(
        label=label,
        statements=tuple(found for bare, raw in written if not _is_vector(bare) for found in _statement(bare, raw)),
        starts=tuple(map(int, _STARTS.findall(text))),
        ends=tuple(map(int, _ENDS.findall(text))),
        is_empty=all(_OPERAND in bare for bare, _ in written),
        spill_stores=len(_SPILL_STORE.findall(code)),
        spill_fills=len(_SPILL_FILL.findall(code)),
        code=code,
    )


def _written(text: str) -> Iterator[tuple[str, str]]:
    """Each statement of a bundle without comments, and as written. What follows the closing brace is no statement."""
    blanked = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    end = blanked.rfind("}")
    start = 0
    for part in blanked[: end if end >= 0 else None].split(";;"):
        if part.strip():
            yield part.strip(), text[start : start + len(part)]
        start += len(part) + 2


def _is_vector(bare: str) -> bool:
    return bare.startswith("%v") or " = v" in bare[:14]


def _statement(bare: str, raw: str) -> Iterator[Statement]:
    head = _STATEMENT.match(bare)
    if head is None:
        return
    rest = bare[head.end() :]
    predicate = _PREDICATE.search(rest)
    rest = rest if predicate is None else rest[: predicate.start()] + rest[predicate.end() :]
    yield Statement(
        result=head["result"],
        operation=head["operation"],
        predicate=None if predicate is None else _predicate(predicate),
        operands=tuple(part.strip() for part in rest.split(",") if part.strip()),
        text=raw,
    )


def _predicate(found: re.Match[str]) -> Predicate:
    return Predicate(found["name"], negated=bool(found["negated"]), otherwise=found["otherwise"])


_VALUE = re.compile(r"%[a-z]+\d+_([a-z]+\d+)|%\d+")
_ALLOCATION = re.compile(r"#allocation\d+(_spill)?")
# What only names something: the region of a branch, the reason of a stop.
_NAMED = re.compile(r"(?P<kept>= sbr\.rel[^%]*(?:%\w+\))?|= shalt\.err(?: \(!?%\w+\))?).*", re.DOTALL)


def fingerprint(bundles: Sequence[Bundle]) -> str:
    """A hash of what the program does: the same for programs that differ in names of values and buffers alone."""
    places = {region: number for number, bundle in enumerate(bundles) for region in bundle.starts}
    buffers: dict[str, str] = {}
    digest = hashlib.sha256()
    for bundle in bundles:
        code = " ;; ".join(_NAMED.sub(r"\g<kept>", part) for part in bundle.code.split(" ;; "))
        code = _VALUE.sub(lambda value: value[1] or "%", " ".join(code.split()))
        code = _ALLOCATION.sub(lambda buffer: buffers.setdefault(buffer[0], f"#{len(buffers)}{buffer[1] or ''}"), code)
        going = [places.get(one.target) for one in bundle.statements if one.target is not None]
        digest.update(f"{code} {going}\n".encode())
    return digest.hexdigest()
