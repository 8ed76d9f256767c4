"""The HTML site: what it says, that it is safe to open, and that it replaces nothing it should not."""

from __future__ import annotations

import re
import shlex
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.errors import UsageError
from watchdog.model import Cell, Check, Fault, Figure, Observation, Outcome, Scenario, Status, Suspect, Verdict
from watchdog.publish import html, sections
from watchdog.publish import site as site_module
from watchdog.publish.html import write_site
from watchdog.publish.story import RunReport

from .browser import browser, chromium
from .synthetic_reports import BROKEN, CASES, KERNELS, empty, hostile, realistic, shared

_TODAY, _YESTERDAY = "2026-01-31T02:00:00Z-7f3a", "2026-01-30T02:00:00Z-11c2"


class _Page(HTMLParser):
    """The links, anchors and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.anchors, self.text = path, list[str](), list[str](), ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.anchors.append(values["id"] or "")
        if tag == "a":
            self.links.append(values.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.text += f" {' '.join(data.split())}"


def _written(directory: Path, report: RunReport) -> Path:
    write_site(directory, [report.summary], report)
    return directory


def _pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_the_overview_says_what_broke_and_whose_fault_it_is(tmp_path: Path) -> None:
    """The first page has the count, the missing module, the suspect and the reason for what was not asked."""
    text = _Page(_written(tmp_path / "site", realistic()) / "index.html").text
    assert "1 finding in 1 of 2 kernels: import of jax_flash_attention/custom under jax-0.9.2." in text
    assert "No module named 'absl'" in text
    assert re.search(r"suspect: +library", text)
    assert "does not import: No module named 'absl'" in text
    assert re.search(r"absl-py +2\.3\.1 +none +2\.4\.0", text)


def test_what_several_kernels_share_is_told_once(tmp_path: Path) -> None:
    """One finding, named after the kernel that was asked; each kernel's page has its own, with its own address."""
    report = shared()
    site = _written(tmp_path / "site", report)
    index = _Page(site / "index.html")
    assert "1 finding in 2 of 2 kernels: memory of flash_attention/native under jax-0.10.2." in index.text
    assert index.text.count("keeps 16 KiB per call") == 1
    assert index.text.count("the schedule could not be read") == 1
    assert "also in jax_flash_attention/native and 3 other cells" in index.text
    for kernel in KERNELS:
        page = _Page(site / "kernels" / f"{kernel}.html")
        leaks = [one for one in report.verdicts if one.status is Status.REGRESSED and one.cell.kernel == kernel]
        assert len(leaks) == len(CASES)
        assert all(html._anchor(one) in page.anchors for one in leaks)
        assert ("Asked once, of flash_attention/native" in page.text) == (kernel != "flash_attention")


def leaking(*lines: str) -> RunReport:
    """A kernel that leaks in all ten scenarios, each time made at one of these lines."""
    kept = [
        Verdict(
            Cell("k", "custom", "small", "next", "host", Check.MEMORY, scenario),
            Status.REGRESSED,
            f"keeps 16 KiB per call, allocated at {lines[number % len(lines)]}",
            signal="buffer_bytes",
            kind="leak",
            suspect=Suspect.KERNEL,
            figure=Figure.exact(16384.0 + number, "B/call"),
            where=lines[number % len(lines)],
        )
        for number, scenario in enumerate(Scenario)
    ]
    seen = [Observation(one.cell, Outcome.OBSERVED) for one in kept]
    whole = replace(empty(), kernels=("k",), pins=("next",), targets=("host",), baseline=None)
    return replace(whole, observations=tuple(reversed(seen)), verdicts=tuple(reversed(kept)))


