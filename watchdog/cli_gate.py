"""The commands about a change of dependencies: gate, accept."""

from __future__ import annotations

import datetime
import getpass
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchdog.cli_shared import (
    BudgetOption,
    CaseOption,
    CheckOption,
    ColorOption,
    ConfigOption,
    ImplementationOption,
    JsonOption,
    KernelOption,
    OutOption,
    QuietOption,
    ScenarioOption,
    TargetOption,
    budget_seconds,
    check_writable,
    load_config,
    made_console,
    opened_store,
    progress_on,
    say,
    tell_probe,
    write_json,
    write_report,
    write_text,
)
from watchdog.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdog.gate.report import GateReport

_INCOMPLETE = 3  # exit code

PythonOption = Annotated[
    str | None, typer.Option("--python", metavar="VERSION", help="Python of sides that are files, as in 3.12.")
]
SideArgument = Annotated[
    str | None,
    typer.Argument(help="Pins of watchdog.toml, a requirements or lock file, or REF:path for a file at a git ref."),
]


def add_to(app: typer.Typer) -> None:
    """Make these commands the program's."""
    for command in (gate, accept):
        app.command()(command)


def gate(
    base: SideArgument = None,
    head: SideArgument = None,
    *,
    config: ConfigOption = None,
    kernel: KernelOption = None,
    case: CaseOption = None,
    implementation: ImplementationOption = None,
    target: TargetOption = None,
    check: CheckOption = None,
    scenario: ScenarioOption = None,
    only_changed: Annotated[
        bool, typer.Option("--only-changed", help="End at once when nothing that the kernels depend on changed.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on what was broken before, too.")] = False,
    blame: Annotated[bool, typer.Option("--blame/--no-blame", help="Find the package that did it.")] = True,
    budget: BudgetOption = None,
    python: PythonOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish the latest gate that was stopped or killed.")
    ] = False,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="Write a summary for a pull request.")
    ] = None,
    junit: Annotated[str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    sarif: Annotated[str | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
    no_color: ColorOption = False,
) -> None:
    """Say whether a change of dependencies, from BASE to HEAD, breaks a watched kernel, and which package did it.

    Exit code: 0 the change breaks nothing, 1 it does, 2 a mistake in use, 3 undecided or nothing was measured.
    """
    from watchdog import plan, reporting
    from watchdog.environments import EnvironmentCache
    from watchdog.gate import steps
    from watchdog.gate.answer import Strictness
    from watchdog.runner import Interrupted
    from watchdog.store import reader

    loaded = load_config(config)
    files = {"--markdown": markdown, "--junit": junit, "--sarif": sarif, "--json": json_file}
    for option, file in files.items():
        check_writable(file, option)
    chosen = (kernel, case, implementation, target, check, scenario)
    selection = plan.Selection((), *(tuple(given or ()) for given in chosen))
    folder = out or loaded.report_directory
    reporting.check_place(folder)
    EnvironmentCache(loaded.environments_directory).prepare()
    console = made_console(no_color=no_color)
    show = progress_on(console, quiet=quiet)
    with opened_store(loaded) as store:
        if resume:
            _refuse_sides(base, head)
            both, request, started = steps.resumed(store)
        else:
            strictness = Strictness.STRICT if strict else Strictness.THE_CHANGE_ALONE
            request = steps.Request(
                *_both(base, head), selection, python, budget_seconds(budget), strictness, search=blame
            )
            both = steps.resolve(store, loaded, request)
            sentence = steps.nothing_to_ask(both) if only_changed else None
            if sentence is not None:
                _write_outputs(steps.unneeded(both, sentence), files, loaded.root, console, None, quiet=quiet)
                raise typer.Exit(0)
            steps.refuse_equal(both)
            started = steps.begin(store, both, request)
        try:
            report = steps.Gate(store, both, request, started, show, tell_probe(quiet=quiet)).passed()
        except Interrupted:
            say(f"stopped; what was seen is kept. `watchdog gate --resume` finishes gate {started.id}")
            raise typer.Exit(_INCOMPLETE) from None
        page = write_report(store, reader.run(store, started.id), folder)
    _write_outputs(report, files, loaded.root, console, page, quiet=quiet)
    raise typer.Exit(report.exit_code)


def _write_outputs(
    report: GateReport, files: dict[str, str | None], root: Path, console: Any, page: Path | None, *, quiet: bool
) -> None:
    from watchdog.gate.document import document
    from watchdog.publish import annotations
    from watchdog.publish.gate_table import gate_table
    from watchdog.publish.junit import junit
    from watchdog.publish.markdown import markdown
    from watchdog.publish.sarif import sarif

    if not quiet:
        gate_table(report, console, page=page)
    writers: dict[str, Callable[[], str]] = {
        "--markdown": lambda: markdown(report),
        "--junit": lambda: junit(report),
        "--sarif": lambda: json.dumps(sarif(report, root), indent=2, ensure_ascii=False) + "\n",
    }
    for option, text in writers.items():
        file = files[option]
        if file is not None:
            write_text(text(), file, option)
    json_file = files["--json"]
    if json_file is not None:
        write_json(document(report), json_file)
    lines = annotations.write_github(report, os.environ)
    if json_file != "-":  # standard output is the document's
        for line in lines:
            print(line)  # noqa: T201  # GitHub reads them from standard output


def _both(base: str | None, head: str | None) -> tuple[str, str]:
    if base is None or head is None:
        msg = "name both sides: watchdog gate BASE HEAD, as in `watchdog gate origin/main:uv.lock uv.lock`"
        raise UsageError(msg)
    return base, head


def _refuse_sides(base: str | None, head: str | None) -> None:
    if base is not None or head is not None:
        msg = "--resume finishes what a gate began with; it takes no sides"
        raise UsageError(msg)


def accept(
    verdict: Annotated[str, typer.Argument(help="The verdict's id, as `--json` and the reports give it.")],
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why the change is intended.")],
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who says so; by default git's user.")] = None,
    until: Annotated[
        datetime.datetime | None,
        typer.Option("--until", metavar="DATE", formats=["%Y-%m-%d"], help="The last day on which it holds."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="A gate's or run's JSON, such as a CI job's, instead of the store."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Declare that a regression is intended: it is shown as accepted, and fails nothing until its figure moves again.

    It is written to watchdog.accepted.toml beside the configuration, to be reviewed and committed with the change.
    """
    from watchdog import acceptances, machine
    from watchdog.gate import accepting

    loaded = load_config(config)
    if source is None:
        with opened_store(loaded) as store:
            found = accepting.in_store(store, verdict)
    else:
        found = accepting.in_document(source, verdict)
    today = machine.today()
    acceptance = accepting.acceptance(found, reason, by or _user(loaded.root), today, until.date() if until else None)
    path = acceptances.beside(loaded.path)
    acceptances.add(path, acceptance)
    say(f"{path}: {found.id} is accepted by {acceptance.by}" + (f" until {acceptance.until}" if until else ""))


def _user(folder: Path) -> str:
    """Who is at work here: git's user, or else the system's."""
    asked = subprocess.run(
        ["git", "config", "user.name"], cwd=folder, capture_output=True, text=True, check=False, timeout=10
    )
    return asked.stdout.strip() or os.environ.get("GITHUB_ACTOR") or getpass.getuser()
