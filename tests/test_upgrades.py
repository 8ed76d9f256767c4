"""The campaign of tests/upgrades: what it calls right, missed and invented, and a short one with real compilers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.upgrades import campaign
from tests.upgrades.broken_kernels import BROKEN
from tests.upgrades.expectations import GENERATIONS, HOST, RELEASES, Answer, Finding, Watched, exists, rows, table
from tests.upgrades.sound_kernels import SOUND

from .commands import ROOT

_SOUND = Watched("k", "m:custom", "m:native", ("f32[8]",), ".")
_BROKEN = Watched("k", "m:custom", "m:native", ("f32[8]",), ".", (Finding(("missing name",), "lower", since="0.8.3"),))
_GROWS = Watched(
    "k", "m:custom", "m:native", (), ".", (Finding(("more VMEM",), "schedule", since="0.8.3", compared=True),)
)


def _verdict(status: str, aspect: str = "lower", kind: str | None = None, **more: Any) -> dict[str, Any]:
    usual = {"kernel": "k", "implementation": "custom", "pins": "0.8.3", "target": "tpu:v5e", "summary": "says why"}
    return {**usual, "status": status, "aspect": aspect, "kind": kind, **more}


def _answer(kernel: Watched, *verdicts: dict[str, Any], releases: tuple[str, ...] = ("0.8.3",)) -> Answer:
    return rows([kernel], {"verdicts": verdicts}, releases, ["v5e"])[-1].answer


def test_a_sound_kernel_of_which_nothing_is_said_is_right() -> None:
    """Whatever else passed or was compared."""
    assert _answer(_SOUND, _verdict("pass"), _verdict("improved", "schedule")) is Answer.RIGHT


def test_anything_said_against_a_sound_kernel_is_invented() -> None:
    """At its own target, and by an import, which knows no target; of native and of other targets nothing is asked."""
    assert _answer(_SOUND, _verdict("pass"), _verdict("regressed", kind="unsupported")) is Answer.INVENTED
    assert _answer(_SOUND, _verdict("regressed", "import", "missing name", target=None)) is Answer.INVENTED
    native = _verdict("regressed", kind="unsupported", implementation="native")
    elsewhere = _verdict("regressed", kind="unsupported", target="tpu:v4")
    assert _answer(_SOUND, _verdict("pass"), native, elsewhere) is Answer.RIGHT


def test_what_is_known_must_be_said_by_its_check_and_in_its_words() -> None:
    """Another kind, or the same by another check alone, is a miss; a miss outweighs what was invented beside it."""
    assert _answer(_BROKEN, _verdict("regressed", kind="missing name")) is Answer.RIGHT
    assert _answer(_BROKEN, _verdict("regressed", kind="compiler error")) is Answer.MISSED
    assert _answer(_BROKEN, _verdict("regressed", "numerics", "missing name")) is Answer.MISSED
    assert _answer(_BROKEN, _verdict("pass")) is Answer.MISSED


def test_other_checks_may_say_the_same_and_nothing_else() -> None:
    """A name that is missing is missing wherever the kernel is traced; what is wrong beside it is invented."""
    said = _verdict("regressed", kind="missing name")
    assert _answer(_BROKEN, said, _verdict("regressed", "numerics", "missing name")) is Answer.RIGHT
    assert _answer(_BROKEN, said, _verdict("regressed", "compile", "crash")) is Answer.INVENTED


def test_before_its_boundary_a_broken_kernel_is_sound() -> None:
    """Releases are ordered as numbers: 0.10.2 comes after 0.8.3."""
    early, late = _verdict("pass", pins="0.7.2"), _verdict("pass", pins="0.10.2")
    assert _answer(_BROKEN, early, releases=("0.7.2",)) is Answer.RIGHT
    assert _answer(_BROKEN, late, releases=("0.10.2",)) is Answer.MISSED


def test_a_change_needs_an_older_baseline() -> None:
    """A run that begins after the boundary has nothing to compare with."""
    assert _answer(_GROWS, _verdict("pass", "schedule")) is Answer.RIGHT
    assert _answer(_GROWS, _verdict("pass", "schedule"), releases=("0.7.2", "0.8.3")) is Answer.MISSED


def test_silence_is_not_called_right() -> None:
    """All skipped, or only imported: nothing is known of the kernel there."""
    assert _answer(_SOUND, _verdict("skipped")) is Answer.UNKNOWN
    assert _answer(_SOUND, _verdict("pass", "import", target=None)) is Answer.UNKNOWN


def test_where_nothing_can_be_said_silence_is_right_and_a_finding_is_not() -> None:
    """What no interpreter can run is no fault of the kernel."""
    kernel = replace(_SOUND, unanswerable=("v5e",))
    assert _answer(kernel, _verdict("skipped")) is Answer.RIGHT
    assert _answer(kernel, _verdict("regressed", "numerics", "unsupported")) is Answer.INVENTED


def test_a_generation_is_asked_only_of_compilers_that_know_it() -> None:
    """libtpu describes a tpu7x from jax 0.8.1 on."""
    assert [release for release in RELEASES if not exists(release, "tpu7x")] == ["0.5.3", "0.6.2", "0.7.2"]
    assert not exists("0.8.0", "tpu7x")
    assert exists("0.8.1", "tpu7x")


def test_the_table_has_the_sentences_of_what_was_said() -> None:
    """One line for a row, and the first sentences below it."""
    found = rows([_BROKEN], {"verdicts": [_verdict("regressed", kind="missing name")]}, ["0.8.3"], ["v5e"])
    line, sentence = table(found)
    assert line.split()[:4] == ["right", "0.8.3", "v5e", "k"]
    assert sentence.strip() == "lower: missing name: says why"


def test_every_kernel_has_a_name_and_a_module_of_its_own() -> None:
    """Two of one name would be compared with each other's expectations; all lie in this folder."""
    names = Counter(one.name for one in (*SOUND, *BROKEN))
    assert set(names.values()) == {1}
    folder = Path(campaign.__file__).parent
    for one in (*SOUND, *BROKEN):
        assert (folder / f"{one.custom.partition(':')[0].replace('.', '/')}.py").is_file()


def test_every_fault_is_one_that_some_release_and_generation_shows() -> None:
    """An expectation that holds nowhere would never be missed."""
    for kernel in BROKEN:
        for finding in kernel.findings:
            shown = [
                (release, target)
                for release in (*RELEASES, finding.since)
                for target in (HOST, *GENERATIONS)
                if finding.holds(release, target, RELEASES[0])
            ]
            assert shown, (kernel.name, finding)


@pytest.mark.real
def test_a_short_campaign_finds_all_that_is_known_and_nothing_else(tmp_path: Path) -> None:
    """A sound kernel, a name that moved, and memory that one generation has and another lacks."""
    kernels = ("softmax", "tpu_memory_space", "large_scratch")
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "tests.upgrades", "--folder", str(tmp_path)),
            *("--releases", "0.8.3", "--generations", "v3", "v5e", "--kernels", *kernels),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    answers = Counter(line.split()[0] for line in finished.stdout.splitlines() if not line.startswith(" "))
    assert answers["right"] == 3 * 3
    assert "out of VMEM" in finished.stdout
    assert "pltpu.TPUMemorySpace is not in jax 0.8.3" in finished.stdout