def test_one_line_that_leaks_in_every_scenario_is_told_once(tmp_path: Path) -> None:
    """One finding that names the first scenario and counts the others; the kernel's page has each with its address."""
    report = leaking("k.py:12")
    site = _written(tmp_path / "site", report)
    index = _Page(site / "index.html").text
    assert "1 finding in 1 of 1 kernel: memory of k/custom under next." in index
    assert index.count("keeps 16 KiB per call") == 1
    assert "small, host, steady" in index
    assert "also in 9 other scenarios" in index
    page = _Page(site / "kernels" / "k.html")
    assert all(html._anchor(one) in page.anchors for one in report.verdicts)
    for scenario in Scenario:
        assert re.search(rf"\b{scenario}, +buffer_bytes|Scenario +{scenario} +Signal +buffer_bytes", page.text), (
            scenario
        )


def test_two_lines_that_leak_are_two_findings(tmp_path: Path) -> None:
    """Different lines in different scenarios are told apart; the headline names their subject once."""
    text = _Page(_written(tmp_path / "site", leaking("k.py:12", "k.py:40")) / "index.html").text
    assert "2 findings in 1 of 1 kernel: memory of k/custom under next." in text
    assert text.count("also in 4 other scenarios") == 2
    assert {"k.py:12", "k.py:40"} <= set(text.split())


def test_what_other_cells_say_is_counted_as_cells() -> None:
    """Where cases and scenarios differ, neither word alone is right."""
    report = leaking("k.py:12")
    wide = [replace(one, cell=replace(one.cell, case="wide")) for one in report.verdicts]
    (finding,) = sections.told_once([*report.verdicts, *wide])
    assert finding.elsewhere == "19 other cells"


def test_the_same_words_in_two_scenarios_are_two_rows() -> None:
    """A row of a table names one scenario: verdicts of others are not folded into it, those of other cases are."""
    dull = [
        Verdict(Cell("k", "custom", case, "next", "host", Check.MEMORY, scenario), Status.PASS, "nothing is kept")
        for case in ("small", "wide")
        for scenario in ("steady", "eager")
    ]
    found = sections.word_for_word(dull)
    assert [(one.verdict.scenario, len(one.also)) for one in found] == [("steady", 1), ("eager", 1)]


def test_findings_of_kernels_that_share_nothing_stay_apart(tmp_path: Path) -> None:
    """The same fault of two kernels is two findings, unless it was one question."""
    report = shared()
    apart = [replace(one, data={**one.data, "same_as": ["no", "address"]}) for one in report.observations]
    index = _Page(_written(tmp_path / "site", replace(report, observations=tuple(apart))) / "index.html")
    assert "2 findings in 2 of 2 kernels" in index.text
    assert "also in 3 other cells" in index.text


def test_a_message_with_a_traceback_is_told_without_its_frames() -> None:
    """What a callback raised stands at the end of such a message; other messages stay as they are."""
    frames = '  File "/srv/scratch/run.py", line 31, in <module>\n' * 50
    wrapped = f"INTERNAL: CpuCallback error: Traceback (most recent call last):\n{frames}ValueError: the real thing"
    told = sections.fault_text(Fault("JaxRuntimeError", wrapped))
    assert told == (
        "JaxRuntimeError: INTERNAL: CpuCallback error: Traceback (most recent call last): ValueError: the real thing"
    )
    assert sections.fault_text(Fault("E", "one\n  two")) == "E: one   two"


def test_a_run_without_findings_says_so(tmp_path: Path) -> None:
    """Nothing regressed is a sentence too, and names what is not a pass."""
    text = _Page(_written(tmp_path / "site", realistic(broken=False)) / "index.html").text
    assert "Nothing regressed in 2 kernels: 16 inconclusive, 8 improved, 487 pass and 32 skipped." in text


