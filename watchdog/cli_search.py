"""The commands that search and measure for the gate: bisect, calibrate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from watchdog.cli_shared import (
    BudgetOption,
    CaseOption,
    ColorOption,
    ConfigOption,
    JsonOption,
    KernelOption,
    QuietOption,
    ScenarioOption,
    TargetOption,
    budget_seconds,
    check_writable,
    load_config,
    load_if_present,
    made_console,
    opened_store,
    progress_on,
    say,
    tell_probe,
    write_json,
)
from watchdog.errors import UsageError

if TYPE_CHECKING:
    from watchdog.model import Check

_INCOMPLETE = 3  # exit code
_MINUTES = 60.0


def add_to(app: typer.Typer) -> None:
    """Make these commands the program's."""
    for command in (bisect, calibrate):
        app.command()(command)


def bisect(
    package: Annotated[str, typer.Argument(help="The package whose releases are searched.")],
    good: Annotated[str, typer.Argument(help="A version under which the check is good.")],
    bad: Annotated[str, typer.Argument(help="A version under which it is bad; it may be the older one.")],
    *,
    kernel: Annotated[str, typer.Option("--kernel", metavar="NAME", help="The kernel.")],
    check: Annotated[str, typer.Option("--check", metavar="CHECK", help="The check that broke.")],
    implementation: Annotated[
        str, typer.Option("--implementation", metavar="NAME", help="Of this implementation.")
    ] = "custom",
    case: CaseOption = None,
    target: TargetOption = None,
    scenario: ScenarioOption = None,
    pins: Annotated[
        str | None, typer.Option("--pins", metavar="NAME", help="The rest of each environment; the baseline's if not.")
    ] = None,
    pre: Annotated[bool, typer.Option("--pre", help="Search pre-releases, too.")] = False,
    config: ConfigOption = None,
    budget: BudgetOption = None,
    json_file: JsonOption = None,
    quiet: QuietOption = False,
    no_color: ColorOption = False,
) -> None:
    """Find the first release of PACKAGE, from GOOD to BAD, under which a kernel's check is bad.

    Exit code: 0 when it is found and confirmed, 2 a mistake in use, 3 when it is not known for certain. What was learned
    is kept: stop it at any time, and the same command goes on from there.
    """
    from watchdog.environments import EnvironmentCache
    from watchdog.gate import bisect as bisection
    from watchdog.gate.deadline import Deadline
    from watchdog.gate.document import bisected_document
    from watchdog.gate.probes import Once
    from watchdog.gate.releases import PreReleases
    from watchdog.publish.bisect_table import bisect_table
    from watchdog.runner import Interrupted
    from watchdog.uv import Uv

    loaded = load_config(config)
    check_writable(json_file)
    console = made_console(no_color=no_color)
    asked = bisection.Asked(
        kernel=kernel,
        check=_check(check),
        package=package,
        good=good,
        bad=bad,
        implementation=implementation,
        cases=tuple(case or ()),
        targets=tuple(target or ()),
        scenarios=tuple(scenario or ()),
        pins=pins,
        pre_releases=PreReleases.INCLUDED if pre else PreReleases.LEFT_OUT,
    )
    uv = Uv.found()
    cache = EnvironmentCache(loaded.environments_directory, uv)
    cache.prepare()
    deadline = Deadline(budget_seconds(budget) or loaded.gate.budget)
    with opened_store(loaded) as store:
        try:
            found = bisection.bisect(
                store,
                loaded,
                asked,
                evaluate=Once(cache, uv, deadline),
                deadline=deadline,
                tell=tell_probe(quiet=quiet),
                uv=uv,
            )
        except (Interrupted, KeyboardInterrupt):
            say("stopped; what was learned is kept, and the same command goes on from there")
            raise typer.Exit(_INCOMPLETE) from None
    if not quiet:
        bisect_table(found, console)
    if json_file is not None:
        write_json(bisected_document(found), json_file)
    raise typer.Exit(found.exit_code)


def _check(name: str) -> Check:
    from watchdog.config_values import suggest
    from watchdog.model import Check

    if name in set(Check):
        return Check(name)
    msg = f"--check {name}: there is no such check; {suggest(name, Check)}"
    raise UsageError(msg)


def calibrate(
    *,
    config: ConfigOption = None,
    pins: Annotated[
        str | None, typer.Option("--pins", metavar="NAME", help="Measure under these pins; the baseline's if not.")
    ] = None,
    kernel: KernelOption = None,
    case: CaseOption = None,
    processes: Annotated[int, typer.Option("--processes", min=24, max=2000, help="How many to start.")] = 40,
    budget: BudgetOption = None,
    json_file: JsonOption = None,
    quiet: QuietOption = False,
    no_color: ColorOption = False,
) -> None:
    """Measure this machine's noise, and which slowdowns a gate finds on it; nothing is kept.

    The native implementation of each kernel is timed in fresh processes, one after the other. Without a configuration a
    small kernel of the program's own is timed. Exit code: 0, or 3 when nothing could be measured.
    """
    from watchdog import calibration, plan
    from watchdog.config import GateTable
    from watchdog.gate import calibrating
    from watchdog.judges.experiment import Rule
    from watchdog.publish.calibration_table import calibration_document, calibration_table
    from watchdog.runner import Interrupted

    loaded = load_if_present(config)
    check_writable(json_file)
    console = made_console(no_color=no_color)
    chosen = plan.Selection(kernels=tuple(kernel or ()), cases=tuple(case or ()))
    most = budget_seconds(budget) or 10 * _MINUTES
    show = progress_on(console, quiet=quiet)
    try:
        measured = calibrating.measure(loaded, pins, chosen, processes=processes, budget=most, show=show)
    except (Interrupted, KeyboardInterrupt):
        say("stopped; nothing of a calibration is kept")
        raise typer.Exit(_INCOMPLETE) from None
    options = GateTable() if loaded is None else loaded.gate
    rule = Rule(options.error_rate, len(measured), options.relevant, options.processes)
    results = {
        one.cell: calibration.calibrated(one.processes, rule)
        if len(one.processes) >= calibration.FEWEST
        else one.why_not
        or f"{len(one.processes)} processes tell nothing, {calibration.FEWEST} are the least; allow a larger --budget"
        for one in measured
    }
    if not quiet:
        calibration_table(results, console)
    if json_file is not None:
        write_json(calibration_document(results), json_file)
    if all(isinstance(result, str) for result in results.values()):
        raise typer.Exit(_INCOMPLETE)
