"""The class of a fault, found by its text: classes of exceptions change their names between releases, texts less so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from watchdog.judges.callbacks import unwrapped
from watchdog.judges.fault_texts import head
from watchdog.model import Check, Fault, Observation, Outcome

PINS_MISMATCH = "pins mismatch"

# What can only mean that two of the packages do not fit.
_VERSIONS_DO_NOT_FIT = (
    r"at most a month old",
    r"Unsupported (?:Mosaic )?version: expected <= ?\d+ but got",
    r"Failed to deserialize the Mosaic module",
    r"version incompatibility between the Mosaic kernel and the compiler",
    r"Failed to parse using StableHLO",
    r"incompatible (?:jaxlib|libtpu|PJRT)",
    r"jaxlib (?:is )?version [^\n]{0,80}(?:newer|older|incompatible|requires)",
    r"jax requires jaxlib",
)
# What mostly means it, and is something else where the same pins compile a trivial kernel.
_VERSIONS_MAY_NOT_FIT = (
    r"StableHLO[^\n]{0,80}\bversion",
    r"(?:unregistered|unknown|unsupported|parse)[^\n]{0,80}\bsdy\b",
    r"\bsdy\b[^\n]{0,80}(?:unregistered|unknown|unsupported|parse|bytecode)",
    r"(?:pars(?:e|ing)|convert)[^\n]{0,80}(?:backend.config|JSON)",
    r"Failed to retrieve the config\.",
    r"partially initialized module 'jax\b",
)
_WRONG_ARGUMENT = (
    r"unexpected keyword argument",
    r"missing \d+ required",
    r"positional argument",
    r"multiple values for",
    r"Unknown backend in compiler_params",
)
_LAYOUT = (
    r"divisible by \d+ and \d+",
    r"rank 1 block shapes",
    r"divisible by (?:the )?til(?:e|ing)",
    r"cannot statically prove that index",
    r"aligned to til",
    r"\b(?:un|mis)?-?aligned\b|\balignment\b",
    r"unsupported (?:\w+ )?(?:layout|offset|tiling|implicit dim)",
    r"\binvalid (?:layout|relayout|offsets?)\b",
    r"\brelayout|layout (?:change|mismatch)|incompatible layout",
    r"shape cast|shape_cast|infer-vector-layout|apply-vector-layout",
    r"perfectly packed or unpacked",
    r"last dim size is not \d+",
)
_UNSUPPORTED = (
    r"NotImplementedError|UNIMPLEMENTED|not[ _]implemented|Unimplemented primitive",
    r"unsupported|not supported|does(?: not|n't) support|are supported\b|integer iota supported|only supports?\b",
    r"failed to legalize operation",
    r"Bad lhs/rhs type|float acc with int lhs|Expected matmul acc to be 32-bit",
    r"Invalid vector type for load",
    r"failed to verify 'elementType'",
    r"op expected strides|op result #\d+ must be|VerificationError",
    r"Cannot store scalars to VMEM|Loads are only allowed on",
    r"Unexpected instruction for this chip",
)
# The first that is found in the error's class and head names the kind; the order matters.
_KINDS = tuple(
    (kind, re.compile("|".join(patterns), re.IGNORECASE))
    for kind, patterns in (
        ("device busy", (r"TPU is already in use|libtpu_lockfile",)),
        ("out of VMEM", (r"ScopedVmemOom|memory space vmem|scoped vmem|space=vmem",)),
        ("out of SMEM", (r"SmemOom|memory space (?:smem|sflag)|space=(?:smem|sflag)",)),
        ("out of HBM", (r"HbmOom|memory (?:space|on) hbm|exceeds available HBM|space=hbm|enough device memory",)),
        ("out of device memory", (r"RESOURCE_EXHAUSTED|Ran out of memory",)),
        ("missing dependency", (r"ModuleNotFoundError|No module named|cannot open shared object file",)),
        ("missing name", (r"AttributeError|cannot import name|NameError|was removed in JAX",)),
        ("wrong argument", _WRONG_ARGUMENT),
        ("layout or alignment", _LAYOUT),
        ("unsupported", _UNSUPPORTED),
        ("out of bounds", (r"IndexError|out[- ]of[- ]bounds|out of range",)),
        ("wrong type or shape", (r"TypeError|ValueError|Tracer\w+Error|ConcretizationTypeError|INVALID_ARGUMENT",)),
        ("compiler error", (r"INTERNAL:|MosaicError|Mosaic failed|XlaRuntimeError|JaxRuntimeError|RET_CHECK",)),
    )
)
_INSTALL_KINDS = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("no network", r"error sending request|dns error|failed to (?:connect|lookup)|connection (?:refused|reset)"),
        ("unresolvable", r"No solution found|unsatisfiable|no version of"),
        (
            "build failure",
            r"Failed to build|build backend|no matching wheel|doesn't have a (?:source distribution or )?wheel",
        ),
        ("differs from lock", r"\block\b"),
    )
)
_BY_OUTCOME = {Outcome.CRASHED: "crash", Outcome.HUNG: "time limit", Outcome.OUT_OF_MEMORY: "memory limit"}
_CERTAIN = re.compile("|".join(_VERSIONS_DO_NOT_FIT), re.IGNORECASE)
_LIKELY = re.compile("|".join((*_VERSIONS_DO_NOT_FIT, *_VERSIONS_MAY_NOT_FIT)), re.IGNORECASE)


def fault_of(observation: Observation) -> Fault:
    """What went wrong; where a callback raised it, what the callback raised."""
    return unwrapped(observation.fault or Fault(kind=observation.outcome.value, message=""))


def kind_of(observation: Observation) -> str:
    """The class of a fault, in the few words that verdicts use."""
    fault = fault_of(observation)
    if observation.outcome in (Outcome.FAILED, Outcome.CRASHED) and not _fit(observation, fault):
        return PINS_MISMATCH
    if observation.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[observation.outcome]
    if observation.cell.check is Check.INSTALL:
        return _first(_INSTALL_KINDS, f"{fault.kind}: {fault.message}") or "not installed"
    told = f"{fault.kind}: {head(fault)}"
    return _first(_KINDS, told) or _first(_KINDS, f"{fault.kind}: {fault.message}") or "error"


def _fit(observation: Observation, fault: Fault) -> bool:
    """Whether jax, jaxlib and libtpu fit together: as a trivial kernel of the same pins shows, else as the text says."""
    toolchain = observation.data.get("toolchain")
    fits = toolchain.get("fits") if isinstance(toolchain, Mapping) else None
    if fits is False:
        return False
    text = f"{fault.kind}: {fault.message}"
    if observation.outcome is Outcome.CRASHED:  # an aborting compiler leaves its reason in the log alone
        text += observation.log_tail
    return not (_CERTAIN if fits else _LIKELY).search(text)


def _first(kinds: tuple[tuple[str, re.Pattern[str]], ...], text: str) -> str | None:
    return next((kind for kind, pattern in kinds if pattern.search(text)), None)
