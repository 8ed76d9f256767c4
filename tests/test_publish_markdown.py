"""A gate as a comment on a pull request."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests import synthetic_gates
from tests.test_gate_document import GATES
from watchdog.gate.report import GateReport
from watchdog.publish.markdown import COMMENT, MARKER, block, code, markdown, text

# What GitHub and GitLab would turn into links, names or pictures of their own, in text that is no code.
_LINKED = re.compile(r"@\w|[#!~]\w|\bGH-\d|://|\bwww\.|:\w+:|\b(?=\w*[a-f])(?=\w*\d)[0-9a-f]{7,40}\b")


class Page(HTMLParser):
    """The elements of a rendered text in their order, and its words outside of code."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.codes: list[str] = []
        self._within: list[str] = []
        self.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.append(tag)
        if tag in ("code", "pre"):
            self._within.append(tag)
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if self._within:
            self.codes[-1] += data
        else:
            self.words.append(data)


def top(report: GateReport) -> list[str]:
    """The lines that are not folded, without the marker."""
    marker, *lines = [line for line in markdown(report).split("<details>")[0].splitlines() if line.strip()]
    assert marker == MARKER
    return lines


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failed", "❌ Kernel Watchdog: failed.** The change causes 7 regressions"),
        ("passed", "✅ Kernel Watchdog: passed.** The change breaks nothing"),
        ("undecided", "❔ Kernel Watchdog: undecided.** 1 question could not be answered"),
        ("nothing measured", "❔ Kernel Watchdog: undecided.** Nothing could be measured"),
    ],
)
def test_the_verdict_comes_first(name: str, words: str) -> None:
    """In one line, with the reason."""
    assert words in top(GATES[name])[0]


def test_who_is_to_blame_stands_in_the_first_line() -> None:
    """Where somebody was found."""
    assert top(GATES["failed"])[0].endswith("**Blame: jax 0.8.3 → 0.9.2 and my-kernels 1.3 → 1.4**")


@pytest.mark.parametrize("report", [*GATES.values(), synthetic_gates.crowded(200)], ids=[*GATES, "crowded"])
def test_at_most_ten_lines_follow(report: GateReport) -> None:
    """And the difference is the first of them."""
    _, *lines = top(report)
    assert 2 <= len(lines) <= 10
    assert re.match(r"<code>origin/main.* → <code>uv\.lock", lines[0])


def test_the_worst_findings_are_told_with_figure_suspect_and_blame() -> None:
    """What broke before what moved; the same in several scenarios once."""
    told = [line for line in top(GATES["failed"]) if line.startswith("- ")]
    assert [re.sub(r"\W+", " ", line).split()[0] for line in told] == [
        "import",
        "races",
        "memory",
        "timing",
        "schedule",
    ]
    assert "suspect: library · blame: jax 0.8.3 → 0.9.2" in told[0]
    assert "(and in 2 other cells)" in told[2]
    assert "×1.12 ± 0.03" in told[3]


def test_all_well_is_quiet() -> None:
    """Difference, what there is to warn of and counts, and one fold."""
    whole = markdown(GATES["passed"])
    assert len(top(GATES["passed"])) <= 4
    assert whole.count("<details>") == 1
    assert "Measured and fine" in whole


def test_nothing_measured_says_why_before_the_folds() -> None:
    """The reason is what a reader needs."""
    assert any("an interpreted kernel is never timed" in line for line in top(GATES["nothing measured"]))


@pytest.mark.parametrize(
    "words",
    [
        "The difference: 15 packages",
        "All findings (7)",
        "Which package did it",
        "Ends of logs (3)",
        "Undecided (1)",
        "Still broken, with and without the change (1)",
        "Broken under the base alone (1)",
        "Accepted (1)",
        "Not measured, and why",
        "Measured and fine (4)",
    ],
)
def test_the_rest_is_folded(words: str) -> None:
    """Each part in a fold of its own, whose title says how much is in it."""
    assert f"<details><summary>{words}</summary>" in markdown(GATES["failed"])


def test_the_folds_hold_all_of_it() -> None:
    """Every package, each finding's smallest visible change and id, the path, the log, the acceptance, the notes."""
    page = Page(markdown(GATES["failed"]))
    words = "".join(page.words)
    for wanted in ("package-9", "32 B/call", "remembered", "until 2027-01-31", "no longer: the figure moved again"):
        assert wanted in words
    assert "the memory scenario reload was not asked" in words
    assert any("No module named 'absl'" in one for one in page.codes)
    assert "flash_attention/custom/small/head/host/memory/eager/device_bytes" in page.codes


def test_hostile_text_is_only_text() -> None:
    """It adds no element, ends no fold, names nobody, links nothing and shows no password."""
    page = Page(markdown(GATES["hostile"]))
    assert page.tags == Page(markdown(GATES["failed"])).tags
    assert not {"script", "img", "a"} & set(page.tags)
    assert not _LINKED.search("".join(page.words))
    assert "hunter2" not in markdown(GATES["hostile"])


def test_it_still_reads_as_it_was() -> None:
    """Escapes are undone by whoever renders it; only zero-width spaces stay."""
    told = r"_cache of <lambda> in a|b: 5 % slower, **not** 3~4 [x](y) & \n #12 @x"
    assert "".join(Page(text(told)).words).replace("\u200b", "").strip() == told
    assert Page(f"| a |\n| --- |\n| {code(told)} |").codes == [told]
    assert Page(code(told)).codes == [told]


@pytest.mark.parametrize("start", ["- a", "+ a", "1. a", "12) a", "> a", "# a", "--- a", "=== a", "    a", "| a | b |"])
def test_no_beginning_is_markup(start: str) -> None:
    """A sentence that begins as a list, a quotation, a heading or a table is a paragraph."""
    assert Page(text(start)).tags == ["p", "/p"]


def test_a_log_cannot_end_its_block() -> None:
    """However long its own fences are."""
    assert Page(block("a\n````\n```\n</details>\nb")).codes[-1] == "a\n````\n```\n</details>\nb\n"


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab1`*_[]()<>!|~#@:/.&$\\-+=\n\t \"'{}^%"), max_size=30))
def test_any_text_keeps_the_form(outside: str) -> None:
    """Whatever is said, the comment has the elements that it would have without it."""
    report = synthetic_gates.rewritten(GATES["undecided"], lambda one: f"{one}{outside}x")
    assert Page(markdown(report)).tags == Page(markdown(GATES["undecided"])).tags


@pytest.mark.parametrize("most", [COMMENT, 8_000])
def test_it_is_cut_to_what_a_comment_may_hold(most: int) -> None:
    """Between two rows or logs, every fold is closed, and what is missing is counted."""
    whole = markdown(synthetic_gates.crowded(400), most=most)
    assert len(whole.encode()) <= most
    assert (
        whole.count("<details>") == whole.count("</details>") == len(re.findall(r"^</details>$", whole, re.MULTILINE))
    )
    assert re.search(r"\*[\d,]+ more left out for want of room\.\*|Left out for want of room: ", whole)


@pytest.mark.parametrize("report", GATES.values(), ids=GATES)
def test_what_fits_is_not_cut(report: GateReport) -> None:
    """Nothing is left out of an ordinary comment, nor of one full of hostile text."""
    whole = markdown(report)
    assert "for want of room" not in whole
    assert len(whole.encode()) <= COMMENT
