"""The campaign beside other tools: what their reports mean, how answers are counted, and a short campaign for real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.leak_table import asv_tool, corpus_table, ours, pytest_tools, table, witness
from tests.leak_table.campaign import Answer, Parameters, Said, Truth, opened, planted_bytes, share_off
from tests.projects import ROOT
from tests.written import markers, put
from watchdog.model import HOST, Cell, Check, Scenario
from watchdog.selftest import PLANTS

BEGIN, END = markers(table.NAME)

BY_NAME = {plant.implementation: plant for plant in PLANTS}
CELL = Cell("planted_leaks", "large_malloc", "f32_64x64", "jax-0.10.2", HOST, Check.MEMORY, "eager")

MEMRAY = """List of leaked allocations:
    - 15.6MiB allocated here:
        operator new(unsigned long):<unknown>:0
        keep_large_malloc:/a/kernels/planted_leaks/leaks.py:{line}
        double_and_leak:/a/kernels/planted_leaks/planted.py:20
    - 40.0KiB allocated here:
        elsewhere:/a/b.py:1
"""

PSLEAK = """memory kept increasing after 10 runs
Run # 1: heap=+3787264 | uss=+3416064 | rss=+3416064        (calls= 200, avg/call=+18936)
Run #10: heap=+145559232 | uss=+148017152 | vms=+148025344 (calls=7683, avg/call=+18945)"""

ASV = """
All benchmarks:

| Change   | Before [a3c4cb8f] <main~1>   | After [6286dbc8] <main>   | Ratio   | Benchmark (Parameter)                          |
|----------|------------------------------|---------------------------|---------|------------------------------------------------|
| +        | 247M                         | 410M                      | 1.66    | cells.Cells.peakmem_calls('buffer.eager')      |
|          | 218M                         | 219M                      | 1.0     | cells.Cells.peakmem_calls('descriptor.eager')  |
| -        | 300M                         | 219M                      | 0.7     | cells.Cells.peakmem_calls('softmax.steady')    |
|          | n/a                          | n/a                       | n/a     | cells.Cells.peakmem_calls('draw.grad')         |
| !        | 220M                         | failed                    | n/a     | cells.Cells.peakmem_calls('thread.eager')      |
"""


def memray_line(outcome: str = "failed", *, sections: Any = None, calls: int = 1000) -> dict[str, Any]:
    line = BY_NAME["large_malloc"].line().rpartition(":")[2]
    report = [["memray-leaked-memory", MEMRAY.format(line=line)]] if sections is None else sections
    return {"number": 0, "outcome": outcome, "sections": report, "calls": calls, "seconds": 2.0}


