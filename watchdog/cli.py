"""The command line: the only place that prints and exits."""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from watchdog import __version__, cli_gate, cli_search
from watchdog.cli_shared import (
    CaseOption,
    CheckOption,
    ColorOption,
    ConfigOption,
    ImplementationOption,
    JsonOption,
    KernelOption,
    OutOption,
    PinsOption,
    QuietOption,
    RunArgument,
    ScenarioOption,
    TargetOption,
    check_writable,
    environment_cache,
    load_config,
    load_if_present,
    made_console,
    opened_store,
    progress_on,
    say,
    write_json,
    write_report,
)
from watchdog.errors import UsageError, WatchdogError

app = typer.Typer(
    name="watchdog",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Tells you that a custom accelerator kernel leaks, got slower, went wrong or broke after an upgrade, and why.",
)
environments_app = typer.Typer(no_args_is_help=True, help="The environments in the cache.")
app.add_typer(environments_app, name="environments")
cli_gate.add_to(app)
cli_search.add_to(app)

_OUTPUT_ENDED = (errno.ENOSPC, errno.EDQUOT, errno.EPIPE)  # a full disk, a quota, a reader that has gone
_USAGE, _INCOMPLETE = 2, 3  # exit codes


def main() -> NoReturn:
    """Run the program; every error that a user can mend is one sentence and an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(prog_name="watchdog", standalone_mode=False)  # what a command exits with, or None
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last place before the shell
        code = _explain(error)
    sys.exit(code or 0)


def _explain(error: BaseException) -> int:
    """Say what ended a command early; returns the exit code."""
    match error:
        case WatchdogError():
            say(f"error: {error}")
            return error.exit_code
        case KeyboardInterrupt():
            say("stopped")
            return _INCOMPLETE
        case OSError() if error.errno in _OUTPUT_ENDED:
            say(f"error: the output could not be written: {error.strerror}")
            return _INCOMPLETE
        case typer.Abort():
            return _USAGE
    if hasattr(error, "show"):  # Typer's own errors, such as an unknown option, are shown its way
        error.show()
        return _USAGE
    traceback.print_exception(error)
    return _INCOMPLETE  # a fault of ours is not 1, which says that something regressed


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _version(wanted: bool) -> None:  # a callback of Typer, which calls it so
    if wanted:
        print(f"kernel-watchdog {__version__}")  # noqa: T201  # the one plain line
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[  # its callback does it, before a command is asked for
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    pass


@app.command()
def init(
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Copy the bundled flash-attention kernel and its configuration.")
    ] = False,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write.")] = Path(),
) -> None:
    """Write a commented watchdog.toml for your own kernel, and explain it."""
    from watchdog import scaffold

    written = scaffold.write_demo(directory) if demo else scaffold.write_starter(directory)
    for path in written:
        say(f"wrote {path}")
    say(scaffold.demo_steps() if demo else scaffold.starter_steps())


@app.command("check-config")
def check_config(*, config: ConfigOption = None) -> None:
    """Read the configuration, name every mistake in it, and say what a run would ask."""
    from watchdog import plan

    loaded = load_config(config)
    cells = plan.cells(loaded, plan.Selection())
    say(
        f"{loaded.path}: {len(loaded.kernel)} kernels, {len(loaded.pins)} pins (baseline {loaded.baseline}), "
        f"{len(loaded.watchdog.targets)} targets: {len(cells)} cells"
    )


@app.command()
def doctor(*, config: ConfigOption = None, no_color: ColorOption = False) -> None:
    """Say what this machine can and cannot answer, and why. Exit code 2 when something must be mended first."""
    from watchdog import doctor as examination
    from watchdog.environments import EnvironmentCache
    from watchdog.publish import terminal
    from watchdog.store.engine import open_store
    from watchdog.uv import Uv

    loaded = load_if_present(config)
    folder = loaded.environments_directory if loaded else None
    findings = examination.examine(
        Uv.found,
        lambda uv: EnvironmentCache(folder, uv),
        lambda: open_store(loaded.database_url, root=loaded.root).close() if loaded else None,
    )
    terminal.doctor_table(findings, made_console(no_color=no_color))
    if any(finding.level is examination.Level.PROBLEM for finding in findings):
        raise typer.Exit(2)


@app.command()
def run(
    *,
    config: ConfigOption = None,
    pins: PinsOption = None,
    kernel: KernelOption = None,
    case: CaseOption = None,
    implementation: ImplementationOption = None,
    target: TargetOption = None,
    check: CheckOption = None,
    scenario: ScenarioOption = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish the latest run that was stopped or killed.")] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Resolve the pins anew instead of keeping their locks.")
    ] = False,
    quiet: QuietOption = False,
    no_color: ColorOption = False,
) -> None:
    """Build the pinned environments, ask every question, judge, and write the report.

    Exit code: 0 all well, 1 something regressed, 2 a mistake in configuration or use, 3 incomplete.
    """
    from watchdog import plan, reporting
    from watchdog import run as running
    from watchdog.environments import EnvironmentCache
    from watchdog.runner import Interrupted
    from watchdog.store import reader

    loaded = load_config(config)
    chosen = (pins, kernel, case, implementation, target, check, scenario)
    selection = plan.Selection(*(tuple(given or ()) for given in chosen))
    if resume and selection != plan.Selection():
        msg = "--resume finishes what a run began with; it takes no other selection"
        raise UsageError(msg)
    folder = out or loaded.report_directory
    reporting.check_place(folder)  # now, rather than when hours have been spent
    check_writable(json_file)
    if not resume:  # a run goes on in the folder that it began with
        EnvironmentCache(loaded.environments_directory).prepare()
    with opened_store(loaded) as store:
        started = running.resumed(store) if resume else running.begin(store, loaded, selection)
        console = made_console(no_color=no_color)
        try:
            code = running.run(store, started, progress_on(console, quiet=quiet), refresh=refresh)
        except Interrupted:
            say(f"stopped; what was seen is kept. `watchdog run --resume` finishes run {started.id}")
            raise typer.Exit(running.INCOMPLETE) from None
        finished = reader.run(store, started.id)
        if json_file is not None:
            write_json(reporting.document(store, finished), json_file)
        page = write_report(store, finished, folder)
        if not quiet:
            from watchdog.publish import terminal

            terminal.closing_table(reporting.report(store, finished), console, page=page)
    raise typer.Exit(code)


@app.command()
def runs(*, config: ConfigOption = None, no_color: ColorOption = False) -> None:
    """List the runs, latest first."""
    from watchdog import reporting
    from watchdog.publish import terminal

    with opened_store(load_config(config)) as store:
        terminal.run_table(reporting.summaries(store), made_console(no_color=no_color, stderr=False))


@app.command()
def show(
    run_name: RunArgument = "latest",
    *,
    config: ConfigOption = None,
    json_file: JsonOption = None,
    no_color: ColorOption = False,
) -> None:
    """Show one run whole: every verdict, its figures, and the end of the log of what failed."""
    from watchdog import reporting
    from watchdog.publish import terminal
    from watchdog.store import reader

    with opened_store(load_config(config)) as store:
        found = reader.run(store, run_name)
        if json_file is not None:
            write_json(reporting.document(store, found), json_file)
        else:
            terminal.run_detail(reporting.report(store, found), made_console(no_color=no_color, stderr=False))


@app.command()
def report(
    run_name: RunArgument = "latest",
    *,
    config: ConfigOption = None,
    out: OutOption = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the HTML report anew from what is stored."""
    from watchdog import reporting
    from watchdog.store import reader

    loaded = load_config(config)
    with opened_store(loaded) as store:
        page = reporting.write(store, reader.run(store, run_name), out or loaded.report_directory)
    say(f"Report: {page}")
    if open_page:
        typer.launch(page.as_uri())


