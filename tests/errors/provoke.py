"""Provokes the errors of `programs` in one environment, and prints them as JSON. Run by `python -m tests.errors`.

    python provoke.py CHECKS [NAME …]

`CHECKS` is the folder of the checks, which describe an error as they do in a run. A compiler that dies leaves the end
of its log.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

_PACKAGE = "_watchdog_checks"
_MESSAGE = 6_000  # characters of a message that are kept
_LOG = 16_384  # bytes, as in a run
_SECONDS = 40  # for one program; some compilers take minutes over what others refuse at once
HERE = Path(__file__).parent


def main(folder: str, names: list[str]) -> None:
    """Ask every program for each of its generations, in one child as long as it lives."""
    _load(Path(folder))
    os.environ.update(_checks("compiler").environment("cpu"))
    sys.path.insert(0, str(HERE))
    log = tempfile.TemporaryFile()  # noqa: SIM115  # for the whole process
    progress = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        programs = importlib.import_module("programs").PROGRAMS
    except Exception as error:  # noqa: BLE001  # jax does not import: nothing else can be asked
        return _tell_of_import(error)
    worker = _checks("isolation").Worker(_answer)
    releases = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}
    for name, program in programs.items():
        if names and name not in names:
            continue
        for generation in program.generations:
            log.seek(0)
            log.truncate()
            observed = worker.ask([name, generation])
            os.write(progress, f"{name} {generation}: {observed.outcome}\n".encode())
            timed_out = observed.fault is not None and "SIGALRM" in observed.fault.kind
            if observed.outcome in ("failed", "crashed") and not timed_out:
                _tell(observed, {**releases, "generation": generation, "program": name, "about": program.about}, log)
    worker.end()
    return None


def _tell_of_import(error: Exception) -> None:
    fault = _checks("faults").describe(error, "programs")
    releases = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}
    entry = {**releases, "generation": "v5e", "program": "nothing_wrong", "about": "pins mismatch", "outcome": "failed"}
    _write({**entry, "stage": "import", **_described(fault)})


def _tell(observed: Any, known: dict[str, Any], log: Any) -> None:
    fault = observed.fault
    entry = {**known, "outcome": observed.outcome, "stage": observed.data.get("stage", "compile")}
    entry |= _described(fault)
    if observed.outcome == "crashed":
        log.seek(0)
        entry["log"] = log.read()[-_LOG:].decode(errors="replace")
    _write(entry)


def _write(entry: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


def _described(fault: Any) -> dict[str, Any]:
    return {"class": fault.kind, "message": fault.message[:_MESSAGE], "missing": fault.missing}


def _answer(question: Any) -> Any:
    """In the child: what comes of one program for one generation."""
    name, generation = question
    signal.alarm(_SECONDS)
    os.dup2(2, 1)  # compilers print, and standard output is for the answers
    faults, emit = _checks("faults"), _checks("emit")
    program = importlib.import_module("programs").PROGRAMS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _compile(program, generation)
    except faults.NotHereError as reason:
        return emit.Observed("skipped", reason=str(reason))
    except faults.StageError as error:
        fault = faults.describe(error.cause, "programs")
        return emit.Observed("failed", fault=fault, data={"stage": error.stage})
    return emit.Observed("observed")


def _compile(program: Any, generation: str) -> None:
    import jax  # noqa: PLC0415  # in the child, after the environment was set

    at = _checks("faults").at
    with _checks("compiler").compiling_for(f"tpu:{generation}") as sharding:
        shapes = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype in program.arguments]
        jax.clear_caches()
        with at("trace"):
            traced = jax.jit(program.function).trace(*shapes)
        with at("lower"):
            lowered = traced.lower(lowering_platforms=("tpu",))
        with at("compile"):
            lowered.compile()


def _checks(module: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{module}")


def _load(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
