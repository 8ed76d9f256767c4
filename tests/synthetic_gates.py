"""Gates that never happened, to publish: one that failed, one that passed, one undecided, one made of hostile text."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from watchdog.acceptances import Acceptance
from watchdog.gate.report import (
    Answer,
    Blame,
    Change,
    Difference,
    GateReport,
    Judged,
    Probe,
    Probed,
    Side,
    Standing,
)
from watchdog.model import Amount, Cell, Check, Figure, PackageChange, Status, Suspect, Verdict

HOSTILE = (
    "</details></code><script>alert(1)</script><img src=x onerror=alert(1)> [x](javascript:alert(1)) ![i](http://e.example/i.png)"
    " **b** _i_ `c` ```\n# h\n- l\n1. n\n| a | b |\n> q\n @torvalds #123 octo/repo#5 GH-7 deadbeefcafe1234 www.e.example"
    " ::error file=x::y %0A ]]> &amp; $x$ :tada: ~~s~~ !5 \x1b[31mred\x1b[0m \x07\u202e\x00\ud800 https://u:hunter2@e.example/p"
)
_TRACEBACK = """Traceback (most recent call last):
  File "site-packages/jax/experimental/pallas/ops/tpu/flash_attention.py", line 24, in <module>
    from absl import logging
ModuleNotFoundError: No module named 'absl'
"""
_TIMES = Figure(1.12, 1.09, 1.15, "x")
_BLAMED = PackageChange("jax", "0.8.3", "0.9.2")


def failed() -> GateReport:
    """A bump that breaks an import, slows a kernel and grows a leak; some things were broken before, one is accepted."""
    missing = _head(
        "jax_flash_attention",
        Check.IMPORT,
        "does not import: module absl is missing, which jax 0.9.2 no longer requires",
        kind="missing dependency",
        suspect=Suspect.LIBRARY,
        where="flash_attention.py:24",
        case="",
        target="",
    )
    slower = _head(
        "flash_attention",
        Check.TIMING,
        "412 µs per call, 1.12 times that of base (between 1.09 and 1.15); the native implementation did not move",
        kind="slower",
        suspect=Suspect.KERNEL,
        figure=_TIMES,
        detectable=Amount(1.03, "x"),
        signal="seconds",
        case="prefill_2k_causal",
    )
    leaks = [
        _head(
            "flash_attention",
            Check.MEMORY,
            "leaks one 16 KiB array per call, kept alive by _cache in my_kernel.py:12",
            kind="leak",
            suspect=Suspect.KERNEL,
            figure=Figure.exact(16384, "B/call"),
            detectable=Amount(32, "B/call"),
            where="my_kernel.py:12",
            scenario=scenario,
            signal="device_bytes",
        )
        for scenario in ("steady", "eager", "grad")
    ]
    wrong = _head(
        "router",
        Check.NUMERICS,
        "wrong by 0.03 of the result's scale, where 0.01 is allowed",
        kind="wrong numbers",
        suspect=Suspect.LIBRARY,
        figure=Figure.exact(0.03, "ratio"),
        detectable=None,
    )
    racing = _head(
        "router",
        Check.RACES,
        "reads a copy before it has arrived",
        kind="race",
        suspect=Suspect.KERNEL,
        where="router.py:88",
    )
    spills = _head(
        "flash_attention",
        Check.SCHEDULE,
        "spills 12 vectors where it spilled none",
        kind="spills",
        figure=Figure.exact(12, "vectors"),
        suspect=Suspect.LIBRARY,
        target="tpu:v5e",
    )
    open_ = _head(
        "flash_attention",
        Check.TIMING,
        "1.02 times that of base (between 0.97 and 1.07): the budget ended",
        status=Status.INCONCLUSIVE,
        figure=Figure(1.02, 0.97, 1.07, "x"),
        detectable=Amount(1.06, "x"),
        signal="seconds",
        implementation="native",
    )
    accepted = Acceptance(
        leaks[0].id,
        "a cache of 1 MiB, intended since #412",
        "Ada",
        datetime.date(2026, 11, 2),
        datetime.date(2027, 1, 31),
        "more memory",
        Figure.exact(1 << 20, "B"),
    )
    more = _head(
        "router",
        Check.MEMORY,
        "takes 1 MiB more than under base",
        kind="more memory",
        figure=Figure.exact(1 << 20, "B"),
        suspect=Suspect.KERNEL,
        signal="device_bytes",
        scenario="steady",
    )
    before = _under_base(wrong)
    judged = (
        Judged(
            missing,
            Standing.BUMP,
            log_tail=_TRACEBACK,
            before=replace(_under_base(missing), status=Status.PASS, summary="imports"),
        ),
        Judged(slower, Standing.BUMP),
        *(Judged(one, Standing.BUMP) for one in leaks),
        Judged(racing, Standing.BUMP, log_tail="copy 3 was read at router.py:88"),
        Judged(
            spills,
            Standing.BUMP,
            replace(
                accepted,
                verdict=spills.id,
                reason="fewer bundles",
                kind="spills",
                expired="the figure moved again: 4 vectors was accepted, and now it is 12 vectors",
            ),
        ),
        Judged(wrong, Standing.STILL, before=before),
        Judged(
            replace(
                _under_base(racing),
                cell=replace(racing.cell, pins="base", case="large"),
                summary="crashed: signal 11 (SIGSEGV)",
            ),
            Standing.BASE,
            log_tail="Fatal Python error",
        ),
        Judged(more, Standing.ACCEPTED, accepted),
        Judged(open_, Standing.OPEN),
        *_fine(),
    )
    blames = (
        Blame((missing.id,), (_BLAMED,), "jax 0.9.2 alone brings it: the rest of the change is innocent", _path()),
        Blame((slower.id, racing.id), (), "the budget ended before the package was found", _path()[:2], complete=False),
        Blame(
            (leaks[0].id, leaks[1].id, leaks[2].id),
            (PackageChange("my-kernels", "1.3", "1.4"),),
            "my-kernels 1.4 brings it",
        ),
    )
    return GateReport(
        "2026-12-04T02:00:00Z-7f3a",
        "2026-12-04T02:00:00+00:00",
        187.4,
        Answer.FAILED,
        1,
        "the change causes 7 regressions (missing dependency, slower and 3 more) in flash_attention, jax_flash_attention and router",
        difference(),
        judged,
        blames,
        ("the memory scenario reload was not asked: --check left it out",),
    )


def passed() -> GateReport:
    """A bump that breaks nothing."""
    return replace(
        failed(),
        answer=Answer.PASSED,
        exit_code=0,
        headline="the change breaks nothing: 42 questions answered",
        judged=_fine(),
        blames=(),
        notes=(),
    )


def undecided() -> GateReport:
    """A gate whose budget ended before the times could be told apart."""
    told = tuple(one for one in failed().judged if one.standing in (Standing.OPEN, Standing.FINE))
    return replace(
        failed(),
        answer=Answer.UNDECIDED,
        exit_code=3,
        headline="undecided: 1 question could not be answered either way",
        judged=told,
        blames=(),
    )


def nothing_measured() -> GateReport:
    """Every question was skipped."""
    told = tuple(one for one in _fine() if one.verdict.status is Status.SKIPPED)
    return replace(
        undecided(),
        headline="undecided: nothing could be measured under uv.lock, so nothing is known of the change",
        judged=told,
        notes=(),
    )


def unneeded() -> GateReport:
    """Nothing that the kernels depend on changed: no run was made."""
    return replace(
        passed(),
        run_id="",
        seconds=0.0,
        headline="ruff and 2 more packages changed, which no kernel imports",
        judged=(),
    )


def only_still(*, strict: bool) -> GateReport:
    """What is wrong was wrong before."""
    told = (*failed().of(Standing.STILL), *_fine())
    if strict:
        return replace(failed(), judged=told, blames=(), headline="1 finding is still there (--strict)", strict=True)
    return replace(passed(), judged=told)


def crowded(findings: int) -> GateReport:
    """A gate with many findings, each with a long log."""
    one = failed().judged[0]
    many = (
        replace(
            one,
            verdict=replace(one.verdict, cell=replace(one.verdict.cell, kernel=f"kernel_{number}")),
            log_tail=_TRACEBACK * 40,
        )
        for number in range(findings)
    )
    return replace(failed(), judged=tuple(many))


def hostile() -> GateReport:
    """The failed gate, with hostile text wherever text may come from outside."""
    return rewritten(failed(), lambda text: f"{text} {HOSTILE}")


def rewritten(report: GateReport, rewrite: Callable[[str], str]) -> GateReport:
    """The report with every text that may come from outside changed; what is empty stays so."""

    def change(text: str) -> str:
        return rewrite(text) if text else text

    moved = report.difference
    return replace(
        report,
        headline=change(report.headline),
        notes=tuple(map(change, report.notes)),
        difference=Difference(
            replace(moved.base, given=change(moved.base.given)),
            replace(moved.head, given=change(moved.head.given)),
            tuple(replace(one, package=_rewritten_package(one.package, change)) for one in moved.changes),
            tuple(map(change, moved.warnings)),
        ),
        judged=tuple(_rewritten_judged(one, change) for one in report.judged),
        blames=tuple(
            replace(
                one,
                verdicts=tuple(_rewritten_id(report, name, change) for name in one.verdicts),
                packages=tuple(_rewritten_package(package, change) for package in one.packages),
                said=change(one.said),
                path=tuple(replace(probe, what=change(probe.what), said=change(probe.said)) for probe in one.path),
            )
            for one in report.blames
        ),
    )


def _rewritten_judged(one: Judged, change: Callable[[str], str]) -> Judged:
    accepted = one.acceptance
    if accepted is not None:
        expired = change(accepted.expired) if accepted.expired else None
        accepted = replace(accepted, reason=change(accepted.reason), by=change(accepted.by), expired=expired)
    return replace(
        one, verdict=_rewritten_verdict(one.verdict, change), acceptance=accepted, log_tail=change(one.log_tail)
    )


def _rewritten_verdict(verdict: Verdict, change: Callable[[str], str]) -> Verdict:
    return replace(
        verdict,
        cell=replace(verdict.cell, kernel=change(verdict.cell.kernel), case=change(verdict.cell.case)),
        summary=change(verdict.summary),
        kind=change(verdict.kind) if verdict.kind else None,
        where=change(verdict.where) if verdict.where else None,
    )


def _rewritten_id(report: GateReport, name: str, change: Callable[[str], str]) -> str:
    return next(_rewritten_verdict(one.verdict, change).id for one in report.judged if one.verdict.id == name)


def _rewritten_package(package: PackageChange, change: Callable[[str], str]) -> PackageChange:
    return replace(package, name=change(package.name), new=change(package.new) if package.new else None)


def difference() -> Difference:
    """jax and what it brings, and some that have nothing to do with it."""
    named = [
        ("jax", "0.8.3", "0.9.2", True),
        ("jaxlib", "0.8.3", "0.9.2", False),
        ("libtpu", "0.0.30", "0.0.24", False),
        ("my-kernels", "1.3", "1.4", True),
        ("absl-py", "2.3.1", None, False),
        *((f"package-{number}", f"1.{number}", f"1.{number + 1}", None) for number in range(10)),
    ]
    changes = tuple(Change(PackageChange(name, old, new), direct) for name, old, new, direct in named)
    return Difference(
        Side("base", "origin/main:uv.lock", "sha256:" + "ab" * 32, "3.12.8"),
        Side("head", "uv.lock", "sha256:" + "cd" * 32, "3.12.8"),
        changes,
        ("libtpu 0.0.24 is older than what jaxlib 0.9.2 was released with: they may not fit together",),
    )


def _path() -> tuple[Probe, ...]:
    return (
        Probe("jax 0.9.2 with jaxlib 0.9.2", Probed.BAD, "does not import: module absl is missing", 14.2),
        Probe("my-kernels 1.4", Probed.GOOD, "imports", 9.1, remembered=True),
        Probe("jaxlib 0.9.2", Probed.UNRESOLVABLE, "jax 0.8.3 needs jaxlib<=0.8.3", 0.4),
    )


def _fine() -> tuple[Judged, ...]:
    faster = _head(
        "flash_attention",
        Check.TIMING,
        "0.91 times that of base (between 0.89 and 0.93)",
        status=Status.IMPROVED,
        kind="faster",
        figure=Figure(0.91, 0.89, 0.93, "x"),
        detectable=Amount(1.02, "x"),
        signal="seconds",
        case="decode",
    )
    steady = [
        _head(
            "router",
            Check.MEMORY,
            "keeps nothing per call",
            status=Status.PASS,
            figure=Figure(0, -3, 3, "B/call"),
            detectable=Amount(32, "B/call"),
            scenario=scenario,
            signal="device_bytes",
        )
        for scenario in ("eager", "grad", "threads")
    ]
    skipped = [
        _head("flash_attention", Check.TIMING, "an interpreted kernel is never timed", status=Status.SKIPPED, case=case)
        for case in ("small", "grouped_query")
    ]
    installed = _head(
        "", Check.INSTALL, "installed 31 packages", status=Status.PASS, implementation="", case="", target=""
    )
    return tuple(Judged(one, Standing.FINE) for one in (faster, *steady, *skipped, installed))


def _head(
    kernel: str,
    check: Check,
    summary: str,
    *,
    status: Status = Status.REGRESSED,
    implementation: str = "custom",
    case: str = "small",
    target: str = "host",
    scenario: str = "",
    kind: str | None = None,
    suspect: Suspect | None = None,
    figure: Figure | None = None,
    detectable: Amount | None = None,
    signal: str | None = None,
    where: str | None = None,
) -> Verdict:
    cell = Cell(kernel, implementation, case, "head", target, check, scenario)
    return Verdict(cell, status, summary, "base", signal, kind, suspect, figure, detectable, where)


def _under_base(verdict: Verdict) -> Verdict:
    return replace(verdict, cell=replace(verdict.cell, pins="base"), baseline=None)