class TestReports:
    def test_a_report_of_memray_is_read_by_call_stack(self) -> None:
        """Each with its size and the frames below it."""
        first, second = pytest_tools.leaked(memray_line()["sections"])
        assert first.size == pytest.approx(15.6 * 2**20)
        assert second.size == 40 * 2**10
        assert "keep_large_malloc" in first.stack
        assert "elsewhere" not in first.stack

    def test_the_larger_limit_of_memray_is_told_from_the_same_report(self) -> None:
        """Only stacks beyond it are an alarm; the heaviest gives size and line."""
        plant = BY_NAME["large_malloc"]
        found = pytest_tools._memray("m", 10**6, CELL, memray_line(), plant)
        assert (found.said, found.line_is_right) == (Said.ALARM, True)
        assert found.error == pytest.approx(0, abs=0.01)
        assert pytest_tools._memray("m", 2 * 10**7, CELL, memray_line(), plant).said is Said.QUIET

    def test_a_test_that_fails_otherwise_is_broken(self) -> None:
        """An error of the code under test is no leak that a tool has found; a process that died says nothing."""
        assert pytest_tools._memray("m", 0, CELL, memray_line(sections=[]), None).said is Said.BROKEN
        assert pytest_tools._memray("m", 0, CELL, {"number": 0, "begun": True}, None).said is Said.BROKEN
        error = {"number": 0, "outcome": "failed", "kind": "TypeError", "text": "no", "sections": []}
        assert pytest_tools._psleak(CELL, error, None).said is Said.BROKEN

    def test_the_message_of_psleak_gives_the_growth_of_its_last_run(self) -> None:
        """The longest run is the least noisy one; descriptors and threads have errors of their own."""
        assert pytest_tools.grown(PSLEAK) == pytest.approx(145559232 / 7683)
        line = {"number": 0, "outcome": "failed", "kind": "MemoryLeakError", "text": PSLEAK, "calls": 200}
        found = pytest_tools._psleak(CELL, line, BY_NAME["buffer"])
        assert found.said is Said.ALARM
        assert found.error == pytest.approx(18945 / 16384 - 1, abs=1e-3)
        unclosed = {"number": 0, "outcome": "failed", "kind": "UnclosedFdError", "text": "1", "calls": 200}
        assert pytest_tools._psleak(CELL, unclosed, BY_NAME["descriptor"]).said is Said.ALARM

    def test_asv_says_by_its_mark_what_got_worse(self) -> None:
        """Better is no leak; what it could not run before and after was not asked; what failed is broken."""
        assert asv_tool.rows(ASV) == {
            "buffer.eager": Said.ALARM,
            "descriptor.eager": Said.QUIET,
            "softmax.steady": Said.QUIET,
            "draw.grad": Said.NOT_ASKED,
            "thread.eager": Said.BROKEN,
        }


class TestGoingOn:
    def test_the_cell_at_which_a_campaign_was_stopped_is_asked_again(self, tmp_path: Path) -> None:
        """What was answered stays; what had only begun is forgotten."""
        results = tmp_path / "results.jsonl"
        ended = '{"number": 0, "begun": true}\n{"number": 0, "outcome": "passed"}\n'
        results.write_text(ended + '{"number": 1, "begun": true}\n', encoding="utf-8")
        pytest_tools.forget_unfinished(results)
        assert results.read_text(encoding="utf-8") == '{"number": 0, "outcome": "passed"}\n'

    def test_a_process_that_says_nothing_for_too_long_is_ended(self, tmp_path: Path) -> None:
        """The time limit is that of one cell: it begins anew with each line."""
        results = tmp_path / "results.jsonl"
        program = (
            "import pathlib, time\n"
            f"place = pathlib.Path({str(results)!r})\n"
            "for turn in range(4):\n"
            "    time.sleep(0.6)\n"
            "    place.open('a').write(str(turn))\n"
            "time.sleep(60)\n"
        )
        with (tmp_path / "log").open("ab") as log:
            pytest_tools.run_watched([sys.executable, "-c", program], {}, log, results, seconds=1.5)
        assert results.read_text(encoding="utf-8") == "0123"


class TestWitness:
    """A long run decides whether an alarm on a clean cell was true."""

    @staticmethod
    def run(*heap: int, calls: int = 4000, **others: list[int]) -> dict[str, Any]:
        names = {"heap_bytes": list(heap), **others}
        moments = zip(*names.values(), strict=True)
        return {"calls": calls, "readings": [dict(zip(names, moment, strict=True)) for moment in moments]}

    def test_growth_in_every_part_confirms_an_alarm(self) -> None:
        """One executable per part is enough: sound code makes none once its caches are full."""
        assert witness.shown(self.run(0, 160_000, 320_000, 480_000)) is Truth.GROWS
        assert witness.shown(self.run(0, 0, 0, 0, live_executables=[5, 6, 7, 8])) is Truth.GROWS

    def test_what_fills_a_cache_grows_at_first(self) -> None:
        """Objects in the first part and none later: the alarm was true as long as it lasted."""
        assert witness.shown(self.run(0, 0, 0, 0, objects=[0, 5_000, 5_000, 5_001])) is Truth.FILLS

    def test_an_alarm_at_noise_is_false(self) -> None:
        """Heap that comes to rest, goes up and down, or grows by less than any leak."""
        assert witness.shown(self.run(0, 160_000, 320_000, 320_000)) is Truth.STILL
        assert witness.shown(self.run(0, 500_000, 100_000, 600_000)) is Truth.STILL
        assert witness.shown(self.run(0, 60_000, 120_000, 180_000)) is Truth.STILL
        assert witness.shown(self.run(0, 10_000, 20_000, 30_000, calls=20)) is Truth.STILL

    def test_what_could_not_be_run_confirms_nothing(self) -> None:
        """The alarm then counts as false."""
        assert witness.shown({"calls": 0, "readings": []}) is Truth.STILL


