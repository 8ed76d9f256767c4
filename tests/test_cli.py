"""The command line: one sentence and the right exit code for each mistake, before anything long has begun."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.projects import NEW, ROOT, Finished, Project, document
from watchdog import __version__, cli, cli_shared
from watchdog.model import Check, Outcome, Status, Suspect

Watchdog = Callable[..., Finished]

CONFIG = f"""
[watchdog]
scenarios = ["steady"]
memory_budget = "1s"
checks = ["install", "import"]

[pins.good]
requirements = ["{NEW}"]

[pins.bad]
requirements = ["jax==0.0.999"]

[[kernel]]
name = "double"
custom = "mods:double"
native = "mods:nativ"
path = "."
also = {{ lost = "no_such_module:double" }}

[[kernel.case]]
name = "small"
args = ["f32[8]"]
"""

COMMANDS = (
    (),
    ("init",),
    ("check-config",),
    ("doctor",),
    ("run",),
    ("runs",),
    ("show",),
    ("report",),
    ("selftest",),
    ("environments",),
    ("environments", "list"),
    ("environments", "prune"),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; no configuration lies above it."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def configured(here: Path) -> Project:
    project = Project(here)
    project.write("watchdog.toml", CONFIG)
    project.write("mods.py", "def double(x):\n    return x * 2\n")
    return project


@pytest.fixture
def watchdog(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Watchdog]:
    """The program, called in this process."""

    def call(*arguments: str) -> Finished:
        monkeypatch.setattr(sys, "argv", ["watchdog", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Finished(ended.value.code, said.out, said.err)

    assert here == Path.cwd()
    before = signal.getsignal(signal.SIGTERM)
    yield call
    signal.signal(signal.SIGTERM, before)


def refused(finished: Finished) -> str:
    """The one sentence with which the program refused; nothing else was said."""
    assert finished.code == 2
    assert finished.stdout == ""
    assert finished.stderr.startswith("error: ")
    assert len(finished.stderr.splitlines()) == 1
    return finished.stderr.removeprefix("error: ").strip()


def runs_in(folder: Path) -> int:
    """How many runs its database holds; 0 where there is none."""
    file = folder / ".watchdog" / "watchdog.db"
    if not file.is_file():
        return 0
    with sqlite3.connect(file) as database:
        (count,) = database.execute("select count(*) from runs").fetchone()
    database.close()
    return int(count)


class TestUse:
    def test_the_version_is_one_line(self, watchdog: Watchdog) -> None:
        """`--version` needs no command."""
        assert watchdog("--version") == Finished(0, f"kernel-watchdog {__version__}\n", "")

    @pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
    def test_every_command_explains_itself(self, watchdog: Watchdog, command: tuple[str, ...]) -> None:
        """`--help` and `-h` say the same on standard output, and how the command is called."""
        long, short = watchdog(*command, "--help"), watchdog(*command, "-h")
        assert long == short
        assert (long.code, long.stderr) == (0, "")
        assert f"Usage: {' '.join(['watchdog', *command])}" in long.stdout

    @pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
    def test_an_unknown_option_is_a_usage_error(self, watchdog: Watchdog, command: tuple[str, ...]) -> None:
        """It is named, with exit code 2 and without a traceback."""
        finished = watchdog(*command, "--no-such-option")
        assert finished.code == 2
        assert "No such option: --no-such-option" in finished.stderr
        assert "Traceback" not in finished.stderr

    def test_an_unknown_command_is_a_usage_error(self, watchdog: Watchdog) -> None:
        """The nearest one is suggested."""
        finished = watchdog("rnu")
        assert finished.code == 2
        assert "No such command 'rnu'" in finished.stderr
        assert "run" in finished.stderr

    def test_a_fault_of_the_program_is_not_taken_for_a_regression(
        self, watchdog: Watchdog, configured: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It shows its traceback, and exits with 3 instead of Python's 1."""

        def broken(_path: Path) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(cli_shared, "load", broken)
        finished = watchdog("runs", "--config", str(configured.folder / "watchdog.toml"))
        assert finished.code == 3
        assert "ZeroDivisionError" in finished.stderr


