"""The contract with an environment, and the document for other programs."""

import importlib.util
import json
import math
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from watchdog.model import (
    Amount,
    Cell,
    Check,
    Environment,
    Fault,
    Figure,
    Observation,
    Outcome,
    Package,
    Status,
    Suspect,
    Verdict,
)
from watchdog.records import (
    Ended,
    Observed,
    Started,
    Unreadable,
    decode_numbers,
    encode_numbers,
    mend,
    parse_line,
    run_to_json,
    verdict_to_json,
)
from watchdog.rooms import room

CELL = Cell("flash", "custom", "small", "next", "host", Check.MEMORY)
CELLS = {0: CELL, 7: Cell("flash", "custom", "", "next", "", Check.IMPORT)}
SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "run.schema.json").read_text(encoding="utf-8"))

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).filter(
    lambda value: value not in ("nan", "inf", "-inf")
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
series = st.lists(st.floats(), max_size=5) | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)


def observation_line(**changes: Any) -> str:
    """A good line of one observation, with these keys changed."""
    document = {"event": "observation", "cell": 0, "outcome": "observed", "reason": None, "fault": None, "data": {}}
    return json.dumps({**document, "series": {}, "log_tail": "", "seconds": 0.4, **changes})


def emitter() -> ModuleType:
    """The environment's own writer of lines, loaded by path as an environment does."""
    spec = importlib.util.spec_from_file_location("emit_of_checks", room("checks") / "emit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def as_comparable(value: Any) -> Any:
    """The value with every NaN as a word, because NaN differs from itself; 1 and 1.0 stay apart."""
    match value:
        case float():
            return ("float", str(value))
        case dict():
            return {key: as_comparable(item) for key, item in value.items()}
        case list() | tuple():
            return [as_comparable(item) for item in value]
    return value


class TestParseLine:
    def test_the_three_events_of_the_contract_are_read(self) -> None:
        """A start, an observation and an end come back as the values they stand for."""
        fault = {"kind": "ImportError", "message": "No module", "where": None, "traceback": "…", "missing": "absl"}
        line = observation_line(outcome="failed", fault=fault, data={"n": 1}, series={"s": [1, 2]}, log_tail="tail")

        assert parse_line('{"event": "start", "cell": 7}', CELLS) == Started(CELLS[7])
        assert parse_line('{"event": "end"}', CELLS) == Ended()
        assert parse_line(line, CELLS) == Observed(
            Observation(
                CELL,
                Outcome.FAILED,
                fault=Fault("ImportError", "No module", None, "…", "absl"),
                data={"n": 1},
                series={"s": (1, 2)},
                log_tail="tail",
                seconds=0.4,
            )
        )

    @given(data=st.dictionaries(text, json_values, max_size=3), signals=st.dictionaries(text, series, max_size=3))
    def test_what_an_environment_emits_is_what_is_read(self, data: dict[str, Any], signals: dict[str, Any]) -> None:
        """`checks/emit.py` and this parser agree on every number and text, NaN and infinities included."""
        emit = emitter()
        read_end, write_end = os.pipe()
        with open(read_end, encoding="utf-8") as lines:  # noqa: PTH123  # a descriptor has no path
            emit.Stream(write_end).observed(0, emit.Observed("observed", data=data, series=signals), "log", 1.5)
            os.close(write_end)
            line = parse_line(lines.read(), CELLS)

        assert isinstance(line, Observed)
        assert as_comparable(line.observation.data) == as_comparable(data)
        assert as_comparable(line.observation.series) == as_comparable(signals)

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("", "not JSON"),
            ("Segmentation fault (core dumped)", "not JSON"),
            (observation_line()[:40], "not JSON"),
            ("[" * 100_000, "not JSON"),
            ("9" * 5_000, "not JSON"),
            ("[]", "must be an object"),
            ("null", "must be an object"),
            ("{}", "unknown event None"),
            ('{"event": ["start"], "cell": 0}', "unknown event"),
            ('{"event": "start"}', "cell must be a number"),
            ('{"event": "start", "cell": true}', "cell must be a number"),
            ('{"event": "start", "cell": "0"}', "cell must be a number"),
            ('{"event": "start", "cell": 0.0}', "cell must be a number"),
            ('{"event": "start", "cell": 3}', "not in the plan"),
            ('{"event": "start", "cell": -1}', "not in the plan"),
            ('{"event": "start", "cell": 0, "also": 1}', "unknown key 'also'"),
            ('{"event": "end", "cell": 0}', "unknown key 'cell'"),
            (observation_line(cell=99), "not in the plan"),
            (observation_line(outcome="fine"), "unknown outcome 'fine'"),
            (observation_line(outcome=["observed"]), "unknown outcome"),
            (observation_line(outcome={}), "unknown outcome"),
            (observation_line(outcome="failed"), "without a fault"),
            (observation_line(outcome="skipped"), "without a reason"),
            (observation_line(outcome="failed", fault="boom"), "fault must be an object"),
            (observation_line(outcome="failed", fault={"kind": "E"}), "fault.message must be text"),
            (observation_line(outcome="failed", fault={"kind": "E", "message": "m", "x": 1}), "unknown key 'x'"),
            (observation_line(reason=5), "reason must be text"),
            (observation_line(data=[]), "data must be an object"),
            (observation_line(data={"a": json.loads("[" * 60 + "]" * 60)}), "levels deep"),
            (observation_line(series={"s": 1}), "series.s must be a list"),
            (observation_line(series={"s": [1, "many"]}), "not a number"),
            (observation_line(series={"s": [True]}), "not a number"),
            (observation_line(series={"s": [None]}), "not a number"),
            (observation_line(series={"s": [2**63]}), "not a number"),
            (observation_line(seconds=-1), "seconds must be"),
            (observation_line(seconds=math.nan), "NaN is not JSON"),
            (observation_line(seconds="nan"), "seconds must be"),
            (observation_line(seconds=True), "seconds must be"),
            (observation_line(log_tail=None), "log_tail must be text"),
            (observation_line(extra=1), "unknown key 'extra'"),
        ],
    )
    def test_a_line_that_is_not_ours_is_a_value(self, line: str, reason: str) -> None:
        """Garbage, half lines, forged cells and wrong types never raise; the reason says what is wrong."""
        parsed = parse_line(line, CELLS)

        assert isinstance(parsed, Unreadable)
        assert reason in parsed.reason

    @given(st.text() | json_values.map(json.dumps))
    def test_no_text_makes_the_parser_raise(self, line: str) -> None:
        """Whatever is printed where a line is due, the answer is a value."""
        assert isinstance(parse_line(line, CELLS), Unreadable)

    def test_a_huge_line_is_not_kept_whole(self) -> None:
        """Of a line that cannot be read only the beginning is kept."""
        parsed = parse_line("x" * 1_000_000, CELLS)

        assert isinstance(parsed, Unreadable)
        assert len(parsed.text) < 1_000

    def test_half_surrogates_are_mended(self) -> None:
        """Text that could not be written to any file becomes text that can, and a whole pair becomes its character."""
        line = '{"event": "observation", "cell": 0, "outcome": "observed", "log_tail": "a\\ud800b\\u0000c", "data": {"\\udc00": "\\ud83d\\ude00"}}'
        parsed = parse_line(line, CELLS)

        assert isinstance(parsed, Observed)
        assert parsed.observation.log_tail == "a\ufffdb\ufffdc"
        assert parsed.observation.data == {"\ufffd": "😀"}


