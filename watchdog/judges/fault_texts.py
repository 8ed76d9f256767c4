"""The text of a fault, freed of what surrounds the compiler's own words; and the few facts that are read out of it.

Seen under jax 0.5.3 to 0.12.0. The same refusal comes with another class, another prefix and another request to file
a bug in each of them.
"""

from __future__ import annotations

import re

from watchdog.judges.wording import one_line
from watchdog.model import Fault

LONGEST = 220  # characters of a quoted text
_AROUND = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\s*Please (?:report a bug|file an issue)[^\n]*",
        r"\s*Please file a bug at \S+",
        r"\s*See (?:details at )?https?://\S+(?: for more details\.?)?",
        r"\n\.\.\. additional diagnostics were skipped\.",
        r"\s*\bat location: loc\(.*",
        r"Pallas encountered an internal verification error\.?\s*(?:Error details: )?",
        r"^(?:[A-Z_]+: )*Mosaic failed to compile TPU kernel(?: with MLIR module name `[^`]*` HLO name `[^`]*`)?: ",
        r"^(?:INTERNAL|INVALID_ARGUMENT|UNKNOWN|UNIMPLEMENTED|RESOURCE_EXHAUSTED|NOT_FOUND): ",
        r"\bE\d{4}: \w+:\s*",  # E2003: CompileTimeMosaicUnprovenMemoryAccessAlignment:, from 0.9.1 on
        r"\s*Transforms: \(.*\)\.",
        r"It should not be possible to run out of scoped vmem -.*",
    )
)
_TRACE = re.compile(r"\n=== Source Location Trace: ===.*", re.DOTALL)  # the compiler's own files, from 0.12.0 on
_BELOW = re.compile(
    r"\n\s*(?:The MLIR operation involved:|Additional diagnostics:|see current operation:)|: %\d+ = \"", re.DOTALL
)
_WRAPPED = re.compile(r"\A(?:\w+\.)*(\w*(?:Error|Exception)):(?:\s|\Z)")
_OPERATION = re.compile(r'(?:%[\w:#]+ = )?"(?P<name>(?!tpu_custom)[\w.]+)"\(')
_SIGNATURE = re.compile(r": \((?P<given>[^\n]*)\) -> (?P<made>[^\n]*)")
_EQUATION = re.compile(r"Failing jaxpr equation: [^=\n]*= (\w+)")
_ELEMENT = re.compile(r"vector<(?:\d+x)*([a-zA-Z]\w*)>")
_TYPES = {"f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "bf16": "bfloat16", "f16": "float16", "i1": "bool"}


def without_trace(text: str) -> str:
    """A text without the list of the compiler's own files below it."""
    return _TRACE.sub("", text)


def head(fault: Fault) -> str:
    """What was refused, with its codes and without the text of the operation below it."""
    return _BELOW.split(without_trace(fault.message), maxsplit=1)[0].strip()


def essence(fault: Fault) -> str:
    """What was refused, in the words of whoever refused it: no code, no request to file a bug."""
    text = head(fault)
    for pattern in _AROUND:
        text = pattern.sub("", text)
    return text.strip()


def inner(fault: Fault) -> tuple[str, str]:
    """Class and essence; of an exception that only repeats another's text (jax's LoweringException), the other's."""
    text = essence(fault)
    wrapped = _WRAPPED.match(text) if fault.kind.endswith("Exception") else None
    return (wrapped[1], text[wrapped.end() :].strip()) if wrapped else (fault.kind, text)


def quote(fault: Fault) -> str:
    """The error in its own words, class first."""
    kind, text = inner(fault)
    return one_line(f"{kind}: {text}" if text else kind, LONGEST)


def said(fault: Fault) -> str:
    """The error in its own words without its class, with the operation that it is about."""
    _, text = inner(fault)
    about = operation(fault)
    if not text:
        return f"{about} is not implemented" if about else "an operation is not implemented, and jax does not say which"
    mentioned = about is None or about in text
    return one_line(text.rstrip("."), LONGEST) + ("" if mentioned else f" (in {about}{_of_types(fault)})")


def operation(fault: Fault) -> str | None:
    """The operation that the compiler or jax names: `tpu.matmul`, `transpose`."""
    for pattern in (_EQUATION, _OPERATION):
        if found := pattern.search(fault.message):
            return found[1]
    return None


def operand_types(fault: Fault) -> list[str]:
    """Element types of the operation's operands as jax spells them, in order."""
    signature = _SIGNATURE.search(fault.message)
    return [type_name(element) for element in _ELEMENT.findall(signature["given"])] if signature else []


def type_name(element: str) -> str:
    """An element type of MLIR as jax spells it: `i8` is int8, `f8E5M2` float8_e5m2."""
    if element in _TYPES:
        return _TYPES[element]
    match = re.fullmatch(r"(u?)s?i(\d+)|f(\d+)", element)
    if match is None:
        return element
    return f"float{match[3]}" if match[3] else f"{'u' if match[1] else ''}int{match[2]}"


def _of_types(fault: Fault) -> str:
    types = list(dict.fromkeys(operand_types(fault)))
    return f" of {', '.join(types)}" if types else ""
