"""Environments hold exactly their lock, whatever happened while they were built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from tests.wheelhouse import Wheelhouse, make_project
from watchdog import environments
from watchdog.environments import BuildFailed, Built, EnvironmentCache, default_cache_directory
from watchdog.errors import UsageError
from watchdog.model import Package
from watchdog.pins import Lock, PinsRequest, resolve
from watchdog.uv import Answer, Uv, run_process

ROOT = Path(__file__).resolve().parent.parent


class Bench:
    """A wheelhouse, a cache and tools of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.house = Wheelhouse(folder / "house")
        self.house.add("leaf", "1.0")
        self.house.add("leaf", "1.1")
        self.house.add("gauge", "1.0", requires=("dial",))
        self.house.add("dial", "1.0")
        self.house.add("dial", "2.0")
        self.tools = folder / "tools.txt"
        self.tools.write_text("gauge\n", encoding="utf-8")

    def cache(self, uv: Uv | None = None) -> EnvironmentCache:
        return EnvironmentCache(self.folder / "cache", uv or self.house.uv(), self.tools)

    def lock(self, *requirements: str) -> Lock:
        lock = resolve(PinsRequest("p", requirements, None, None, self.folder), self.house.uv())
        assert isinstance(lock, Lock), lock
        return lock


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def built(answer: Built | BuildFailed) -> Built:
    assert isinstance(answer, Built), answer
    return answer


def failed(answer: Built | BuildFailed) -> BuildFailed:
    assert isinstance(answer, BuildFailed), answer
    return answer


def site_packages(environment: Built) -> Path:
    return next((environment.directory / "venv/lib").glob("python3*/site-packages"))