class TestSizes:
    def test_a_size_is_compared_with_the_bytes_that_were_planted(self) -> None:
        """What is known by number alone has none."""
        assert planted_bytes(BY_NAME["buffer"]) == (16_384, 16_384)
        assert planted_bytes(BY_NAME["seldom_large_malloc"]) == (163.84, 164.0)
        assert planted_bytes(BY_NAME["thread"]) is None

    @pytest.mark.parametrize(("value", "share"), [(100.0, 0.0), (105.0, 0.0), (110.0, 0.0), (121.0, 0.1), (50.0, -0.5)])
    def test_the_share_off_is_told_from_the_nearer_end(self, value: float, share: float) -> None:
        """Within the bounds there is none."""
        assert share_off(value, (100.0, 110.0)) == pytest.approx(share)


class TestCorpus:
    def test_a_campaign_has_as_many_clean_cells_as_were_asked_for(self, tmp_path: Path) -> None:
        """The whole corpus makes 1,000 and more; every table of it is valid, and names tell the functions apart."""
        everything = tuple(scenario.value for scenario in Scenario)
        releases = ("0.8.3", "0.9.2", "0.10.2")
        campaign = opened(tmp_path, Parameters(1000, releases, everything, tuple(BY_NAME)))
        clean = [cell for cell in campaign.cells if cell.kernel != "planted_leaks"]
        assert 1000 <= len(clean) < 1000 + len(releases) * len(everything)
        assert {cell.scenario for cell in clean} == set(everything)
        planted = [cell for cell in campaign.cells if cell.implementation in BY_NAME]
        assert len(planted) == len(releases) * len(PLANTS)
        assert len({one.name for one in corpus_table.CLEAN}) == len(corpus_table.CLEAN) >= 40

    def test_a_campaign_is_not_finished_with_other_parameters(self, tmp_path: Path) -> None:
        """The same go on; others would mix what cannot be compared."""
        parameters = Parameters(10, ("0.10.2",), ("steady",), ("buffer",))
        assert opened(tmp_path, parameters) == opened(tmp_path, parameters)
        with pytest.raises(ValueError, match="other parameters"):
            opened(tmp_path, Parameters(20, ("0.10.2",), ("steady",), ("buffer",)))


