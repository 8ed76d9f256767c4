"""Fingerprints: the same program has the same one wherever its source stands, and another program another."""

from __future__ import annotations

import pytest

from tests.inside import checks

artefacts = checks("artefacts")

PROGRAM = (
    "ENTRY %main (x: f32[8]) -> f32[8] {\n  %add.1 = f32[8] add(%x, %x), metadata={op_name=NAME source_line=LINE}\n}\n"
)
TABLES = 'FileNames\n1 "FILE"\n\nFileLocations\n1 {file_name_id=1 line=LINE}\n\nStackFrames\n1 {parent=LINE}\n\n'
CONFIG = r"backend_config = \22{\22needs_layout_passes\22: true, \22debug_locations\22: \22PLACES\22}\22"


def fill(text: str, **parts: str) -> str:
    for name, value in parts.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("text", [PROGRAM, TABLES + PROGRAM, CONFIG])
def test_places_do_not_count(text: str) -> None:
    """Names of operations, files, lines and the locations beside a kernel's body are left out."""
    here = fill(text, NAME='"jit(f)/add"', LINE="3", FILE="/a/kernel.py", PLACES="TUzvUg==")
    there = fill(text, NAME='"jit(g)/add"', LINE="40", FILE="/b/other.py", PLACES="AAAA")
    assert artefacts.fingerprint(here) == artefacts.fingerprint(there) is not None


def test_everything_else_counts() -> None:
    """Another operation, shape or option is another program."""
    texts = [PROGRAM, PROGRAM.replace(" add(", " multiply("), PROGRAM.replace("f32", "bf16"), CONFIG]
    assert len({artefacts.fingerprint(text) for text in texts}) == len(texts)
    assert artefacts.fingerprint(CONFIG) != artefacts.fingerprint(CONFIG.replace("true", "false"))
