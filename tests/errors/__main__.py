"""Collects the errors of `programs` from environments that hold `jax[tpu]`, into the corpus beside this file.

    python -m tests.errors PYTHON …

Each `PYTHON` is an environment's interpreter: of a promised release, or of pins that do not fit together, of which only
the program that nothing is wrong with is asked. Takes one to three minutes for a release. What the corpus says an error
is (`expected`) is written here, by hand: look at the change before it is committed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.commands import ROOT

HERE = Path(__file__).resolve().parent
SOUND = "nothing_wrong"  # the program that fails where the pins do not fit, and nowhere else
_LONGEST = 1_200  # characters of a message that are stored: what comes after is the compiler's own dump
_LOG = 1_500  # characters of a log's end
_SECONDS = 1_800
_FITTING = {  # jax → the libtpu that it was released with
    "0.5.3": "0.0.11",
    "0.6.2": "0.0.17",
    "0.7.2": "0.0.23",
    "0.8.3": "0.0.32",
    "0.9.2": "0.0.37",
    "0.10.2": "0.0.42",
    "0.11.0": "0.0.44",
    "0.12.0": "0.0.50",
}
# Where a program meets something else than what it is about: program, a pattern of the message, and the class of that.
_OTHERWISE = (
    ("atomic_add", r"Unimplemented primitive", "unsupported"),
    ("captured_constant", r"captures constants", "wrong type or shape"),
    ("scatter", r"captures constants", "wrong type or shape"),
    ("convolution", r"Shape mismatch", "wrong type or shape"),
    ("convolution", r"vmem", "out of VMEM"),
    ("strided_value", r"Shape mismatch", "wrong type or shape"),
    ("transposed_\\w+", r"32-bit transposes|Unsupported type", "unsupported"),
    ("strided_columns", r"Strided load", "unsupported"),
    ("strided_rows_of_bfloat16", r"last dim size", "layout or alignment"),
    ("dot_of_three_dimensions", r"shape.cast", "layout or alignment"),
    ("odd_slices", r"bitwidth != 32", "unsupported"),
    ("many_semaphores", r"does not support DMAs", "unsupported"),
    ("huge_argument", r"RET_CHECK", "compiler error"),
    ("parameters_in_a_dictionary", r"Unknown backend", "wrong argument"),
)


def main(interpreters: Sequence[str]) -> int:
    """Returns the exit code: 0 when every environment was asked."""
    for interpreter in interpreters:
        entries = list(_stored(_ask(interpreter)))
        if not entries:
            sys.stderr.write(f"{interpreter}: nothing failed there\n")
            continue
        path = HERE / f"{_name(entries[0])}.json"
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        sys.stderr.write(f"wrote {path.name}: {len(entries)} errors\n")
    return 0


def corpus() -> list[dict[str, Any]]:
    """Every stored error."""
    return [entry for path in sorted(HERE.glob("*.json")) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _ask(interpreter: str) -> list[dict[str, Any]]:
    versions = "import importlib.metadata as m; print(*map(m.version, ('jax', 'jaxlib', 'libtpu')))"
    jax, jaxlib, libtpu = _output(interpreter, "-c", versions).split()
    fit = jax == jaxlib and libtpu.startswith(_FITTING.get(jax, "none of these"))
    asked = _output(interpreter, str(HERE / "provoke.py"), str(ROOT / "checks"), *([] if fit else [SOUND]))
    return [_without_paths(line) for line in asked.splitlines()]


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS).stdout


def _without_paths(line: str) -> dict[str, Any]:
    """The error, with this machine's folders written as `/srv/…`."""
    text = line.replace(str(ROOT), "/srv/project")
    entry: dict[str, Any] = json.loads(
        re.sub(r"/[^\s\"'()]*?/(?=(?:lib/python3[.\d]*/)?site-packages/)", "/srv/env/", text)
    )
    return entry


def _stored(entries: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """With the class that each is, and each text once for several generations."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        short = {**entry, "message": entry["message"][:_LONGEST], "expected": _expected(entry)}
        if "log" in entry:
            short["log"] = entry["log"][-_LOG:]
        del short["generation"], short["about"]
        key = (
            entry["program"],
            re.sub(r"[%#]\w*\d+", "", short["message"]) if "log" not in entry else entry["generation"],
        )
        kept = seen.setdefault(key, {**short, "generations": []})
        kept["generations"].append(entry["generation"])
    yield from seen.values()


def _expected(entry: dict[str, Any]) -> str:
    if entry["outcome"] == "crashed":
        return "crash"
    for program, message, kind in _OTHERWISE:
        if re.fullmatch(program, entry["program"]) and re.search(message, entry["message"]):
            return kind
    return str(entry["about"])


def _name(entry: dict[str, Any]) -> str:
    name = f"jax-{entry['jax']}"
    if entry["jaxlib"] != entry["jax"]:
        name += f"-jaxlib-{entry['jaxlib']}"
    return (
        name
        if entry["libtpu"].startswith(_FITTING.get(entry["jax"], "none of these"))
        else f"{name}-libtpu-{entry['libtpu']}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
