"""The report as a static site: opened from a file, without a network and without scripts.

Every text goes through `wording.clean` and then through Jinja2's escaping, whether a template asks for it or not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from watchdog.model import Cell, Check, Status, Verdict
from watchdog.publish import figures, generations, sections, site, wording
from watchdog.publish.sections import Story
from watchdog.publish.story import RESUMABLE, RunReport, RunSummary
from watchdog.rooms import room

_SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,60}")
_SHORT_WORD = 24  # characters; fits a line on a telephone
_LONGEST_TEXT = 20_000  # of one piece of text in a page; what is longer is cut with a note


def write_site(
    directory: Path, runs: Sequence[RunSummary], latest: RunReport, *, earlier: Iterable[RunReport] = ()
) -> Path:
    """Write the site and return its index page.

    `runs` are all runs to list, latest first. Pages are made for `latest` and for each run of `earlier`; the pages of
    other listed runs that the directory holds already are kept. Readers see the old site or the new one, never half.

    Raises:
        UsageError: the directory holds files that are not a report, or cannot be written.
    """
    kept = {_run_page(summary.run_id) for summary in runs}
    with site.replacing(directory, keep=kept) as draft:
        _Writer(draft, runs, latest).write(earlier)
    return directory / "index.html"


class _Writer:
    """Fills one draft of the site."""

    def __init__(self, draft: Path, runs: Sequence[RunSummary], latest: RunReport) -> None:
        self.draft, self.runs, self.latest = draft, runs, latest
        self.templates = _templates()

    def write(self, earlier: Iterable[RunReport]) -> None:
        for report in (self.latest, *earlier):
            self._page("run.html.j2", _run_page(report.run_id), Story(report))
        story = Story(self.latest)
        for kernel in self.latest.kernels:
            compared = figures.comparisons(story, kernel)
            over = generations.compared(story, kernel)
            page = _kernel_page(kernel)
            self._page("kernel.html.j2", page, story, kernel=kernel, comparisons=compared, generations=over)
        present = {path.name for path in (self.draft / "runs").iterdir()}
        listed = [
            (run, _run_page(run.run_id) if Path(_run_page(run.run_id)).name in present else None) for run in self.runs
        ]
        self._page("index.html.j2", "index.html", story, listed=listed)
        style = (room("reports") / "style.css").read_text(encoding="utf-8")
        (self.draft / "style.css").write_text(style, encoding="utf-8")

    def _page(self, template: str, path: str, story: Story, **values: Any) -> None:
        target = self.draft / path
        target.parent.mkdir(exist_ok=True)
        root = "../" * path.count("/")
        html = self.templates.get_template(template).render(
            story=story, report=story.report, latest=self.latest, root=root, page=path, **values
        )
        target.write_text(html, encoding="utf-8")


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(room("reports")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_filters())
    environment.globals.update(
        Status=Status,
        checks=tuple(Check),
        need=sections.NEED,
        resumable=RESUMABLE,
        square=sections.square,
        told_once=sections.told_once,
        totals=sections.totals,
    )
    environment.globals.update(word_for_word=sections.word_for_word)
    environment.globals.update(generation_columns=generations.COLUMNS)
    environment.globals.update(tree=figures.tree, series_rows=figures.series_rows, command=sections.command)
    return environment


def _filters() -> Mapping[str, Any]:
    return {
        "amount": wording.detectable,
        "anchor": _anchor,
        "cell_anchor": _cell_anchor,
        "between": wording.between,
        "count": wording.count,
        "detail": sections.cell_detail,
        "duration": wording.duration,
        "fault_text": sections.fault_text,
        "figure": wording.figure,
        "kernel_page": _kernel_page,
        "moment": wording.moment,
        "one_line": wording.one_line,
        "owner": sections.cell_owner,
        "run_page": _run_page,
        "tail": wording.tail,
        "whole": _whole,
    }


def _harmless(value: Any) -> Any:
    """What each `{{ … }}` of a template goes through before it is escaped."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    cut = value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]} [… {len(value) - _LONGEST_TEXT:,} more]"
    return wording.clean(cut)


def _whole(text: str) -> Markup:
    """A cleaned line in which no short word is broken at its hyphens: a version stays in one piece."""
    whole = Markup('<span class="whole">{}</span>')
    words = (
        whole.format(word) if "-" in word and len(word) <= _SHORT_WORD else escape(word) for word in text.split(" ")
    )
    return Markup(" ").join(words)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _file_name(text: str) -> str:
    """A name safe in any file system and in an address, different for different texts."""
    if _SAFE_NAME.fullmatch(text):
        return text
    readable = re.sub(r"[^a-z0-9_.]+", "-", text[:200].lower()).strip("-.")[:60]
    return f"{readable or 'x'}-{_digest(text)}"


def _kernel_page(kernel: str) -> str:
    return f"kernels/{_file_name(kernel)}.html"


def _run_page(run_id: str) -> str:
    return f"runs/{_file_name(run_id)}.html"


def _anchor(verdict: Verdict) -> str:
    """The same in every run for the same finding, so that an address can be sent on."""
    return f"v-{_file_name(verdict.id)}"


def _cell_anchor(cell: Cell) -> str:
    return f"o-{_file_name(cell.address)}"