@app.command()
def selftest(
    *,
    config: ConfigOption = None,
    pins: PinsOption = None,
    json_file: JsonOption = None,
    quiet: QuietOption = False,
    no_color: ColorOption = False,
) -> None:
    """Plant leaks of known size and look for them with the memory check, under the baseline pins.

    Exit code: 0 all that the check says it can see was found and nothing else, 1 otherwise, 3 nothing was measured.
    """
    from watchdog import selftest as testing
    from watchdog.publish.selftest_table import selftest_table
    from watchdog.runner import Interrupted

    loaded = load_if_present(config)
    check_writable(json_file)
    console = made_console(no_color=no_color)
    try:
        outcomes = testing.selftest(loaded, pins or (), progress_on(console, quiet=quiet), testing.PLANTS)
    except Interrupted:
        say("stopped; a selftest keeps nothing")
        raise typer.Exit(_INCOMPLETE) from None
    if json_file is not None:
        write_json(testing.document(outcomes), json_file)
    if not quiet:
        selftest_table(outcomes, console)
    raise typer.Exit(outcomes.exit_code)


@environments_app.command("list")
def environments_list(*, config: ConfigOption = None, no_color: ColorOption = False) -> None:
    """List the environments in the cache, last used first."""
    from watchdog.publish import terminal

    terminal.environments_table(
        environment_cache(config).list_environments(), made_console(no_color=no_color, stderr=False)
    )


@environments_app.command("prune")
def environments_prune(
    *,
    config: ConfigOption = None,
    older_than: Annotated[
        int, typer.Option("--older-than", metavar="DAYS", min=0, help="Only those unused for so long.")
    ] = 30,
    everything: Annotated[bool, typer.Option("--all", help="All of them, whenever they were used.")] = False,
) -> None:
    """Remove environments that have not been used for a while. Those in use stay."""
    from watchdog.publish import wording

    pruned = environment_cache(config).prune(older_than=timedelta(0) if everything else timedelta(days=older_than))
    removed = [one.environment.bytes for one in pruned if one.removed]
    kept = len(pruned) - len(removed)
    said = f"removed {wording.count(len(removed), 'environment')}, {wording.amount(sum(removed), 'B')}"
    say(f"{said}; {kept} more in use, which stay" if kept else said)