def says(environment: Built, expression: str) -> str:
    answer = subprocess.run(
        [environment.python, "-I", "-c", f"print({expression})"], capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def test_an_environment_imports_what_its_lock_says(bench: Bench) -> None:
    """The packages are there, in the locked versions, in the environment's own interpreter."""
    environment = built(bench.cache().build(bench.lock("leaf==1.0")))
    assert says(environment, "__import__('leaf').VERSION") == "1.0"
    assert (environment.verified, environment.cached) == (1, False)


def test_tools_stand_beside_the_environment_and_not_in_it(bench: Bench) -> None:
    """The environment holds the lock alone, so what a release forgot to require stays missing."""
    environment = built(bench.cache().build(bench.lock("leaf")))
    assert [package.name for package in environment.tool_versions] == ["dial", "gauge"]
    assert (environment.tools / "gauge.py").is_file()
    assert not (site_packages(environment) / "gauge.py").exists()


def test_tools_that_the_lock_has_are_taken_from_it(bench: Bench) -> None:
    """A tool's dependency that is locked keeps the locked version, and is not installed twice."""
    environment = built(bench.cache().build(bench.lock("dial==1.0")))
    assert [package.name for package in environment.tool_versions] == ["gauge"]
    assert says(environment, "__import__('dial').VERSION") == "1.0"


def test_tools_that_do_not_fit_the_lock_name_the_package(bench: Bench) -> None:
    """The sentence says which locked package stands in the way."""
    bench.house.add("strict", "1.0", requires=("dial>=2",))
    bench.tools.write_text("strict\n", encoding="utf-8")
    failure = failed(bench.cache().build(bench.lock("dial==1.0", "leaf")))
    assert failure.stage == "tools"
    assert "do not fit together with dial 1.0, which the lock pins" in failure.explanation


def test_an_environment_is_built_once(bench: Bench) -> None:
    """The second time it comes from the cache, verified again, with uv never called."""
    lock = bench.lock("leaf")
    first = built(bench.cache().build(lock))

    def refusing(command: Sequence[str], **_rest: object) -> Answer:
        pytest.fail(f"uv was called for a cached environment: {command}")

    second = built(bench.cache(Uv(Path("uv"), {}, refusing)).build(lock))
    assert (second.cached, second.verified) == (True, 1)
    assert (second.directory, second.tool_versions) == (first.directory, first.tool_versions)


@pytest.mark.parametrize("damage", ["missing", "extra", "other version", "interpreter", "tool"])
def test_a_damaged_environment_is_built_again(bench: Bench, damage: str) -> None:
    """Whatever no longer equals the lock is noticed when the environment is taken, and mended."""
    lock = bench.lock("leaf==1.0")
    environment = built(bench.cache().build(lock))
    packages = site_packages(environment)
    if damage == "missing":
        shutil.rmtree(packages / "leaf-1.0.dist-info")
    elif damage == "extra":
        shutil.copytree(environment.tools / "dial-2.0.dist-info", packages / "dial-2.0.dist-info")
    elif damage == "other version":
        metadata = packages / "leaf-1.0.dist-info/METADATA"
        text = metadata.read_text(encoding="utf-8").replace("1.0", "1.1")
        metadata.unlink()  # it is linked to uv's cache
        metadata.write_text(text, encoding="utf-8")
    elif damage == "interpreter":
        environment.python.unlink()
    else:
        shutil.rmtree(environment.tools / "dial-2.0.dist-info")
    again = built(bench.cache().build(lock))
    assert not again.cached
    assert says(again, "__import__('leaf').VERSION") == "1.0"
    assert built(bench.cache().build(lock)).cached


def test_an_installer_that_installs_something_else_is_caught(bench: Bench) -> None:
    """After a second try the failure says what differs from the lock."""
    real = bench.house.uv()
    tries = []

    def slipping(command: Sequence[str], **rest: object) -> Answer:
        if "sync" in command:
            tries.append(command)
            return Answer(0, "", "", 0.0)  # says that it worked, and did nothing
        return run_process(command, **rest)  # type: ignore[arg-type]  # passed on as they came

    failure = failed(bench.cache(Uv(real.binary, real.environment, slipping)).build(bench.lock("leaf")))
    assert (failure.stage, len(tries)) == ("verification", 2)
    assert "leaf is missing" in failure.explanation


def test_a_wrong_hash_is_an_installation_that_failed(bench: Bench) -> None:
    """Files that are not the locked ones are refused, with uv's explanation."""
    (bench.folder / "requirements.txt").write_text(f"leaf==1.0 --hash=sha256:{'1' * 64}\n", encoding="utf-8")
    lock = resolve(PinsRequest("p", (), Path("requirements.txt"), None, bench.folder), bench.house.uv())
    assert isinstance(lock, Lock)
    failure = failed(bench.cache().build(lock))
    assert failure.stage == "install"
    assert "1111" in failure.explanation


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_local_project_is_built_as_it_was_locked(bench: Bench, dynamic: bool) -> None:
    """Its code is installed as a copy; after a change it is another environment with the new code."""
    project = make_project(bench.folder / "mine", "mine", "0.3", requires=("leaf",), dynamic=dynamic)
    first = built(bench.cache().build(bench.lock("./mine")))
    (project / "mine.py").write_text("ANSWER = 2\n", encoding="utf-8")
    second = built(bench.cache().build(bench.lock("./mine")))
    assert [says(one, "__import__('mine').ANSWER") for one in (first, second)] == ["1", "2"]
    assert (first.verified, built(bench.cache().build(bench.lock("./mine"))).cached) == (2, True)


def test_a_project_that_changes_between_lock_and_build_is_refused(bench: Bench) -> None:
    """An environment never holds other code than its address says."""
    project = make_project(bench.folder / "mine", "mine", "0.3")
    lock = bench.lock("./mine")
    (project / "mine.py").write_text("ANSWER = 2\n", encoding="utf-8")
    failure = failed(bench.cache().build(lock))
    assert "changed after the pins were resolved" in failure.explanation


def test_a_project_that_does_not_build_fails_with_its_own_words(bench: Bench) -> None:
    """The build's error output is in the log."""
    project = make_project(bench.folder / "mine", "mine", "0.3")
    with (project / "backend.py").open("a", encoding="utf-8") as backend:
        backend.write("\ndef build_wheel(*args, **kwargs):\n    raise SystemExit('no wheel today')\n")
    failure = failed(bench.cache().build(bench.lock("./mine")))
    assert failure.stage == "install"
    assert "no wheel today" in failure.log


_BUILD_AND_DIE = """
import os, signal, sys
from pathlib import Path
from watchdog.environments import EnvironmentCache
from watchdog.pins import Lock
from watchdog.uv import Uv, run_process

binary, settings, text, python, root, cache, tools, fatal = sys.argv[1:]
calls = 0

def dying(command, **rest):
    global calls
    calls += 1
    if calls == int(fatal):
        {death}
    return run_process(command, **rest)

lock = Lock(Path(text).read_text(), python, Path(sys.executable).resolve(), Path(root))
environment = dict(os.environ, UV_CONFIG_FILE=settings, UV_CACHE_DIR=str(Path(root) / "house/uv-cache"))
EnvironmentCache(Path(cache), Uv(Path(binary), environment, dying), Path(tools)).build(lock)
"""
_KILL_SELF = "os.kill(os.getpid(), signal.SIGKILL)"


def build_and_die(bench: Bench, lock: Lock, fatal_call: int, death: str = _KILL_SELF) -> int:
    """Build `lock` in a process of its own that dies at its n-th call of uv; its exit status."""
    text = bench.folder / "lock.txt"
    text.write_text(lock.text, encoding="utf-8")
    uv = bench.house.uv()
    arguments = [
        *(str(uv.binary), uv.environment["UV_CONFIG_FILE"], str(text), lock.python),
        *(str(bench.folder), str(bench.folder / "cache"), str(bench.tools), str(fatal_call)),
    ]
    script = textwrap.dedent(_BUILD_AND_DIE).replace("{death}", death)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", script, *arguments], env=environment, check=False).returncode


@pytest.mark.parametrize("fatal_call", [1, 2, 3, 4])
def test_a_build_killed_at_any_step_is_not_trusted(bench: Bench, fatal_call: int) -> None:
    """The next start sees a ruin, builds it again and verifies it."""
    lock = bench.lock("leaf==1.0")
    assert build_and_die(bench, lock, fatal_call) == -9
    (ruin,) = bench.cache().list_environments()
    assert not ruin.complete
    environment = built(bench.cache().build(lock))
    assert (environment.cached, says(environment, "__import__('leaf').VERSION")) == (False, "1.0")


def test_what_a_killed_builder_started_is_waited_for(bench: Bench) -> None:
    """uv may outlive the program that called it: the next builder begins when it has stopped writing."""
    lock = bench.lock("leaf==1.0")
    trace = bench.folder / "orphan-done"
    # Started as uv is, so that it inherits what uv inherits; its output is closed, or the caller would wait for it.
    orphan = f"run_process(['sh', '-c', '(sleep 1.5; touch {trace}) >/dev/null 2>&1 &'], **rest); " + _KILL_SELF
    assert build_and_die(bench, lock, 2, orphan) == -9
    seen: list[str] = []

    def noting(message: str) -> None:
        seen.append(f"{message.split(' ', maxsplit=1)[0]} {trace.exists()}")

    built(bench.cache().build(lock, noting))
    assert seen == ["waiting False", "building True"]


def test_two_builders_of_one_environment_build_it_once(bench: Bench) -> None:
    """The second waits for the first and takes what it made."""
    lock = bench.lock("leaf")
    answers: list[Built | BuildFailed] = []
    threads = [Thread(target=lambda: answers.append(bench.cache().build(lock))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(built(answer).cached for answer in answers) == [False, True, True]


def test_a_builder_does_not_wait_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that stays busy is a failure with a sentence."""
    lock = bench.lock("leaf")
    environment = built(bench.cache().build(lock))
    monkeypatch.setattr(environments, "WAIT_SECONDS", 0.2)
    with bench.cache().in_use(environment):
        (environment.directory / "complete.json").unlink()
        assert failed(bench.cache().build(lock)).stage == "busy"


def test_pruning_leaves_what_is_in_use(bench: Bench) -> None:
    """It is reported as in use, still works, and goes once it is free."""
    lock = bench.lock("leaf")
    environment = built(bench.cache().build(lock))
    with bench.cache().in_use(environment):
        assert [one.removed for one in bench.cache().prune()] == [False]
        assert says(environment, "__import__('leaf').VERSION") == "1.1"
    assert [one.removed for one in bench.cache().prune()] == [True]
    assert not environment.directory.exists()
    assert bench.cache().list_environments() == ()


def test_pruning_keeps_what_is_young_or_named(bench: Bench) -> None:
    """Age and name both protect; a ruin is protected by its name alone."""
    young, named = (built(bench.cache().build(bench.lock(f"leaf=={version}"))) for version in ("1.0", "1.1"))
    ruin = bench.folder / "cache" / ("0" * 16)
    ruin.mkdir()
    assert [one.environment.directory for one in bench.cache().prune(older_than=timedelta(days=1))] == [ruin]
    pruned = bench.cache().prune(keep=[named.lock_hash])
    assert [one.environment.lock_hash for one in pruned] == [young.lock_hash]
    assert bench.cache().prune(keep=[named.lock_hash.removeprefix("sha256:")[:8]]) == ()


def test_pruning_finishes_an_earlier_one_that_was_killed(bench: Bench) -> None:
    """What was already moved out of the way is deleted."""
    built(bench.cache().build(bench.lock("leaf")))
    trash = bench.folder / "cache/.trash-1234"
    trash.mkdir()
    bench.cache().prune(older_than=timedelta(days=1))
    assert not trash.exists()


def test_using_a_removed_environment_is_refused(bench: Bench) -> None:
    """Between building and using, another process may have pruned: that is said, not run into."""
    environment = built(bench.cache().build(bench.lock("leaf")))
    bench.cache().prune()
    with pytest.raises(UsageError, match="removed"), bench.cache().in_use(environment):
        pass


def test_the_list_tells_what_matters(bench: Bench) -> None:
    """Hash, the packages of note, Python, size and whether it is complete."""
    bench.house.add("jax", "0.1")
    lock = bench.lock("jax", "leaf")
    built(bench.cache().build(lock))
    (one,) = bench.cache().list_environments()
    assert (one.lock_hash, one.packages, one.complete) == (lock.hash, (Package("jax", "0.1"),), True)
    assert one.python == lock.python
    assert one.bytes > 100


def test_new_tools_make_a_cached_environment_new(bench: Bench) -> None:
    """An upgrade of the program that asks for other tools gets them."""
    lock = bench.lock("leaf")
    built(bench.cache().build(lock))
    bench.tools.write_text("dial\n", encoding="utf-8")
    environment = built(bench.cache().build(lock))
    assert ([one.name for one in environment.tool_versions], environment.cached) == (["dial"], False)


def test_a_cache_that_cannot_be_written_is_named(bench: Bench) -> None:
    """The message says which folder, and that the configuration names it."""
    (bench.folder / "cache").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cache cannot be written: .*; set `environments` of \[watchdog\]"):
        bench.cache().build(bench.lock("leaf"))


def test_the_cache_can_be_moved_by_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KERNEL_WATCHDOG_CACHE names its parent."""
    monkeypatch.setenv("KERNEL_WATCHDOG_CACHE", str(tmp_path))
    assert default_cache_directory() == tmp_path / "environments"


def test_uv_that_runs_out_of_time_is_a_failure(bench: Bench) -> None:
    """The stage that hung is said."""
    real = bench.house.uv()

    def hanging(command: Sequence[str], **rest: object) -> Answer:
        if "sync" in command:
            return Answer(None, "", "", 1800.0)
        return run_process(command, **rest)  # type: ignore[arg-type]  # passed on as they came

    failure = failed(bench.cache(Uv(real.binary, real.environment, hanging)).build(bench.lock("leaf")))
    assert (failure.stage, failure.explanation) == ("time limit", "the lock could not be installed within 1800 s")


@pytest.mark.real
def test_the_real_tools_stand_beside_a_real_environment(tmp_path: Path) -> None:
    """pytest, pytest-benchmark and psutil import from the tools' folder, six from the environment."""
    uv = Uv.found()
    lock = resolve(PinsRequest("p", ("six==1.16.0",), None, None, tmp_path), uv)
    assert isinstance(lock, Lock)
    environment = built(EnvironmentCache(tmp_path / "cache", uv).build(lock))
    names = {package.name for package in environment.tool_versions}
    assert {"pytest", "pytest-benchmark", "psutil"} <= names
    tools = f"__import__('sys').path.append({str(environment.tools)!r})"
    assert says(environment, f"{tools} or [__import__(n).__name__ for n in ('six', 'pytest', 'psutil')][0]") == "six"