class TestTable:
    plants = MappingProxyType({name: BY_NAME[name] for name in ("buffer", "seldom_descriptor")})

    @staticmethod
    def answer(tool: str, subject: str, said: Said, **more: Any) -> Answer:
        return Answer(tool, "0.10.2", subject, "eager" if subject in BY_NAME else "steady", said, seconds=2.0, **more)

    def row(self, text: str, head: str) -> list[str]:
        """The cells of the one row that begins so."""
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {head} |"))
        return [cell.strip() for cell in line.strip("|").split("|")][1:]

    def test_alarms_are_counted_apart_from_what_was_found(self) -> None:
        """False ones among the clean cells that were measured, leaks among those that the tool looks for."""
        text = table.written(
            [
                self.answer(ours.NAME, "softmax", Said.QUIET),
                self.answer(ours.NAME, "sort", Said.UNSURE),
                self.answer(ours.NAME, "fft", Said.NOT_ASKED),
                self.answer(ours.NAME, "buffer", Said.ALARM, error=0.0, line_is_right=True),
                self.answer(ours.NAME, "seldom_descriptor", Said.ALARM, line_is_right=False),
                self.answer("psleak", "softmax", Said.ALARM, kind="MemoryLeakError", truth=Truth.STILL),
                self.answer("psleak", "sort", Said.ALARM, kind="MemoryLeakError", truth=Truth.GROWS),
                *(self.answer(tool, name, Said.QUIET) for tool in (ours.NAME, "psleak") for name in ("gelu", "silu")),
                self.answer("psleak", "fft", Said.BROKEN),
                self.answer("psleak", "buffer", Said.ALARM, error=0.156),
                self.answer("psleak", "seldom_descriptor", Said.QUIET),
            ],
            self.plants,
            "about",
        )
        assert self.row(text, "clean cells measured") == ["4", "4"]
        assert self.row(text, "alarms that a long run confirms: all the time, at first") == ["0, 0", "1, 0"]
        assert self.row(text, "false alarms") == ["0 (at 95 %: under 75.0%)", "1 (25.0%)"]
        assert self.row(text, "undecided on clean cells") == ["1", "0"]
        assert self.row(text, "could not be asked: not applicable, broken") == ["1, 0", "0, 1"]
        assert self.row(text, "leaks found, of those it looks for") == ["2 of 2", "1 of 1"]
        assert self.row(text, "leaking line named, of those found") == ["1 of 2", table.NOT_ITS_JOB]
        assert self.row(text, "size, share off: median, most") == ["0.0%, 0.0%", "15.6%, 15.6%"]
        assert self.row(text, "a file descriptor") == ["100th call", "1 of 1, line 0", table.NOT_ITS_JOB]
        assert "- psleak, false: `steady`, jax 0.10.2 (MemoryLeakError): softmax\n" in text
        assert text.endswith("- psleak, grows all the time: `steady`, jax 0.10.2 (MemoryLeakError): sort")

    def test_the_table_is_put_between_its_markers(self, tmp_path: Path) -> None:
        """What stands around it stays; a page without a place for it is refused."""
        page = tmp_path / "page.md"
        page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
        put(page, table.NAME, "new")
        assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
        page.write_text("nothing", encoding="utf-8")
        with pytest.raises(ValueError, match="no place for the table"):
            put(page, table.NAME, "new")

    def test_the_documentation_has_a_place_for_it(self) -> None:
        """`make leak-table` writes there."""
        page = (ROOT / "docs" / "judging-memory.md").read_text(encoding="utf-8")
        assert page.count(BEGIN) == page.count(END) == 1


@pytest.mark.real
def test_a_short_campaign_fills_the_table_and_is_not_repeated(tmp_path: Path) -> None:
    """Two of the tools on two clean functions and two leaks, for real; the same command again only writes the table.

    The other two take minutes: `make leak-table CELLS=2` asks them as well.
    """
    folder, page = tmp_path / "campaign", tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    command = [sys.executable, "-m", "tests.leak_table", "--folder", str(folder), "--write", str(page), "--cells", "2"]
    short = ["--releases", "0.10.2", "--scenarios", "steady", "--plants", "buffer", "seldom_descriptor"]
    short += ["--tools", ours.NAME, pytest_tools.PSLEAK]
    first = subprocess.run([*command, *short], cwd=ROOT, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    text = page.read_text(encoding="utf-8")
    row = TestTable().row
    assert row(text, "clean cells measured") == ["3"] * 2
    assert row(text, "could not be asked: not applicable, broken") == ["0, 0"] * 2
    assert row(text, "a device buffer of 16 KiB") == ["call", "1 of 1, line 1", "1 of 1"]
    assert row(text, "a file descriptor") == ["100th call", "1 of 1, line 1", table.NOT_ITS_JOB]
    kept = {file: file.read_bytes() for file in folder.rglob("results/**/*.json*")}
    assert len(kept) > 3
    again = subprocess.run([*command, *short], cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert kept == {file: file.read_bytes() for file in folder.rglob("results/**/*.json*")}
    assert page.read_text(encoding="utf-8") == text