@pytest.mark.parametrize(
    "report", [realistic(), hostile(), empty(), shared()], ids=["real", "hostile", "empty", "shared"]
)
def test_every_internal_link_leads_to_something(tmp_path: Path, report: RunReport) -> None:
    """Each link names a page that exists, and an element on it; no id is used twice; nothing leads outside."""
    pages = {path.resolve(): _Page(path) for path in _pages(_written(tmp_path / "site", report))}
    for path, page in pages.items():
        assert len(page.anchors) == len(set(page.anchors)), path
        for link in page.links:
            address, _, anchor = link.partition("#")
            target = (path.parent / unquote(address)).resolve() if address else path
            assert target in pages, f"{path.name}: {link}"
            assert not anchor or anchor in pages[target].anchors, f"{path.name}: {link}"


def test_a_finding_keeps_its_address_from_run_to_run(tmp_path: Path) -> None:
    """Two runs give the same finding the same anchor, on the kernel's page and on both runs' pages."""
    today, yesterday = realistic(_TODAY), realistic(_YESTERDAY)
    write_site(tmp_path / "site", [today.summary, yesterday.summary], today, earlier=[yesterday])
    runs = [set(_Page(path).anchors) for path in _pages(tmp_path / "site" / "runs")]
    broken = "v-jax_flash_attention-custom-jax-0.9.2-import"
    assert len(runs) == 2
    assert all(any(anchor.startswith(broken) for anchor in anchors) for anchors in runs)
    assert {one for one in runs[0] if one[:2] == "v-"} == {one for one in runs[1] if one[:2] == "v-"}


def test_every_verdict_stands_on_its_kernels_page_and_on_the_runs_page(tmp_path: Path) -> None:
    """No verdict is lost in grouping or folding."""
    report = realistic()
    site = _written(tmp_path / "site", report)
    run = _Page(next((site / "runs").iterdir()))
    assert sum(anchor.startswith("v-") for anchor in run.anchors) == len({verdict.id for verdict in report.verdicts})
    assert sum(anchor.startswith("o-") for anchor in run.anchors) == len(report.observations)
    mine = [one for one in report.verdicts if one.cell.kernel in ("", "flash_attention")]
    kernel = _Page(site / "kernels" / "flash_attention.html")
    assert sum(anchor.startswith("v-") for anchor in kernel.anchors) == len(mine)


def test_custom_and_native_stand_side_by_side(tmp_path: Path) -> None:
    """The figures of a case are in one table, with the change against the baseline beside the figure."""
    text = _Page(_written(tmp_path / "site", realistic()) / "kernels" / "flash_attention.html").text
    assert re.search(r"temporaries +0 B +256\.2 MiB", text)
    assert re.search(r"bundles +505 +crashed +509 +×1\.008 +509 +514 +×1\.02", text)


def test_the_runs_page_has_what_reproduces_a_fault(tmp_path: Path) -> None:
    """Traceback, package lists and the command stand on the page of the run."""
    text = _Page(next((_written(tmp_path / "site", realistic()) / "runs").iterdir())).text
    assert "from absl import logging" in text
    assert "watchdog run --pins jax-0.9.2 --kernel jax_flash_attention --implementation custom --check import" in text
    assert "sha256:3a9c51d7" in text


@given(st.lists(st.text(min_size=1), min_size=5, max_size=5))
def test_the_command_gives_back_the_cell_whatever_its_names(names: list[str]) -> None:
    """Names with spaces, quotes or dollars reach the program as they are, and run nothing else."""
    kernel, implementation, case, pins, scenario = names
    words = shlex.split(sections.command(Cell(kernel, implementation, case, pins, "host", Check.MEMORY, scenario)))
    expected = {"--pins": pins, "--kernel": kernel, "--implementation": implementation, "--case": case}
    expected |= {"--target": "host", "--check": "memory", "--scenario": scenario}
    assert dict(zip(words[2::2], words[3::2], strict=True)) == expected


def test_hostile_text_is_only_ever_text(tmp_path: Path) -> None:
    """No tag, terminal sequence or bidi control gets through; a megabyte stays bounded; no file leaves the site."""
    site = _written(tmp_path / "site", hostile())
    assert {path.name for path in tmp_path.iterdir()} == {"site"}
    for path in _pages(site):
        page = path.read_text(encoding="utf-8")
        assert "<script" not in page
        assert "<img" not in page
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
        assert len(page) < 300_000


