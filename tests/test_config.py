"""Reading `watchdog.toml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from watchdog.config import Case, Config, GateTable, Kernel, Options, Pins, ServiceTable, find_config, load
from watchdog.config_values import TARGETS
from watchdog.errors import ConfigError, UsageError
from watchdog.model import Check, Scenario, Service

REPOSITORY = Path(__file__).parent.parent
DOCUMENTATION = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")

PINS = '[pins.current]\nrequirements = ["jax==0.10.2"]\n'
KERNEL = '[[kernel]]\nname = "k"\ncustom = "m:f"\nnative = "m.n:A.g"\n'
CASE = '[[kernel.case]]\nname = "c"\nargs = ["f32[8]"]\n'
CALLS = "calls_per_second = 1\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def _write(text: str) -> Path:
        path = tmp_path / "watchdog.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return _write


def mistakes(path: Path) -> list[str]:
    """The lines of the error that loading gives, each without the path."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def test_defaults(write: Any, tmp_path: Path) -> None:
    """The smallest file that makes sense gets the documented defaults, and paths that start from its folder."""
    config = load(write(PINS + KERNEL + CASE))
    assert config.watchdog == Options()
    assert config.watchdog.targets == ("host",)
    assert config.watchdog.checks == tuple(Check)
    assert config.watchdog.cell_timeout == 300
    assert config.watchdog.cell_memory == 8 * 2**30
    assert config.baseline == "current"
    assert config.database_url == f"sqlite:///{tmp_path}/.watchdog/watchdog.db"
    assert config.report_directory == tmp_path / ".watchdog" / "report"
    assert config.environments_directory is None
    assert (config.path, config.root) == (tmp_path / "watchdog.toml", tmp_path)
    assert config.kernel[0].implementations == {"custom": "m:f", "native": "m.n:A.g"}
    assert config.kernel[0].layouts == {}
    assert config.kernel[0].case == (Case(name="c", args=("f32[8]",)),)


def test_what_is_loaded_cannot_be_changed(write: Any) -> None:
    """The configuration is frozen, so that no part of a run can change what another part reads."""
    config = load(write(PINS + KERNEL + CASE))
    with pytest.raises(ValidationError, match="frozen"):
        config.watchdog.report = "elsewhere"  # type: ignore[misc]  # the point of the test