class TestNumbers:
    @given(st.dictionaries(text, json_values, max_size=4))
    def test_encoding_numbers_is_strict_json_and_loses_nothing(self, value: dict[str, Any]) -> None:
        """Encoded values pass a strict JSON writer, and decoding gives what was encoded."""
        written = json.dumps(encode_numbers(value), allow_nan=False)

        assert as_comparable(decode_numbers(json.loads(written))) == as_comparable(value)

    @given(st.text())
    def test_mended_text_can_be_written(self, value: str) -> None:
        """Mended text is UTF-8 without NUL, and good text is unchanged."""
        mended = mend(value)

        assert b"\0" not in mended.encode()
        assert mended == value or "\0" in value or any("\ud800" <= char <= "\udfff" for char in value)


numbers = st.floats() | st.integers(-(2**60), 2**60)
maybe_text = st.none() | text
cells = st.builds(
    Cell, text, text, text, text.filter(bool), st.sampled_from(["", "host", "tpu:v5e"]), st.sampled_from(Check), text
)
verdicts = st.builds(
    Verdict,
    cells,
    st.sampled_from(Status),
    text.filter(bool),
    baseline=maybe_text,
    signal=maybe_text,
    kind=maybe_text,
    suspect=st.none() | st.sampled_from(Suspect),
    figure=st.none() | st.builds(Figure, numbers, numbers, numbers, text),
    detectable=st.none() | st.builds(Amount, numbers, text),
    where=maybe_text,
)


