"""What the commands share: options that are the same word everywhere, and the few ways of reading and saying things."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from watchdog.config import FILE_NAME, Config, find_config, load
from watchdog.errors import UsageError

if TYPE_CHECKING:
    from watchdog.gate.report import Probe

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help=f"Configuration; {FILE_NAME} here or above by default.")
]
PinsOption = Annotated[list[str] | None, typer.Option("--pins", metavar="NAME", help="Only these pins (repeatable).")]
KernelOption = Annotated[list[str] | None, typer.Option("--kernel", metavar="NAME", help="Only this kernel.")]
CaseOption = Annotated[list[str] | None, typer.Option("--case", metavar="NAME", help="Only this case.")]
ImplementationOption = Annotated[
    list[str] | None, typer.Option("--implementation", metavar="NAME", help="Only this implementation.")
]
TargetOption = Annotated[list[str] | None, typer.Option("--target", metavar="TARGET", help="Only this target.")]
CheckOption = Annotated[list[str] | None, typer.Option("--check", metavar="CHECK", help="Only this check.")]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", metavar="TIME", help="How long timing and searching may take, as in 15m.")
]
ScenarioOption = Annotated[
    list[str] | None, typer.Option("--scenario", metavar="NAME", help="Only this scenario of the memory check.")
]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table; errors only.")]
ColorOption = Annotated[bool, typer.Option("--no-color", help="No colours (NO_COLOR is honoured too).")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or latest.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the report goes.")]


def load_config(path: Path | None) -> Config:
    """The configuration that is named, or the nearest one. Raises UsageError when there is none, or a mistake in it."""
    return load(path if path is not None else find_config(Path.cwd()))


def load_if_present(path: Path | None) -> Config | None:
    """The configuration for a command that can do without one, but not with a wrong one."""
    if path is not None:
        return load(path)
    try:
        found = find_config(Path.cwd())
    except UsageError:
        return None
    return load(found)


@contextmanager
def opened_store(config: Config) -> Iterator[Any]:
    """The store that the configuration names, open for as long as it is used."""
    from watchdog.store.engine import open_store

    with open_store(config.database_url, root=config.root) as store:
        yield store


def environment_cache(path: Path | None) -> Any:
    """The cache of environments; the user's own where there is no configuration."""
    from watchdog.environments import EnvironmentCache

    config = load_if_present(path)
    return EnvironmentCache(config.environments_directory if config else None)


def progress_on(console: Console, *, quiet: bool) -> Any:
    """What shows the progress of a number of cells."""
    from watchdog.publish.progress import progress

    return lambda total: progress(total, console, quiet=quiet)


def made_console(*, no_color: bool, stderr: bool = True) -> Console:
    """Where things are printed: progress and messages on standard error, lists on standard output."""
    return Console(stderr=stderr, no_color=True if no_color else None, highlight=False)


def say(sentence: str) -> None:
    """One plain message on standard error."""
    Console(stderr=True, highlight=False).print(Text(sentence), soft_wrap=True)


def write_report(store: Any, finished: Any, folder: Path) -> Path:
    """The HTML report of a run; returns its first page. Raises UsageError when it cannot be written."""
    from watchdog import reporting

    try:
        return reporting.write(store, finished, folder)
    except UsageError as error:
        msg = f"{error}. The run is kept: `watchdog report {finished.id} --out DIR` writes it elsewhere"
        raise UsageError(msg) from error


def check_writable(file: str | None, option: str = "--json") -> None:
    """Raises UsageError when an option's file could not be written; what it holds stays until there is a new one."""
    if file in (None, "-"):
        return
    path = Path(file)
    is_new = not path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise _unwritable(file, option, error) from error


def _unwritable(file: str, option: str, error: OSError) -> UsageError:
    return UsageError(f"{option} {file}: it cannot be written: {error.strerror or error}; name another file")


def write_json(document: dict[str, Any], file: str, option: str = "--json") -> None:
    """JSON into an option's file; - for standard output."""
    write_text(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n", file, option)


def write_text(text: str, file: str, option: str) -> None:
    """Text into an option's file; - for standard output."""
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(file, option, error) from error


def budget_seconds(text: str | None) -> float | None:
    """A duration such as "15m". Raises UsageError for anything else."""
    from pydantic import TypeAdapter, ValidationError

    from watchdog.config_values import Seconds

    if text is None:
        return None
    try:
        return TypeAdapter(Seconds).validate_python(text)
    except ValidationError as error:
        msg = f"--budget {text}: {error.errors()[0]['ctx']['error']}"
        raise UsageError(msg) from error


def tell_probe(*, quiet: bool) -> Any:
    """One line for each probe of a search."""
    from watchdog.publish.wording import duration

    def told(probe: Probe, left: float) -> None:
        if not quiet:
            remembered = ", remembered" if probe.remembered else ""
            say(
                f"{probe.what}: {probe.result} ({duration(probe.seconds)}{remembered}; {duration(left)} left) {probe.said}"
            )

    return told