def test_the_baseline_is_the_first_pins_or_those_named(write: Any) -> None:
    """Order in the file decides only where `baseline` does not."""
    both = '[pins.b]\nrequirements = ["jax"]\n[pins.a]\nrequirements = ["jax"]\n' + KERNEL + CASE
    assert load(write(both)).baseline == "b"
    assert load(write('[watchdog]\nbaseline = "a"\n' + both)).baseline == "a"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [('"5m"', 300), ('"90s"', 90), ('"1h30m"', 5400), ('"1h 30m 5s"', 5405), ('"1.5h"', 5400), ("2.5", 2.5), ("7", 7)],
)
def test_durations(write: Any, written: str, seconds: float) -> None:
    """Each documented way to write a duration gives its seconds."""
    config = load(write(f"[watchdog]\ncell_timeout = {written}\n" + PINS + KERNEL + CASE))
    assert config.watchdog.cell_timeout == seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ('"8GiB"', 2**33),
        ('"500 MB"', 500_000_000),
        ('"1.5GiB"', 3 * 2**29),
        ('"2TB"', 2 * 10**12),
        ('"99999999B"', 99_999_999),
        ("100000000", 100_000_000),
    ],
)
def test_sizes(write: Any, written: str, size: int) -> None:
    """Each documented way to write a size gives its bytes: KiB and its like are powers of 1024, KB of 1000."""
    config = load(write(f"[watchdog]\ncell_memory = {written}\n" + PINS + KERNEL + CASE))
    assert config.watchdog.cell_memory == size


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ('cell_timeout = "5 parsecs"', "cell_timeout: '5 parsecs' is not a duration; write \"5m\""),
        ('cell_timeout = ""', "is not a duration"),
        ("cell_timeout = 0", "greater than 0"),
        ("cell_timeout = inf", "is not a duration"),
        ("cell_timeout = true", "is not a duration"),
        ('cell_timeout = "1.2.3h"', "is not a duration"),
        ('cell_memory = "8 gigs"', 'write "8GiB"'),
        ("cell_memory = 8", "at least 64 MiB"),
        ('cell_memory = "5iB"', "is not a size"),
        ('targets = ["tpu:v5ee"]', "targets[0]: unknown target 'tpu:v5ee'; did you mean 'tpu:v5e'?"),
        ('targets = ["host", "host"]', "targets[1]: 'host' stands here twice"),
        ("targets = []", "an empty matrix"),
        ('targets = "host"', "targets: must be an array, in brackets; it is a string"),
        ('checks = ["memroy"]', "unknown check 'memroy'; did you mean 'memory'?"),
        ("checks = [3]", "unknown check 3"),
        ("checks = []", "an empty matrix"),
        ('baseline = "curent"', "there are no pins 'curent'; did you mean 'current'?"),
        ("baseline = 3", "must be a string, in quotes; it is 3"),
        ('database = "watchdog.db"', "write one such as 'sqlite:///.watchdog/watchdog.db'"),
        ('report = " "', "must not be empty"),
        ("interpret_limit = -1", "must be 0 or greater; it is -1"),
        ("interpret_limit = nan", "interpret_limit: must be"),
        ('reprot = "x"', "watchdog.reprot: unknown key; did you mean 'report'?"),
        ("tolerance = 1", "unknown key here; it belongs in [[kernel]]"),
    ],
)
def test_a_bad_option_is_named_with_its_line(write: Any, option: str, message: str) -> None:
    """Each mistake in [watchdog] is one sentence with its line, its key and the remedy."""
    (found,) = mistakes(write(f"[watchdog]\n\n{option}\n" + PINS + KERNEL + CASE))
    assert found.startswith("3: watchdog.")
    assert message in found


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("[pins.p]", 1, "pins.p: pins have one of 'requirements', 'requirements_file', 'lock'; none of them is here"),
        ('[pins.p]\nrequirements = ["jax"]\nlock = "watchdog.toml"', 3, "requirements and lock are here"),
        ("[pins.p]\nrequirements = []", 2, "nothing to install"),
        ('[pins.p]\nrequirements = ["jax", \n"jax=1"]', 3, "'jax=1' is not a requirement"),
        ('[pins.p]\nrequirements = ["./absent[tpu]"]', 2, "there is no project at './absent[tpu]'"),
        ('[pins.p]\nlock = "absent.lock"', 2, "there is no file at 'absent.lock'"),
        ('[pins.p]\nlock = "."', 2, "'.' is not a file"),
        ('[pins.p]\nrequirements = ["jax"]\npython = 3.11', 3, 'in quotes, as in "3.11"'),
        ('[pins.p]\nrequirements = ["jax"]\npython = "3.9"', 3, "too old for the checks; the oldest is 3.10"),
        ('[pins."a/b"]\nrequirements = ["jax"]', 1, "pins.a/b: 'a/b' cannot be a name"),
        ('[pins.p]\nrequirement = ["jax"]\nlock = "watchdog.toml"', 2, "did you mean 'requirements'?"),
        ("[pins]\np = 3", 2, "pins.p: must be a table; it is 3"),
        ('[pins.p]\nrequirements = ["jax"]\n[pins.p]', 3, "this is not valid TOML"),
        ("", None, "pins: an empty matrix: no pins"),
    ],
)
def test_bad_pins_are_named_with_their_line(write: Any, table: str, line: int | None, message: str) -> None:
    """Each mistake in pins is one sentence with its line, its key and the remedy."""
    (found,) = mistakes(write(table + "\n" + KERNEL + CASE))
    assert found.startswith(f"{line}: " if line else " ")
    assert message in found


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ('inputs = "jax.nn.softmax"', "write a colon before the function: 'jax.nn:softmax'"),
        ('reference = "m:"', "write 'module:function'"),
        ('reference = "m:class"', "does not name a function"),
        ("tolerance = 0", "must be greater than 0; it is 0"),
        ('tolerance = "1"', "must be a number; it is a string"),
        ("tolerance = true", "must be a number; it is true"),
        ("differentiate = [0, 0]", "differentiate[1]: 0 stands here twice"),
        ("differentiate = [-1]", "differentiate[0]: must be 0 or greater"),
        ('path = "absent"', "path: there is no folder at 'absent'; a relative path starts from the folder"),
        ('path = "watchdog.toml"', "is not a folder"),
        ('also = { custom = "m:f" }', "also.custom: 'custom' is a key of the kernel itself"),
        ('also = { "a b" = "m:f" }', "also.a b: 'a b' cannot be a name"),
        ('also = { fast = "f" }', "also.fast: 'f' does not name a function"),
        ('layout = { custm = "m:f" }', "layout.custm: no implementation has this name; did you mean 'custom'?"),
        ("layout = 3", "must be a string 'module:function', or a table"),
        ('layout = { custom = "f" }', "layout: 'f' does not name a function"),
        ('static = ["a b"]', "static[0]: 'a b' is not the name of a Python parameter"),
        ('requirements = ["foo/bar"]', "a path that begins with './'"),
        ('cutsom = "m:f"', "unknown key; did you mean 'custom'?"),
        ('args = ["f32[8]"]', "unknown key here; it belongs in [[kernel.case]]"),
    ],
)
def test_a_bad_kernel_is_named_with_its_line(write: Any, added: str, message: str) -> None:
    """Each mistake in a kernel is named with its line, the kernel's name and the remedy."""
    found = mistakes(write(PINS + KERNEL + added + "\n" + CASE))
    assert len([line for line in found if message in line]) == 1
    assert found[0].startswith("7: kernel[k].")