class TestConfiguration:
    def test_init_writes_once(self, watchdog: Watchdog, here: Path) -> None:
        """A second `init` leaves the file as it is."""
        assert watchdog("init").code == 0
        written = (here / "watchdog.toml").read_bytes()
        assert "left as it is" in refused(watchdog("init"))
        assert (here / "watchdog.toml").read_bytes() == written
        assert watchdog("check-config").code == 0

    def test_the_demonstration_is_ready_to_run(self, watchdog: Watchdog, here: Path) -> None:
        """`init --demo` writes kernels and a configuration that holds."""
        assert watchdog("init", "--demo").code == 0
        assert (here / "kernels" / "flash_attention").is_dir()
        checked = watchdog("check-config")
        assert checked.code == 0
        assert "2 kernels, 3 pins (baseline jax-0.8.3)" in checked.stderr
        refused(watchdog("init", "--demo"))

    def test_without_a_configuration_it_says_how_to_get_one(self, watchdog: Watchdog) -> None:
        """Every command that needs one says so alike."""
        for command in ("run", "check-config", "runs", "show", "report"):
            assert "`watchdog init` writes one" in refused(watchdog(command))

    def test_a_configuration_that_cannot_be_read_is_named(self, watchdog: Watchdog, here: Path) -> None:
        """A missing file, a folder, and bytes that are no text."""
        (here / "binary.toml").write_bytes(b"\xff\xfe")
        assert "there is no file none.toml" in refused(watchdog("run", "--config", "none.toml"))
        assert f"{here} cannot be read" in refused(watchdog("run", "--config", str(here)))
        assert "binary.toml:1: this is not UTF-8" in refused(watchdog("run", "--config", "binary.toml"))

    def test_an_unknown_key_is_named_with_its_line(self, watchdog: Watchdog, configured: Project) -> None:
        """And the nearest known key."""
        configured.write("watchdog.toml", CONFIG.replace("checks", "chekcs"))
        said = refused(watchdog("run"))
        assert "watchdog.toml:4: " in said
        assert "chekcs" in said
        assert "did you mean 'checks'?" in said

    def test_several_mistakes_are_told_at_once(self, watchdog: Watchdog, configured: Project) -> None:
        """A shape that does not parse and an empty matrix, a line for each, in the order of the file."""
        text = CONFIG.replace('checks = ["install", "import"]', "targets = []").replace("f32[8]", "f32(8)")
        configured.write("watchdog.toml", text)
        finished = watchdog("check-config")
        assert finished.code == 2
        assert "an empty matrix: no targets" in finished.stderr
        assert "f32(8)" in finished.stderr
        assert finished.stderr.index("targets") < finished.stderr.index("f32(8)")