def test_kernels_of_similar_names_have_pages_of_their_own(tmp_path: Path) -> None:
    """Names that differ only in characters unfit for files, or in case, do not share a page."""
    kernels = ("a/b", "a b", "A-B", "a-b")
    report = replace(realistic(), kernels=kernels, verdicts=())
    names = [path.name.lower() for path in (_written(tmp_path / "site", report) / "kernels").iterdir()]
    assert len(set(names)) == 4


def test_a_verdict_of_an_unlisted_kernel_or_pins_is_still_shown(tmp_path: Path) -> None:
    """What the configuration no longer names is not hidden."""
    stray = Verdict(Cell("gone", "custom", "", "old", "", Check.IMPORT), Status.REGRESSED, "stray sentence")
    site = _written(tmp_path / "site", replace(realistic(), verdicts=(stray,)))
    assert "stray sentence" in _Page(site / "index.html").text
    assert "stray sentence" in _Page(next((site / "runs").iterdir())).text


def test_someone_elses_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A directory with files of another origin is named in the error, and nothing in it changes."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.tex.*name an empty or a new directory"):
        _written(tmp_path, realistic())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_reports_place_is_refused(tmp_path: Path) -> None:
    """A file where the directory should be, or on the way to it, is a usage error with its path."""
    (tmp_path / "report").write_text("")
    with pytest.raises(UsageError, match="is a file, not a directory"):
        _written(tmp_path / "report", realistic())
    with pytest.raises(UsageError, match="cannot write the report to"):
        _written(tmp_path / "report" / "below", realistic())


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    """A directory made beforehand, as continuous integration does, is fine."""
    (tmp_path / "site").mkdir()
    assert (_written(tmp_path / "site", realistic()) / "index.html").is_file()