@pytest.mark.parametrize(
    ("case", "place", "message"),
    [
        ('args = ["f32[8"]', "9: kernel[k].case[c].args[0]", "'f32[8', column 6: the shape is not closed; add ']'"),
        ('args = ["f32[8]",\n\n "f23[8]"]', "11: kernel[k].case[c].args[1]", "'f23' is not a dtype"),
        ("args = []", "9: kernel[k].case[c].args", 'no arguments; write args = ["f32[8,128]"]'),
        ("seed = 1", "7: kernel[k].case[c].args", "no arguments"),
        ('args = ["f32[8]"]\nseed = 1.5', "10: kernel[k].case[c].seed", "must be a whole number; it is 1.5"),
        ('args = ["f32[8]"]\nkwargs = { d = 1979-05-27 }', "10: kernel[k].case[c].kwargs", "is a date or a time"),
        ('args = ["f32[8]"]\nkwargs = { mask = -inf }', "10: kernel[k].case[c].kwargs", "is not finite"),
        ('args = ["f32[8]"]\nlength = 16', "10: kernel[k].case[c].length", "the dimensions are 8"),
        ('args = ["f32[8]"]\nlength = 0', "10: kernel[k].case[c].length", "greater than 0"),
        ('args = ["f32[8]"]\nlength = true', "10: kernel[k].case[c].length", "must be a whole number; it is true"),
        ('args = ["f32[]"]\nlength = 8', "10: kernel[k].case[c].length", "no argument has a dimension of 8; all are"),
        ('args = ["f32[8]"]\nkwarg = {}', "10: kernel[k].case[c].kwarg", "did you mean 'kwargs'?"),
        (
            'args = ["f32[8]"]\n[[kernel.case]]\nname = "c"\nargs = ["f32[8]"]',
            "11: kernel[k].case[c].name",
            "another case",
        ),
        ('args = ["f32[8]"]\n' + KERNEL + CASE, "11: kernel[k].name", "another kernel has the name 'k'"),
        ('args = ["f32[8]"]\n[[kernel]]\nname = "l"\ncustom = "m:f"\nnative = "m:g"', "10: kernel[l].case", "no case"),
        (
            'args = ["f32[8]"]\n[[kernel]]\nname = "l"\nnative = "m:g"\n' + CASE,
            "10: kernel[l].custom",
            "is missing; every [[kernel]] needs it",
        ),
    ],
)
def test_a_bad_case_is_named_with_its_line(write: Any, case: str, place: str, message: str) -> None:
    """Each mistake in a case, or in another kernel, is named with its own line and both names."""
    (found,) = mistakes(write(PINS + KERNEL + '[[kernel.case]]\nname = "c"\n' + case))
    assert found.startswith(f"{place}: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1: service.calls_per_second", "is missing; every [service] needs it"),
        ("calls_per_second = 0", "2: service.calls_per_second", "must be greater than 0; it is 0"),
        ("calls_per_second = inf", "2: service.calls_per_second", "must be a finite number; it is inf"),
        ("calls_per_second = true", "2: service.calls_per_second", "must be a number; it is true"),
        (f'{CALLS}currency = "\\u001b[31m"', "3: service.currency", "must be printable text of 1 to 10 characters"),
        (f'{CALLS}currency = "Swiss francs"', "3: service.currency", "must be printable text of 1 to 10 characters"),
        (f'{CALLS}currency = " "', "3: service.currency", "must be printable text of 1 to 10 characters"),
        (f'{CALLS}device_memory = "16"', "3: service.device_memory", 'write "8GiB"'),
        (f"{CALLS}price_per_hour = -1", "3: service.price_per_hour", "must be 0 or greater; it is -1"),
        (f"{CALLS}restart_minutes = -1", "3: service.restart_minutes", "must be 0 or greater; it is -1"),
        (f"{CALLS}price = 2", "3: service.price", "unknown key; write one of calls_per_second, device_memory,"),
        (f"{CALLS}price_an_hour = 2", "3: service.price_an_hour", "unknown key; did you mean 'price_per_hour'?"),
        (f"{CALLS}seed = 2", "3: service.seed", "it belongs in [[kernel.case]]"),
    ],
)
def test_a_bad_service_is_named_with_its_line(write: Any, text: str, place: str, message: str) -> None:
    """Where the kernel serves is checked like everything else."""
    (found,) = mistakes(write(f"[service]\n{text}\n" + PINS + KERNEL + CASE))
    assert found.startswith(f"{place}: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('budget = "soon"', "2: gate.budget", "'soon' is not a duration"),
        ("error_rate = 0", "2: gate.error_rate", "must be greater than 0; it is 0"),
        ("error_rate = 1.5", "2: gate.error_rate", "must be less than 1; it is 1.5"),
        ("relevant = true", "2: gate.relevant", "must be a number; it is true"),
        ("processes = 2", "2: gate.processes", "must be 4 or greater; it is 2"),
        ("processes = 1000", "2: gate.processes", "must be 200 or less; it is 1000"),
        ("relevnat = 0.1", "2: gate.relevnat", "unknown key; did you mean 'relevant'?"),
    ],
)
def test_a_bad_gate_is_named_with_its_line(write: Any, text: str, place: str, message: str) -> None:
    """Each key of `[gate]` is checked where it stands."""
    (found,) = mistakes(write(f"[gate]\n{text}\n" + PINS + KERNEL + CASE))
    assert place in found
    assert message in found


