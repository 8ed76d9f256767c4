"""How is the compiled kernel scheduled? Compiled once more, in a process of its own, with the compiler's dump on."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

from .. import compiler, dump
from ..emit import Observed
from ..faults import NotHereError, at, observe
from ..isolation import in_child
from ..subject import Subject

# libtpu 0.0.32.1 aborts after it has written the schedule, for want of a template that its wheel does not hold.
_KNOWN_ABORT = "vmem_report_header.tmpl"


def probe(subject: Subject) -> Observed:
    """The figures of every program in the dump. The dump's own faults are never the kernel's."""
    folder = subject.plan.scratch / f"{subject.cell.number}.dump"
    folder.mkdir()
    compiled = in_child(lambda: _observed(subject, folder))
    if compiled.outcome in ("failed", "skipped"):
        return compiled
    found = dump.read(folder)
    if compiled.outcome == "crashed":
        assert compiled.fault is not None
        found = found.with_note(_about_the_abort(subject, compiled.fault.kind))
    if not found.programs:
        libtpu = importlib.metadata.version("libtpu")
        message = f"libtpu {libtpu} wrote no schedule: {'; '.join(found.notes) or 'nothing in its dump'}"
        raise NotHereError(message)
    return Observed("observed", data=found.to_json())


def _observed(subject: Subject, folder: Path) -> Observed:
    asked = subject.plan.asked
    return observe(subject.cell.check, asked, subject.module, lambda: _compile_with_dump(subject, folder))


def _compile_with_dump(subject: Subject, folder: Path) -> Observed:
    os.environ["LIBTPU_INIT_ARGS"] = dump.flags(folder)
    with compiler.compiling_for(subject.cell.target) as sharding:
        lowered = subject.lowered(subject.traced(sharding))
        with at("compile"):
            lowered.compile()
    return Observed("observed")


def _about_the_abort(subject: Subject, kind: str) -> str:
    log = (subject.plan.scratch / f"{subject.cell.number}.log").read_bytes()
    if _KNOWN_ABORT.encode() in log:
        return "this libtpu aborts when it has written its dump; what it wrote was read"
    return f"the compiler died while writing its dump ({kind})"