def test_files_added_to_a_report_survive_the_next_one_and_old_pages_do_not(tmp_path: Path) -> None:
    """What someone put beside the pages is kept; a page of a kernel no longer watched goes."""
    site = _written(tmp_path / "site", realistic())
    (site / "CNAME").write_text("example")
    (site / "notes").mkdir()
    (site / "notes" / "a.txt").write_text("kept")
    for _ in range(2):
        _written(site, replace(realistic(), kernels=("flash_attention",)))
    assert (site / "CNAME").read_text() == "example"
    assert (site / "notes" / "a.txt").read_text() == "kept"
    assert [path.name for path in (site / "kernels").iterdir()] == ["flash_attention.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_pages_of_earlier_runs_are_kept_while_they_are_listed(tmp_path: Path) -> None:
    """An address sent to a colleague yesterday works today, and ends when the run leaves the list."""
    today, yesterday = realistic(_TODAY), realistic(_YESTERDAY)
    _written(tmp_path / "site", yesterday)
    write_site(tmp_path / "site", [today.summary, yesterday.summary], today)
    assert len(_pages(tmp_path / "site" / "runs")) == 2
    _written(tmp_path / "site", today)
    assert len(_pages(tmp_path / "site" / "runs")) == 1


def test_a_failure_half_way_leaves_the_old_site(tmp_path: Path) -> None:
    """When a later page cannot be made, the site of before is untouched and no draft is left behind."""
    site = _written(tmp_path / "site", realistic())
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}

    def broken() -> Iterator[RunReport]:
        yield realistic(_YESTERDAY)
        msg = "the store went away"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="went away"):
        write_site(site, [], realistic(), earlier=broken())
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_where_directories_cannot_be_exchanged_the_site_is_still_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems without an exchange in one step get two renames, and nothing is left over."""
    monkeypatch.setattr(site_module, "_exchange", lambda _one, _other: False)
    site = _written(tmp_path / "site", realistic())
    _written(site, replace(realistic(), kernels=("flash_attention",)))
    assert [path.name for path in (site / "kernels").iterdir()] == ["flash_attention.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges directories in one step")
def test_a_reader_never_finds_the_site_gone_or_half_made(tmp_path: Path) -> None:
    """While the site is replaced hundreds of times, its last page can always be read."""
    place = tmp_path / "site"

    def replace_it() -> None:
        with site_module.replacing(place) as draft:
            for name in ("index.html", "last.html"):
                (draft / name).write_text(name)

    replace_it()
    stop, bad = threading.Event(), list[str]()

    def reader() -> None:
        while not stop.is_set():
            bad.extend([] if (place / "last.html").exists() else ["gone"])

    thread = threading.Thread(target=reader)
    thread.start()
    for _ in range(400):
        replace_it()
    stop.set()
    thread.join()
    assert not bad


def test_versions_are_not_broken_at_their_hyphens() -> None:
    """A short word with a hyphen is kept in one piece; the text stays the same, escaped, and long words may break."""
    shown = html._whole("under jax-0.9.2 <b>-</b> " + "x-" * 40)
    assert '<span class="whole">jax-0.9.2</span>' in shown
    assert '<span class="whole">&lt;b&gt;-&lt;/b&gt;</span>' in shown
    assert shown.endswith(" " + "x-" * 40)


def test_no_template_has_to_remember_that_text_is_hostile() -> None:
    """An expression without any filter is cleaned, cut and escaped."""
    shown = html._templates().from_string("<p>{{ text }}</p>").render(text="<b>\x1b[1m\u202e" + "x" * 1_000_000)
    assert shown.startswith("<p>&lt;b&gt;⟨U+202E⟩xxx")
    assert len(shown) < 21_000


_HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])"
# WCAG 2.2: contrast of every visible text with the nearest background that is painted.
_PALE = """
(() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  document.querySelectorAll('details').forEach(d => d.open = true);
  return [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length
      && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).filter(e => {
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05) < 4.5; }).map(e => e.outerHTML.slice(0, 120));
})()
"""


@pytest.mark.skipif(chromium() is None, reason="needs Chromium (Debian: apt-get install chromium)")
@pytest.mark.parametrize("report", [realistic(), hostile(), empty()], ids=["realistic", "hostile", "empty"])
def test_every_page_opens_cleanly_in_a_real_browser(tmp_path: Path, report: RunReport) -> None:
    """Light, dark, wide and at 360 px: no console message, nothing runs, no sideways scrolling, contrast of AA."""
    pages = _pages(_written(tmp_path / "site", report))
    with browser() as tab:
        for path in pages:
            for width, scheme in ((1280, "light"), (1280, "dark"), (360, "light")):
                tab.look(width, scheme=scheme)
                tab.visit(path.as_uri())
                assert tab.value("document.title").endswith("Kernel Watchdog")
                assert tab.value("document.scripts.length") == 0
                assert tab.value("document.styleSheets.length") == 1
                assert tab.value(_PALE) == [], (path, scheme)
                assert tab.value("document.documentElement.scrollWidth") <= width, (path, width)
            levels = tab.value(_HEADINGS)
            assert levels.count(1) == 1
            assert all(new <= old + 1 for old, new in zip([0, *levels], levels, strict=False))
        assert tab.messages == []


@pytest.mark.skipif(chromium() is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_the_link_of_a_finding_shows_it_in_the_browser(tmp_path: Path) -> None:
    """Following the first finding from the overview ends at its sentence, on the screen."""
    site = _written(tmp_path / "site", realistic())
    with browser() as tab:
        tab.look(1280)
        tab.visit((site / "index.html").as_uri())
        link = tab.value("document.querySelector('.findings a').href")
        tab.visit(link)
        assert "No module named 'absl'" in tab.value("document.querySelector(':target').innerText")
        assert tab.value("document.querySelector(':target').getBoundingClientRect().top") < 900
    assert "/".join(BROKEN[:1]) in link