def test_a_key_of_the_service_in_another_table_is_sent_home(write: Any) -> None:
    """The message names the table that the key belongs in."""
    (found,) = mistakes(write("[watchdog]\ncalls_per_second = 40.0\n" + PINS + KERNEL + CASE))
    assert "unknown key here; it belongs in [service]" in found


def test_a_service_is_told_to_the_judges(write: Any) -> None:
    """The table becomes the value that the judges read; what is left out is not known."""
    text = '[service]\ncalls_per_second = 40.0\ndevice_memory = "16GiB"\n'
    assert load(write(text + PINS + KERNEL + CASE)).served == Service(40.0, 16 * 2**30, None, "USD", 5.0)
    assert load(write(PINS + KERNEL + CASE)).served is None


def test_a_length_belongs_to_arguments_of_the_file(write: Any) -> None:
    """Where the kernel makes its inputs, there is no dimension to name; where arguments are missing, that is told."""
    made = KERNEL + 'inputs = "m:inputs"\n[[kernel.case]]\nname = "c"\nlength = 8\n'
    (found,) = mistakes(write(PINS + made))
    assert found.startswith("10: kernel[k].case[c].length: ")
    assert "the kernel's 'inputs' makes the arguments" in found
    (found,) = mistakes(write(PINS + KERNEL + '[[kernel.case]]\nname = "c"\nlength = 8\n'))
    assert "no arguments; write args" in found


