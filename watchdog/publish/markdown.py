"""A gate's answer as Markdown, for a comment on a pull request: the verdict, ten lines, and the rest folded.

Written for GitHub and GitLab, which both turn names, numbers and addresses in a rendered text into links of their own.
So text from outside is not only escaped as Markdown and HTML: a zero-width space parts what would become a mention,
an issue, a commit or an address. What must be copied exactly stands in code, where nothing is linked.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watchdog.gate.report import Answer, Blame, GateReport, Judged, Standing
from watchdog.model import Status
from watchdog.publish import gate_wording, wording
from watchdog.publish.gate_wording import Told

MARKER = "<!-- kernel-watchdog -->"  # by which a comment is found again, to be updated rather than repeated
COMMENT = 65_000  # bytes that are safe in a comment, of GitHub's 65,536 characters
SUMMARY = 1_000_000  # and in a job's summary, of 1 MiB

_MOST_FINDINGS = 5  # before the folds
_MOST_CHANGES = 4
_MOST_WARNINGS = 2
_MOST_SEEN = 40  # rows of what is fine
_MOST_LOGS = 20
_SIGNS = {Answer.PASSED: "✅", Answer.FAILED: "❌", Answer.UNDECIDED: "❔"}
_ROOM_FOR_APOLOGY = 300  # bytes

_SPECIAL = re.compile(r"[\\`*_\[\]|~^=]")
_DOLLAR = re.compile(r"\$")  # GitHub reads formulas between two
_LINKED = re.compile(
    r"(?<=[@#!%~])(?=[\w\"'{\[])"  # mentions, issues, merge requests, milestones, labels
    r"|(?<=&amp;)(?=\d)"  # epics
    r"|(?<=\bGH)(?=-\d)"
    r"|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=\bmailto)(?=:)|(?<=\bxmpp)(?=:)"  # addresses
    r"|(?<=:)(?=[+\w-]{1,40}:)",  # emoji
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\b(?!\d+\b)[0-9a-f]{7,40}\b", re.IGNORECASE)
_SHORT_OF_A_COMMIT = 6  # hexadecimal digits
_START = re.compile(r"^(\d{0,9})([-+#.)])")  # lists and headings
_IN_CODE = re.compile(r"[^A-Za-z0-9 ./,()-]|(?<=www)\.")
_APART = "&#8203;"


@dataclass(frozen=True)
class Fold:
    """A part that is shown when it is asked for; it is cut between two of its blocks."""

    title: str
    blocks: tuple[str, ...]
    head: str = ""  # a table's

    @property
    def is_table(self) -> bool:
        return bool(self.head)


def markdown(report: GateReport, *, most: int = COMMENT) -> str:
    """The summary, in at most `most` bytes of UTF-8. What does not fit is left out from the end, and that is said."""
    quiet = report.answer is Answer.PASSED and not gate_wording.asides(report)
    top = "\n".join([MARKER, _verdict(report), "", *_quiet_lines(report), ""] if quiet else _top(report))
    folds = list(_quiet_folds(report)) if quiet else list(_folds(report))
    return top + _fitted(folds, most - len(top.encode()))


def text(outside: str, limit: int = gate_wording.LONGEST_SENTENCE) -> str:
    """Text from outside, as one line that is only text: no markup, no link, no mention, no commit."""
    line = html.escape(gate_wording.said(outside, limit), quote=False)
    line = _LINKED.sub("\u200b", _COMMIT.sub(_parted, line))
    line = _DOLLAR.sub("&#36;", _SPECIAL.sub(r"\\\g<0>", line))
    return _START.sub(r"\1\\\2", line).replace("\u200b", _APART)


def code(outside: str, limit: int = gate_wording.LONGEST_SENTENCE) -> str:
    """Text from outside as inline code, to be copied as it is; holds in a table, too."""
    line = gate_wording.said(outside, limit)
    return f"<code>{_IN_CODE.sub(_reference, line)}</code>" if line else ""


def block(outside: str) -> str:
    """Lines from outside as a block of code."""
    lines = gate_wording.log(outside)
    longest = max((len(run) for run in re.findall(r"`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{lines}\n{fence}"


def _parted(match: re.Match[str]) -> str:
    digits = match[0]
    return "\u200b".join(digits[at : at + _SHORT_OF_A_COMMIT] for at in range(0, len(digits), _SHORT_OF_A_COMMIT))


def _reference(match: re.Match[str]) -> str:
    sign = match[0]
    return f"&#{ord(sign)};" if sign.isascii() else sign


def _top(report: GateReport) -> list[str]:
    """The verdict, and at most ten lines."""
    lines = [MARKER, _verdict(report), "", *_difference_lines(report), ""]
    findings = _worst(report)
    lines += [f"- {one}" for one in findings[:_MOST_FINDINGS]]
    if len(findings) > _MOST_FINDINGS:
        lines.append(f"- and {len(findings) - _MOST_FINDINGS:,} more, below")
    return [*lines, *([""] if findings else []), _closing(report), ""]


def _worst(report: GateReport) -> list[str]:
    """What the answer rests on, worst first: what fails the gate, or else what keeps it from an answer."""
    told = gate_wording.told_once(report, report.failing or report.of(Standing.OPEN))
    if told or report.answer is not Answer.UNDECIDED:
        return [_finding(report, one) for one in told]
    broken = [_finding(report, one) for one in gate_wording.told_once(report, report.of(Standing.BASE))]
    return broken + [f"not measured: {text(what)}: {text(why)}" for what, why in gate_wording.not_measured(report)]


def _verdict(report: GateReport) -> str:
    culprits = gate_wording.culprits(report)
    blame = f". **Blame: {text(culprits)}**" if culprits and report.answer is Answer.FAILED else ""
    return f"**{_SIGNS[report.answer]} Kernel Watchdog: {report.answer}.** {_sentence(report)}{blame}"


def _sentence(report: GateReport) -> str:
    reason = text(gate_wording.reason(report))
    return reason[:1].upper() + reason[1:]


def _difference_lines(report: GateReport) -> list[str]:
    base, head = map(code, gate_wording.sides(report.difference))
    changes = report.difference.changes
    named = [text(gate_wording.change(one), 160) for one in changes]
    shown = wording.listed(_bold_first(named), _MOST_CHANGES) if named else "no package differs"
    warnings = report.difference.warnings
    lines = [f"{base} → {head}: {shown}"]
    lines += [f"⚠️ {text(one)}" for one in warnings[:_MOST_WARNINGS]]
    if len(warnings) > _MOST_WARNINGS:
        lines[-1] += f" (and {wording.count(len(warnings) - _MOST_WARNINGS, 'more warning')})"
    return ["  \n".join(lines)]


def _bold_first(named: list[str]) -> list[str]:
    return [f"**{named[0]}**", *named[1:]]


def _finding(report: GateReport, told: Told) -> str:
    facts = [text(fact, 200) for fact in gate_wording.facts(report, told.judged)]
    beside = f" · {' · '.join(facts)}" if facts else ""
    elsewhere = f" ({told.elsewhere})" if told.elsewhere else ""
    return f"**{text(gate_wording.topic(told.verdict))}**{elsewhere}: {text(told.verdict.summary)}{beside}"


def _closing(report: GateReport) -> str:
    asides = gate_wording.asides(report)
    parts = [asides, gate_wording.counts(report), gate_wording.took(report)]
    return f"<sub>{' · '.join(filter(None, parts))}</sub>"


def _quiet_lines(report: GateReport) -> list[str]:
    return [*_difference_lines(report), "", _closing(report)]


def _quiet_folds(report: GateReport) -> Iterable[Fold]:
    """All of it in one fold."""
    parts = [one for one in _folds(report) if one.blocks]
    blocks = [
        piece
        for fold in parts
        for piece in (f"**{fold.title}**\n", "\n".join([fold.head, *fold.blocks]).strip("\n"), "")
    ]
    yield Fold("Details", tuple(blocks))


def _folds(report: GateReport) -> Iterable[Fold]:
    yield _changes(report)
    yield _findings(report, "All findings", report.failing)
    yield _path(report.blames)
    yield _logs(report)
    yield _findings(report, gate_wording.title(Standing.OPEN), report.of(Standing.OPEN))
    if not report.strict:
        yield _findings(report, gate_wording.title(Standing.STILL), report.of(Standing.STILL))
    yield _findings(report, gate_wording.title(Standing.BASE), report.of(Standing.BASE))
    yield _accepted(report)
    yield _findings(report, "Undecided with and without the change", gate_wording.undecided_before(report))
    yield _not_measured(report)
    yield _seen(report)


def _changes(report: GateReport) -> Fold:
    changes = report.difference.changes
    rows = tuple(
        _row(
            text(one.package.name, 80),
            *(
                text(side, 80) if side else f"*{absent}*"
                for side, absent in ((one.package.old, "not there"), (one.package.new, "gone"))
            ),
            one.depth,
        )
        for one in changes
    )
    return Fold(f"The difference: {wording.count(len(changes), 'package')}", rows, _head("package", "old", "new", ""))


def _findings(report: GateReport, title: str, judged: Sequence[Judged]) -> Fold:
    """Every verdict with its figure and the smallest change that would have been seen."""
    rows = tuple(_finding_row(report, one) for one in gate_wording.worst_first(judged))
    head = _head("what", "figure", "smallest visible", "suspect", "blame")
    return Fold(f"{title} ({len(rows):,})", rows, head)


def _finding_row(report: GateReport, one: Judged) -> str:
    verdict = one.verdict
    said = f"**{text(gate_wording.topic(verdict))}**: {text(verdict.summary)}"
    where = f"<br>at {code(verdict.where, 120)}" if verdict.where else ""
    note = f"<br>{text(gate_wording.acceptance(one.acceptance))}" if one.acceptance else ""
    figures = (text(gate_wording.figure(verdict)), text(gate_wording.smallest(verdict)))
    name = f"<br>{code(verdict.id)}" if verdict.status is Status.REGRESSED else ""
    return _row(
        f"{said}{where}{note}{name}",
        *figures,
        gate_wording.suspect(verdict),
        text(gate_wording.blamed(report, verdict)),
    )


def _path(blames: Sequence[Blame]) -> Fold:
    """How the package was found."""
    blocks: list[str] = []
    for blame in blames:
        blocks.append(f"{text(blame.said)}\n")
        for probe in blame.path:
            remembered = ", remembered" if probe.remembered else ""
            took = f"{wording.duration(probe.seconds)}{remembered}"
            blocks.append(f"1. {text(probe.what, 200)}: **{probe.result}** ({took}) {text(probe.said)}")
        blocks.append("")
    return Fold("Which package did it", tuple(blocks))


def _logs(report: GateReport) -> Fold:
    told = [one for one in gate_wording.worst_first(report.judged) if one.log_tail.strip()]
    blocks = tuple(
        f"**{text(gate_wording.topic(one.verdict))}**\n\n{block(one.log_tail)}\n" for one in told[:_MOST_LOGS]
    )
    more = (f"and {len(told) - _MOST_LOGS:,} more",) if len(told) > _MOST_LOGS else ()
    return Fold(f"Ends of logs ({len(told):,})", (*blocks, *more))


def _accepted(report: GateReport) -> Fold:
    judged = gate_wording.worst_first(report.of(Standing.ACCEPTED))
    rows = tuple(
        _row(
            f"**{text(gate_wording.topic(one.verdict))}**: {text(one.verdict.summary)}",
            text(gate_wording.figure(one.verdict)),
            text(gate_wording.acceptance(one.acceptance)) if one.acceptance else "",
        )
        for one in judged
    )
    return Fold(f"{gate_wording.title(Standing.ACCEPTED)} ({len(rows):,})", rows, _head("what", "figure", "why"))


def _not_measured(report: GateReport) -> Fold:
    skipped = gate_wording.not_measured(report)
    blocks = [f"- {text(what)}: {text(why)}" for what, why in skipped] + [f"- {text(note)}" for note in report.notes]
    return Fold("Not measured, and why", tuple(blocks))


def _seen(report: GateReport) -> Fold:
    seen = gate_wording.seen_well(report)
    rows = [
        _row(
            text(gate_wording.topic(one.verdict)),
            one.verdict.status.value,
            *(text(figure) for figure in (gate_wording.figure(one.verdict), gate_wording.smallest(one.verdict))),
        )
        for one in seen[:_MOST_SEEN]
    ]
    if len(seen) > _MOST_SEEN:
        rows.append(_row(f"and {len(seen) - _MOST_SEEN:,} more", "", "", ""))
    head = _head("what", "", "figure", "smallest visible")
    return Fold(f"Measured and fine ({len(seen):,})", tuple(rows), head)


def _head(*names: str) -> str:
    return f"{_row(*names)}\n{_row(*('---' for _ in names))}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _fitted(folds: Sequence[Fold], room: int) -> str:
    """The folds, as far as there is room in bytes; the rest is named."""
    written: list[str] = []
    left_out: list[str] = []
    for fold in folds:
        if not fold.blocks:
            continue
        piece = _folded(fold, room - _ROOM_FOR_APOLOGY)
        if piece is None:
            left_out.append(fold.title)
        else:
            written.append(piece)
            room -= len(piece.encode())
    if left_out:
        written.append(f"\n<sub>Left out for want of room: {wording.listed(left_out, 4)}.</sub>\n")
    return "".join(written)


def _folded(fold: Fold, room: int) -> str | None:
    """A fold in at most so many bytes, cut between blocks; None when not even its first block fits."""
    start = f"\n<details><summary>{fold.title}</summary>\n\n" + (f"{fold.head}\n" if fold.is_table else "")
    end = "\n</details>\n"
    room -= len((start + end).encode()) + _ROOM_FOR_APOLOGY
    kept = _prefix(fold.blocks, room)
    if not kept:
        return None
    cut = len(fold.blocks) - len(kept)
    apology = f"\n\n*{cut:,} more left out for want of room.*" if cut else ""
    return start + "\n".join(kept) + apology + "\n" + end


def _prefix(blocks: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for one in blocks:
        room -= len(one.encode()) + 1
        if room < 0:
            break
        kept.append(one)
    return kept
