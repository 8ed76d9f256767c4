"""What the lowering or the compiler refuses: an operation or type that is not there, a layout that does not fit.

One sentence that names the operation, the type and the shape, and how to mend it where that is certain.
"""

from __future__ import annotations

import re

from watchdog.judges.fault_texts import inner, operand_types, operation, said
from watchdog.judges.wording import one_line, sentence
from watchdog.model import Fault

_PRIMITIVE = re.compile(r"Unimplemented primitive in Pallas (?:TPU )?lowering(?: for [\w.]+)?: (\w+)")
_UNSIGNED = re.compile(r"Unsigned integer dtype (\w+) is not supported for dot_general")
_LEGALIZE = re.compile(r"failed to legalize operation '([\w.]+)'")
_MATMUL = re.compile(
    r"matmul|matrix multiplication|lhs/rhs type|required instructions|float acc with int lhs", re.IGNORECASE
)
_NARROW = ("int4", "int8", "uint8", "int16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_BLOCK = re.compile(
    r"Block spec for (?P<of>\S+) in pallas_call .*? has block shape (?P<block>\(.*?\)), array shape (?P<array>\(.*?\)), and",
    re.DOTALL,
)
_BLOCKED = re.compile(r"Blocked\((?:block_size=)?(\d+)\)")
_TILES = re.compile(r"has tiling (?P<tile>\([\d, ]+\)), but its block shape (?P<block>\([^)]*\))")
_INPUT = re.compile(r"window params for (\w+ \d+)")
_UNPROVEN = re.compile(r"cannot statically prove that index in dimension (\d+) is a multiple of (\d+)")
_SLICE = re.compile(
    r"(?:Slice shape along dimension (?P<dimension>\d+) must be aligned to tiling \((?P<tile>\d+)\), but is (?P<size>\d+))|(?:size at dimension (?P<at>\d+) is divisible by the tile dimension (?P<by>\d+))"
)
_FLOAT16 = re.compile(r"(?:\b|x)f16\b")


def unsupported(fault: Fault, generation: str) -> str:
    """`generation` is the TPU's, or empty where the cell has none."""
    _, text = inner(fault)
    where = f" for {generation}" if generation else ""
    if primitive := _PRIMITIVE.search(text):
        return f"Pallas cannot lower {primitive[1]} into a TPU kernel{where}; compute it outside the kernel or from other operations"
    if unsigned := _UNSIGNED.search(text):
        return f"TPU kernels have no matrix product of {unsigned[1]}, for they take all integers as signed; cast to a signed type first"
    if "acc to be 32-bit" in text:
        return "a matrix product accumulates in 32 bits; ask for preferred_element_type float32 or int32, and cast after it"
    if _FLOAT16.search(fault.message) and ("Unsupported type" in text or "Invalid vector type" in text):
        return "TPU kernels have no float16; use bfloat16 or float32"
    if "'elementType'" in text:
        return "a value has a type that TPU kernels lack, such as a complex one"
    if operation(fault) in ("tpu.matmul", "tpu.pack_subelements") and _MATMUL.search(text):
        return _product(fault, generation or "the target")
    return _operation(fault, text, generation or "the target")


def layout(fault: Fault) -> str:
    """Blocks, slices and indices that do not meet the tiles."""
    _, text = inner(fault)
    if block := _BLOCK.search(text):
        return _block(block, text)
    if tiles := _TILES.search(text):
        whose = _INPUT.search(text)
        asked = (
            f"the block {tiles['block']}{f' of {whose[1]}' if whose else ''} does not fit the tiles of {tiles['tile']}"
        )
        return f"{one_line(asked)}; each of its last two dimensions must be a multiple of the tile's or the array's own"
    if unproven := _UNPROVEN.search(text):
        asked = f"the compiler cannot see that the index in dimension {unproven[1]} of {_access(fault)} is a multiple of {unproven[2]}"
        return f"{asked}; where it is one, pl.multiple_of(index, {unproven[2]}) says so"
    if piece := _SLICE.search(text):
        dimension, tile = piece["dimension"] or piece["at"], piece["tile"] or piece["by"]
        size = f" of {piece['size']}" if piece["size"] else ""
        return f"a slice{size} along dimension {dimension} is no multiple of the tile's {tile}"
    return said(fault)


def _product(fault: Fault, who: str) -> str:
    """The element types of a matrix product that the generation lacks."""
    types = operand_types(fault)[:2] if operation(fault) == "tpu.matmul" else []
    if not types:
        return one_line(said(fault))
    asked = f"{who} has no matrix product of {' and '.join(dict.fromkeys(types))}"
    wider = "bfloat16 or float32" if types[0] not in ("float32", "bfloat16") else None
    return sentence([asked, f"cast to {wider} first" if wider else None])


def _operation(fault: Fault, text: str, who: str) -> str:
    legalized = _LEGALIZE.search(text)
    name = legalized[1] if legalized else operation(fault) if "cast your input" in text else None
    narrow = [one for one in dict.fromkeys(operand_types(fault)) if one in _NARROW]
    if name and narrow:
        return f"{who} has no {name} for {' and '.join(narrow)}; cast to a wider type first"
    return said(fault)


def _block(found: re.Match[str], text: str) -> str:
    block = _tuple(_BLOCKED.findall(found["block"])) if "Blocked" in found["block"] else found["block"]
    asked = f"the block {block} of {found['of']}, an array of {found['array']},"
    if "rank 1" in text:
        sizes = re.search(r"a multiple of (\d+)", text)
        return one_line(
            f"{asked} must be all of it, a multiple of {sizes[1] if sizes else 1024}, or a power of 2 of at least a tile"
        )
    needs = re.search(r"divisible by (\d+) and (\d+)", text)
    by = f"{needs[1]} and {needs[2]}" if needs else "8 and 128"
    return one_line(
        f"{asked} must be divisible by {by} in its last two dimensions, or be as large as the array there", 300
    )


def _tuple(sizes: list[str]) -> str:
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _access(fault: Fault) -> str:
    """The load or store, by what it moves."""
    store = "store" in (operation(fault) or "")
    vectors = re.findall(r"vector<([\dx]*)x(\w+)>", fault.message)
    shape, element = vectors[0] if store and vectors else vectors[-1] if vectors else ("", "")
    of = f" of {element}[{shape.replace('x', ',')}]" if element else ""
    return f"the {'store' if store else 'load'}{of}"