def environment(
    pins: str, *packages: tuple[str, str], kernels: tuple[str, ...] = (), lock: str = "sha256:1"
) -> Environment:
    """An environment with these packages."""
    return Environment(pins, kernels, lock, "", "3.11.7", tuple(Package(*package) for package in packages))


class TestDocument:
    def test_a_verdict_reads_as_the_design_shows_it(self) -> None:
        """The design's own example comes out key for key."""
        verdict = Verdict(
            Cell("flash_attention", "custom", "prefill_2k_causal", "next", "host", Check.MEMORY, "steady"),
            Status.REGRESSED,
            "leaks one 16 KiB array per call, kept alive by _cache in my_kernel.py:12",
            baseline="current",
            signal="device_bytes",
            kind="leak",
            suspect=Suspect.KERNEL,
            figure=Figure.exact(16384.0, "B/call"),
            detectable=Amount(32, "B/call"),
            where="my_kernel.py:12",
        )

        assert json.loads(json.dumps(verdict_to_json(verdict))) == {
            "id": "flash_attention/custom/prefill_2k_causal/next/host/memory/steady/device_bytes",
            "kernel": "flash_attention",
            "implementation": "custom",
            "case": "prefill_2k_causal",
            "pins": "next",
            "baseline": "current",
            "target": "host",
            "aspect": "memory",
            "scenario": "steady",
            "signal": "device_bytes",
            "status": "regressed",
            "kind": "leak",
            "suspect": "kernel",
            "figure": {"value": 16384, "low": 16384, "high": 16384, "unit": "B/call"},
            "detectable": {"value": 32, "unit": "B/call"},
            "where": "my_kernel.py:12",
            "summary": "leaks one 16 KiB array per call, kept alive by _cache in my_kernel.py:12",
        }
        assert '"value": 16384,' in json.dumps(verdict_to_json(verdict)), "a whole number has no fraction"

    def test_what_does_not_apply_is_null(self) -> None:
        """An installation has no implementation, case or target, and no figure."""
        written = verdict_to_json(Verdict(Cell("", "", "", "next", "", Check.INSTALL), Status.PASS, "installed"))

        assert {key for key, value in written.items() if value is None} == {
            *("kernel", "implementation", "case", "target", "baseline", "scenario", "signal", "kind", "suspect"),
            *("figure", "detectable", "where"),
        }

    @given(st.lists(verdicts, max_size=3), st.integers(0, 3))
    def test_every_document_follows_the_schema(self, some: list[Verdict], exit_code: int) -> None:
        """Whatever was judged, the document is strict JSON and valid against docs/run.schema.json."""
        environments = [environment("next", ("jax", "0.10.2")), environment("broken", lock="")]
        document = run_to_json("2026-01-31T02:00:00Z-7f3a", exit_code, environments, some, baseline=[])

        Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document, allow_nan=False)))

    @pytest.mark.parametrize(
        "change",
        [
            {"extra": 1},
            {"schema": 2},
            {"run": "yesterday"},
            {"environments": [{"pins": "next"}]},
            {"environments": [{"pins": "next", "lock": None, "packages": {}, "changed": [["jax", "1"]]}]},
            {"verdicts": [{}]},
        ],
    )
    def test_the_schema_refuses_what_the_design_does_not_allow(self, change: dict[str, Any]) -> None:
        """The schema is strict: further keys, other versions and half entries are invalid."""
        good = run_to_json("2026-01-31T02:00:00Z-7f3a", 0, [], [], baseline=[])

        Draft202012Validator.check_schema(SCHEMA)
        assert Draft202012Validator(SCHEMA).is_valid(good)
        assert not Draft202012Validator(SCHEMA).is_valid({**good, **change})

    def test_changes_are_those_against_the_same_kernels_of_the_baseline(self) -> None:
        """An environment is compared with the baseline's for the same kernels, before one that all share."""
        shared = environment("current", ("jax", "1"))
        own = environment("current", ("jax", "1"), ("mine", "2"), kernels=("k",))
        new = environment("next", ("jax", "3"), ("mine", "2"), kernels=("k",))
        document = run_to_json("r", 0, [shared, own, new], [], baseline=[shared, own])

        assert [entry["changed"] for entry in document["environments"]] == [[], [], [["jax", "1", "3"]]]

    def test_pins_that_did_not_resolve_have_no_lock_and_no_changes(self) -> None:
        """Nothing is said to have been removed when nothing could be installed."""
        document = run_to_json(
            "r", 1, [environment("next", lock="")], [], baseline=[environment("current", ("jax", "1"))]
        )

        assert document["environments"] == [{"pins": "next", "lock": None, "packages": {}, "changed": []}]