def test_all_scenarios_are_watched_unless_the_file_says_less(write: Any) -> None:
    """Ten by default, within 15 s each; a kernel has a list of its own, even an empty one, or none."""
    config = load(write(PINS + KERNEL + CASE))
    assert config.watchdog.scenarios == tuple(Scenario)
    assert config.watchdog.memory_budget == 15.0
    assert (config.kernel[0].scenarios, config.kernel[0].case[0].length) == (None, None)
    own = '[watchdog]\nmemory_budget = "1m"\n' + PINS + KERNEL + "scenarios = []\n" + CASE + "length = 8\n"
    config = load(write(own))
    assert config.watchdog.memory_budget == 60.0
    assert (config.kernel[0].scenarios, config.kernel[0].case[0].length) == ((), 8)


@pytest.mark.parametrize("place", ["[watchdog]\n", PINS + KERNEL])
def test_unknown_and_repeated_scenarios_are_named(write: Any, place: str) -> None:
    """A scenario that does not exist is told with its neighbour in spelling; twice is once too often."""
    rest = "" if place == PINS + KERNEL else PINS + KERNEL
    (found,) = mistakes(write(place + 'scenarios = ["steddy"]\n' + rest + CASE))
    assert "unknown scenario 'steddy'; did you mean 'steady'?" in found
    (found,) = mistakes(write(place + 'scenarios = ["grad", "grad"]\n' + rest + CASE))
    assert "stands here twice" in found


def test_gradients_are_asked_only_of_arguments_that_have_them(write: Any) -> None:
    """`differentiate` is held against every case: the argument must be there, and be of a float dtype."""
    cases = CASE + '[[kernel.case]]\nname = "d"\nargs = ["f32[8]", "i32[8]"]\n'
    assert mistakes(write(PINS + KERNEL + "differentiate = [0, 1]\n" + cases)) == [
        "10: kernel[k].case[c].args: 'differentiate' names argument 1, counted from 0; this case has 1",
        "13: kernel[k].case[d].args[1]: 'differentiate' names this argument, but i32 has no gradient; leave 1 out",
    ]


def test_a_kernel_with_inputs_has_no_args(write: Any) -> None:
    """`inputs` makes the arguments, so a case needs none; both together are a contradiction."""
    kernel = PINS + KERNEL + 'inputs = "m:inputs"\n[[kernel.case]]\nname = "c"\n'
    assert load(write(kernel)).kernel[0].case[0].args == ()
    (found,) = mistakes(write(kernel + 'args = ["f32[8]"]\n'))
    assert "remove one of the two" in found


