"""What is known of a kernel beforehand, and what a run made of it: the words of the campaign, and how they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

RELEASES = ("0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.11.0", "0.12.0")
GENERATIONS = ("v3", "v4", "v5e", "v5p", "v6e", "tpu7x")
HOST = "host"
EVERY_TPU = "every generation"
_TPU7X_SINCE = "0.8.1"  # older ones' libtpu does not know this generation


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a kernel, where it is wrong, and from which release to which.

    `check` must say it, of one of `kinds` (the judges' words); other checks may say it as well, in one of these words.
    `compared` findings are changes: they need a baseline older than `since`.
    """

    kinds: tuple[str, ...]
    check: str
    where: str | tuple[str, ...] = EVERY_TPU  # a generation, or several, or HOST
    since: str = RELEASES[0]
    until: str = RELEASES[-1]
    compared: bool = False

    def holds(self, release: str, target: str, baseline: str) -> bool:
        """Whether it must be found in this release for this target."""
        if not version(self.since) <= version(release) <= version(self.until) or not self._concerns(target):
            return False
        return not self.compared or (version(baseline) < version(self.since) and exists(baseline, target))

    def _concerns(self, target: str) -> bool:
        if self.where == EVERY_TPU:
            return target != HOST
        return target in ((self.where,) if isinstance(self.where, str) else self.where)


@dataclass(frozen=True)
class Watched:
    """A kernel of the campaign. `path` is the folder that its modules are found in."""

    name: str
    custom: str
    native: str
    args: tuple[str, ...]
    path: str
    findings: tuple[Finding, ...] = ()
    differentiate: tuple[int, ...] | None = ()
    faulty: str = "custom"  # the implementation that the findings are about
    targets: tuple[str, ...] = (HOST, *GENERATIONS)  # for which its fate is known
    unanswerable: tuple[str, ...] = ()  # targets of which nothing can be said: silence is right there, a finding is not
    bare: bool = False  # under pins that lack what a release forgot to require; only its import is asked


class Answer(StrEnum):
    """What the program made of a kernel in one release for one target."""

    RIGHT = "right"
    MISSED = "missed"
    INVENTED = "invented"
    UNKNOWN = "not asked"


@dataclass(frozen=True)
class Row:
    """One kernel in one release for one target: what was expected, what was said, and what that makes."""

    kernel: str
    release: str
    target: str
    answer: Answer
    expected: tuple[str, ...]
    said: tuple[str, ...]  # first sentences of what is told of it


def version(text: str) -> tuple[int, ...]:
    """A release in an order: "0.10.2" comes after "0.9.2"."""
    return tuple(int(part) for part in text.split("."))


def exists(release: str, generation: str) -> bool:
    """Whether the compiler of a release knows a generation."""
    return generation != "tpu7x" or version(release) >= version(_TPU7X_SINCE)


def rows(
    kernels: Iterable[Watched], run: Mapping[str, Any], releases: Sequence[str], targets: Sequence[str]
) -> list[Row]:
    """Every kernel in every release for every target; `run` is what `watchdog run --json` wrote."""
    return [
        _row(kernel, release, target, min(releases, key=version), run["verdicts"])
        for kernel in kernels
        for release in releases
        for target in targets
        if exists(release, target) and target in kernel.targets
    ]


def _row(kernel: Watched, release: str, target: str, baseline: str, verdicts: Sequence[Mapping[str, Any]]) -> Row:
    expected = [one for one in kernel.findings if one.holds(release, target, baseline)]
    subject = (kernel.name, kernel.faulty, release)
    about = [one for one in verdicts if (one["kernel"], one["implementation"], one["pins"]) == subject]
    mine = [one for one in about if _told_at(one, target)]
    wrong = [one for one in mine if one["status"] == "regressed"]
    return Row(
        kernel.name,
        release,
        target,
        _answer(expected, wrong, asked=target in kernel.unanswerable or any(_answers(one) for one in mine)),
        tuple(f"{one.check}: {' or '.join(one.kinds)}" for one in expected),
        tuple(f"{one['aspect']}: {one['kind']}: {one['summary']}" for one in wrong),
    )


def _told_at(verdict: Mapping[str, Any], target: str) -> bool:
    """An import has no target: it is told of each."""
    named = target if target == HOST else f"tpu:{target}"
    return any(verdict["target"] == one for one in (named, None, ""))


def _answers(verdict: Mapping[str, Any]) -> bool:
    """Whether it says anything of the kernel there; that it imports says nothing of a target."""
    silent = ("skipped", "pass") if verdict["aspect"] == "import" else ("skipped",)
    return all(verdict["status"] != one for one in silent)


def _answer(expected: Sequence[Finding], wrong: Sequence[Mapping[str, Any]], *, asked: bool) -> Answer:
    if any(not _is_said(one, wrong) for one in expected):
        return Answer.MISSED
    if not asked:
        return Answer.UNKNOWN
    words = {kind for one in expected for kind in one.kinds}
    return Answer.INVENTED if any(one["kind"] not in words for one in wrong) else Answer.RIGHT


def _is_said(expected: Finding, wrong: Iterable[Mapping[str, Any]]) -> bool:
    return any(one["aspect"] == expected.check for one in wrong if one["kind"] in expected.kinds)


def table(found: Iterable[Row]) -> Iterator[str]:
    """The rows as lines of text, what is not right with its sentences."""
    for row in found:
        yield f"{row.answer:<9} {row.release:<7} {row.target:<6} {row.kernel:<28} {'; '.join(row.expected) or 'sound'}"
        yield from (f"          {sentence[:220]}" for sentence in row.said)