@pytest.mark.usefixtures("configured")
class TestBeforeARun:
    """What would spoil a run is refused before the run has begun."""

    @pytest.mark.parametrize(
        ("option", "wrong", "near"),
        [
            ("--kernel", "doubel", "double"),
            ("--pins", "godo", "good"),
            ("--case", "smal", "small"),
            ("--implementation", "costum", "custom"),
            ("--check", "imports", "import"),
            ("--target", "hosts", "host"),
            ("--scenario", "stedy", "steady"),
        ],
    )
    def test_an_unknown_name_is_refused(
        self, watchdog: Watchdog, here: Path, option: str, wrong: str, near: str
    ) -> None:
        """With the nearest one, and without a trace in the database."""
        assert f"{option} {wrong}: " in (said := refused(watchdog("run", option, wrong)))
        assert said.endswith(f"did you mean {near}?")
        assert runs_in(here) == 0

    def test_a_selection_that_leaves_nothing_is_refused(self, watchdog: Watchdog, here: Path) -> None:
        """Schedules are asked of TPU targets alone, and there is none."""
        assert "nothing is left to ask" in refused(watchdog("run", "--check", "schedule"))
        assert runs_in(here) == 0

    def test_a_report_folder_of_someone_elses_is_refused(self, watchdog: Watchdog, here: Path) -> None:
        """A full folder, a file, and a folder below a file; what is there stays as it is."""
        (here / "mine").mkdir()
        (here / "mine" / "thesis.txt").write_text("years of work")
        assert "'thesis.txt'" in refused(watchdog("run", "--out", "mine"))
        assert "is a file, not a directory" in refused(watchdog("run", "--out", "mods.py"))
        assert "cannot write the report" in refused(watchdog("run", "--out", "mods.py/below"))
        assert [path.name for path in (here / "mine").iterdir()] == ["thesis.txt"]
        assert sorted(path.name for path in here.iterdir()) == [".git", "mine", "mods.py", "watchdog.toml"]

    def test_a_json_file_that_cannot_be_written_is_refused(self, watchdog: Watchdog, here: Path) -> None:
        """And nothing is left where it could have been written but was not."""
        assert "--json mods.py/run.json" in refused(watchdog("run", "--json", "mods.py/run.json"))
        assert "--json .: " in refused(watchdog("run", "--json", "."))
        refused(watchdog("run", "--json", "run.json", "--kernel", "none"))
        assert not (here / "run.json").exists()
        assert runs_in(here) == 0

    def test_a_cache_of_environments_that_cannot_be_written_is_refused(
        self, watchdog: Watchdog, configured: Project, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What set its folder is named: the variable, or else the key of the configuration."""
        monkeypatch.setenv("KERNEL_WATCHDOG_CACHE", str(here / "mods.py"))
        assert refused(watchdog("run")).endswith("; set KERNEL_WATCHDOG_CACHE to a folder that can be written")
        configured.write("watchdog.toml", CONFIG.replace("checks", 'environments = "mods.py/cache"\nchecks'))
        said = refused(watchdog("run"))
        assert f"{here / 'mods.py/cache'} cannot be written" in said
        assert "set `environments` of [watchdog] in the configuration" in said
        assert runs_in(here) == 0

    def test_a_database_that_is_none_is_left_as_it_is(
        self, watchdog: Watchdog, configured: Project, here: Path
    ) -> None:
        """Each command that opens it says so; the file keeps every byte."""
        (here / "notes.txt").write_text("not a database, but dear to me")
        configured.write("watchdog.toml", CONFIG.replace("checks", 'database = "sqlite:///notes.txt"\nchecks'))
        for command in ("run", "runs", "show", "report"):
            assert "this is not an SQLite database" in refused(watchdog(command))
        assert (here / "notes.txt").read_text() == "not a database, but dear to me"

    def test_a_database_in_a_place_that_cannot_be_made_is_refused(
        self, watchdog: Watchdog, configured: Project
    ) -> None:
        """The parent is a file."""
        configured.write("watchdog.toml", CONFIG.replace("checks", 'database = "sqlite:///mods.py/x/db"\nchecks'))
        assert "the folder of the database cannot be made" in refused(watchdog("run"))

    def test_resuming_takes_no_selection_and_needs_a_run(self, watchdog: Watchdog) -> None:
        """Both are one sentence."""
        assert "it takes no other selection" in refused(watchdog("run", "--resume", "--pins", "good"))
        assert "there is no unfinished run to resume" in refused(watchdog("run", "--resume"))

    def test_there_is_nothing_to_show_before_the_first_run(self, watchdog: Watchdog) -> None:
        """`runs` says so and is content; `show` and `report` are asked for what is not there."""
        assert watchdog("runs").code == 0
        for command in ("show", "report"):
            assert "there are no runs" in refused(watchdog(command))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Finished]:
    """A run of which half cannot be installed, a function is missing and a module too."""
    project = Project(tmp_path_factory.mktemp("ran"))
    project.write("watchdog.toml", CONFIG)
    project.write("mods.py", "def double(x):\n    return x * 2\n")
    return project, project.watchdog("run", "--json", "-")


@pytest.mark.real
class TestAfterARun:
    def test_pins_that_cannot_be_resolved_are_a_finding(self, ran: tuple[Project, Finished]) -> None:
        """uv's own explanation is kept, the pins are the suspect, and the other pins are done with."""
        project, finished = ran
        assert finished.code == 1
        results = project.results()
        seen = results.observation(Check.INSTALL, pins="bad")
        assert seen.outcome is Outcome.FAILED
        assert seen.fault is not None
        assert "there is no version of jax==0.0.999" in seen.fault.message
        verdict = results.verdict(Check.INSTALL, pins="bad")
        assert (verdict.status, verdict.suspect) == (Status.REGRESSED, Suspect.PINS)
        assert results.observation(Check.INSTALL, pins="good").outcome is Outcome.OBSERVED
        assert results.verdict(Check.IMPORT, pins="good", implementation="custom").status is Status.PASS
        assert results.missing == 0

    def test_cells_without_an_environment_are_skipped_with_the_reason(self, ran: tuple[Project, Finished]) -> None:
        """They are not passed, and not failures of the kernel either."""
        skipped = ran[0].results().observation(Check.IMPORT, pins="bad", implementation="custom")
        assert (skipped.outcome, skipped.reason) == (Outcome.SKIPPED, "the environment could not be installed")

    def test_a_missing_module_and_a_missing_function_are_named(self, ran: tuple[Project, Finished]) -> None:
        """Each is a finding of `import` that says what was not there."""
        results = ran[0].results()
        for implementation, kind, missing in (
            ("lost", "missing dependency", "no_such_module"),
            ("native", "missing name", "nativ"),
        ):
            seen = results.observation(Check.IMPORT, pins="good", implementation=implementation)
            assert seen.fault is not None
            assert seen.fault.missing == missing
            verdict = results.verdict(Check.IMPORT, pins="good", implementation=implementation)
            assert (verdict.status, verdict.kind) == (Status.REGRESSED, kind)
            assert missing in verdict.summary

    def test_standard_output_carries_the_document_alone(self, ran: tuple[Project, Finished]) -> None:
        """It keeps to its schema; progress, table and the report's place are on standard error."""
        project, finished = ran
        schema = json.loads((ROOT / "docs" / "run.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(schema).validate(document(finished))
        assert document(finished)["exit_code"] == finished.code
        assert "Report: " in finished.stderr
        assert document(project.watchdog("show", "--json", "-")) == document(finished)

    def test_it_is_listed_shown_and_reported(self, ran: tuple[Project, Finished]) -> None:
        """By its id, by the beginning of it, and as the latest; the report is written anew from the store."""
        project, finished = ran
        run = document(finished)["run"]
        assert run in project.watchdog("runs", variables={"COLUMNS": "200"}).stdout
        shown = project.watchdog("show", run)
        assert shown.code == 0
        assert run in shown.stdout
        assert "there is no version of jax==0.0.999" in " ".join(shown.stdout.split())
        assert project.watchdog("show", run[:-2]).stdout == shown.stdout
        assert f"did you mean {run}" in project.watchdog("show", "2025").stderr
        assert project.watchdog("report", "--out", "elsewhere").code == 0
        assert run in (project.folder / "elsewhere" / "index.html").read_text(encoding="utf-8")

    def test_output_is_plain_where_that_is_asked_for(self, ran: tuple[Project, Finished]) -> None:
        """No escape sequences without a terminal, nor with NO_COLOR or --no-color in one that would have them."""
        project, _ = ran
        coloured = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
        assert "\x1b[" in project.watchdog("show", variables=coloured).stdout
        for finished in (
            project.watchdog("show"),
            project.watchdog("show", "--no-color", variables=coloured),
            project.watchdog("show", variables={**coloured, "NO_COLOR": "1"}),
        ):
            assert not any(f"\x1b[{code}" in finished.stdout for code in ("3", "9", "1;3", "38"))

    def test_a_quiet_run_says_nothing_and_exits_as_ever(self, ran: tuple[Project, Finished]) -> None:
        """0 where all is well; the report is written all the same."""
        project, _ = ran
        finished = project.watchdog("run", "--quiet", "--pins", "good", "--implementation", "custom")
        assert finished == Finished(0, "", "")
        assert project.results().run in (project.folder / ".watchdog/report/index.html").read_text(encoding="utf-8")

    def test_the_environment_is_in_the_cache(self, ran: tuple[Project, Finished]) -> None:
        """`environments list` shows it by its lock, with the version of jax."""
        project, finished = ran
        lock = next(each["lock"] for each in document(finished)["environments"] if each["pins"] == "good")
        listed = project.watchdog("environments", "list", variables={"COLUMNS": "200"})
        assert listed.code == 0
        assert lock.removeprefix("sha256:")[:12] in listed.stdout
        assert "jax 0.10.2" in listed.stdout

    def test_environments_that_nobody_uses_are_removed(self, ran: tuple[Project, Finished]) -> None:
        """`environments prune` says how many and how large; a second time there are none."""
        project = ran[0]
        elsewhere = {"KERNEL_WATCHDOG_CACHE": str(project.folder / "cache")}
        project.watchdog("run", "--quiet", "--pins", "good", "--check", "install", variables=elsewhere)
        first, second = (project.watchdog("environments", "prune", "--all", variables=elsewhere) for _ in range(2))
        assert (first.code, second.code) == (0, 0)
        assert re.fullmatch(r"removed 1 environment, [\d.]+ [MG]iB\n", first.stderr)
        assert second.stderr == "removed 0 environments, 0 B\n"

    def test_a_full_disk_is_not_taken_for_a_regression(self, ran: tuple[Project, Finished]) -> None:
        """What cannot be written to standard output is one sentence and exit code 3."""
        if not Path("/dev/full").exists():
            pytest.skip("this system has no /dev/full")
        project, _ = ran
        finished = project.watchdog("show", into=Path("/dev/full"))
        assert finished.code == 3
        assert finished.stderr.startswith("error: the output could not be written")
        assert "Traceback" not in finished.stderr

    def test_doctor_examines_the_machine(self, ran: tuple[Project, Finished]) -> None:
        """It exits with 0 where nothing must be mended first, and names what it looked at."""
        finished = ran[0].watchdog("doctor", variables={"COLUMNS": "200"})
        assert finished.code == 0, finished.stderr
        assert "uv" in finished.stdout + finished.stderr