@pytest.mark.parametrize(("table", "header"), [("[kernel]", "[[kernel]]"), ("[kernel.case]", "[[kernel.case]]")])
def test_single_brackets_are_recognised(write: Any, table: str, header: str) -> None:
    """One pair of brackets where two belong is told as such, not as a wrong type."""
    text = (PINS + KERNEL + CASE).replace(f"[{table}]", table)
    if table == "[kernel]":
        text = text[: text.index("[[kernel.case]]")]
    (found,) = mistakes(write(text))
    assert f"write {header} with two brackets" in found


def test_an_empty_file_is_an_empty_matrix(write: Any) -> None:
    """A file that asks nothing is a mistake: no pins and no kernel are both told."""
    found = mistakes(write(""))
    assert [line.split(":")[1] for line in found] == [" an empty matrix", " an empty matrix"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(write: Any) -> None:
    """Mistakes of different kinds come in one error, one per line, and the error carries the first one's place."""
    path = write(
        '[watchdog]\nbaseline = "x"\nreprot = ""\n' + PINS + KERNEL + 'path = "absent"\n' + CASE + 'seed = "1"\n'
    )
    found = mistakes(path)
    assert [int(line.split(":")[0]) for line in found] == [2, 3, 10, 14]
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert (caught.value.path, caught.value.line, caught.value.key) == (path, 2, "watchdog.baseline")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\nb = = 2", "2: this is not valid TOML: invalid value, at column 5"),
        ("a = 1\na = 2\n", "2: this is not valid TOML: cannot overwrite a value"),
        ("a = [1,\n\n", "3: this is not valid TOML: "),
        ("a = " + "[" * 3000, "arrays or tables are nested too deeply"),
    ],
)
def test_syntax_errors_have_their_place(write: Any, text: str, expected: str) -> None:
    """What tomllib refuses is told with its line, whether it knows one or met the end of the file."""
    (found,) = mistakes(write(text))
    assert found.strip().startswith(expected)


def test_text_that_is_not_utf8_has_its_place(tmp_path: Path) -> None:
    """A file in another encoding is a mistake on the first line that shows it; a byte order mark is none."""
    path = tmp_path / "watchdog.toml"
    path.write_bytes(b"# fine\n# caf\xe9\n")
    assert mistakes(path) == ["2: this is not UTF-8 text; save the file as UTF-8"]
    path.write_bytes(b"\xef\xbb\xbf" + (PINS + KERNEL + CASE).encode())
    assert load(path).baseline == "current"


@pytest.mark.parametrize("requirement", ["jax @ https://me:hunter2@host/x y", "https://hunter2@host/x.whl"])
def test_credentials_do_not_reach_a_message(write: Any, requirement: str) -> None:
    """A mistake that quotes a URL hides its user and password."""
    (found,) = mistakes(write(f'[pins.p]\nrequirements = ["{requirement}"]\n' + KERNEL + CASE))
    assert "is not a requirement" in found
    assert "hunter2" not in found
    assert "@host" in found


def test_a_message_is_one_line_of_plain_text(write: Any) -> None:
    """Names with line breaks or terminal sequences cannot forge a second message."""
    (found,) = mistakes(write(PINS + KERNEL + CASE + '"a\\n\\u001b[31mb" = 1\n'))
    assert "unknown key" in found
    assert "\x1b" not in found


def test_local_projects_are_found_from_the_folder_of_the_file(write: Any, tmp_path: Path) -> None:
    """A local project's path is made absolute and keeps its extras; other requirements stay as written."""
    (tmp_path / "project").mkdir()
    kernel = KERNEL + 'requirements = ["./project[tpu]", "einops>=0.8", "x @ https://host/x.whl"]\n'
    config = load(write(PINS + kernel + CASE))
    assert config.absolute_requirements(config.kernel[0]) == (
        f"{tmp_path}/project[tpu]",
        "einops>=0.8",
        "x @ https://host/x.whl",
    )


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ('"m:adapt"', {"custom": "m:adapt", "fast": "m:adapt"}),
        ('{ native = "m:adapt" }', {"native": "m:adapt"}),
    ],
)
def test_a_layout_adapts_what_it_names(write: Any, layout: str, expected: dict[str, str]) -> None:
    """A string adapts everything but native, a table only what it names; order is custom, native, then the others."""
    kernel = KERNEL + 'also = { fast = "m:h" }\n' + f"layout = {layout}\n"
    loaded = load(write(PINS + kernel + CASE)).kernel[0]
    assert loaded.layouts == expected
    assert list(loaded.implementations) == ["custom", "native", "fast"]


@pytest.mark.parametrize(
    "url", ["sqlite:////var/w.db", "sqlite:///:memory:", "sqlite://", "postgresql+psycopg://me@host/db"]
)
def test_other_databases_are_left_as_written(write: Any, url: str) -> None:
    """Only the relative path of a SQLite file is made absolute."""
    config = load(write(f'[watchdog]\ndatabase = "{url}"\n' + PINS + KERNEL + CASE))
    assert config.database_url == url


def test_the_file_is_found_above_up_to_the_repository(tmp_path: Path) -> None:
    """The nearest file above is taken; the search ends at the root of a repository and names the remedy."""
    inner = tmp_path / "repository" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "watchdog.toml").touch()
    assert find_config(inner) == tmp_path / "watchdog.toml"
    (tmp_path / "repository" / ".git").mkdir()
    with pytest.raises(UsageError, match="`watchdog init` writes one"):
        find_config(inner)
    (tmp_path / "repository" / "watchdog.toml").touch()
    assert find_config(inner) == tmp_path / "repository" / "watchdog.toml"


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """A missing file and a folder in its place are usage errors, not tracebacks."""
    with pytest.raises(UsageError, match=r"there is no file .*absent\.toml"):
        load(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_our_own_configuration() -> None:
    """The repository's own file loads: three releases of JAX, the oldest as baseline, and two kernels."""
    config = load(REPOSITORY / "watchdog.toml")
    assert list(config.pins) == ["jax-0.8.3", "jax-0.9.2", "jax-0.10.2"]
    assert config.baseline == "jax-0.8.3"
    assert [kernel.name for kernel in config.kernel] == ["flash_attention", "jax_flash_attention"]


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", DOCUMENTATION, re.DOTALL))
def test_the_documentation_s_examples_load(write: Any, tmp_path: Path, example: str) -> None:
    """Each example in docs/configuration.md is valid; where it shows one table only, the others are added."""
    for folder in ("kernels", "my-model"):
        (tmp_path / folder).mkdir()
    (tmp_path / "uv.lock").touch()
    text = example
    if "[[kernel]]" not in text:
        text += KERNEL + CASE
    if "[pins." not in text:
        text += '[pins.production]\nrequirements = ["jax"]\n'
    assert isinstance(load(write(text)), Config)


def test_the_documentation_names_every_key() -> None:
    """Each table of docs/configuration.md has a row for exactly the keys, targets and checks that exist."""
    sections = dict(re.findall(r"^## `([^`]*)`\n(.*?)(?=^## )", DOCUMENTATION, re.DOTALL | re.MULTILINE))
    tables = {
        "[watchdog]": set(Options.model_fields),
        "[pins.NAME]": set(Pins.model_fields),
        "[[kernel]]": set(Kernel.model_fields) - {"case"},  # a table of its own
        "[[kernel.case]]": set(Case.model_fields),
        "[service]": set(ServiceTable.model_fields),
        "[gate]": set(GateTable.model_fields),
    }
    assert sections.keys() == tables.keys()
    for header, keys in tables.items():
        assert set(re.findall(r"^\| `(\w+)` \|", sections[header], re.MULTILINE)) == keys
    for word in (*TARGETS, *Check, *Scenario):
        assert f"`{word}`" in sections["[watchdog]"]
