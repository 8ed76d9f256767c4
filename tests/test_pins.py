"""Pins become locks, or uv's explanation why not."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wheelhouse import Wheelhouse, make_project
from watchdog.errors import UsageError
from watchdog.model import Package
from watchdog.pins import Lock, PinsRequest, Unresolvable, read_lock, resolve
from watchdog.uv import Answer, Uv, clean_environment, run_process

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    made = Wheelhouse(tmp_path / "house")
    for version in ("1.0", "1.1"):
        made.add("leaf", version)
    made.add("tree", "2.0", requires=("leaf>=1.0",))
    made.add("modern", "1.0", python=">=3.99")
    return made


def request(root: Path, *requirements: str, lock: str | None = None, python: str | None = None) -> PinsRequest:
    return PinsRequest("next", requirements, Path(lock) if lock else None, python, root)


def resolved(asked: PinsRequest, uv: Uv) -> Lock:
    lock = resolve(asked, uv)
    assert isinstance(lock, Lock), lock
    return lock


def unresolved(asked: PinsRequest, uv: Uv) -> Unresolvable:
    answer = resolve(asked, uv)
    assert isinstance(answer, Unresolvable), answer
    return answer


def test_a_lock_names_every_package_with_its_version_and_hash(house: Wheelhouse, tmp_path: Path) -> None:
    """What is needed indirectly is locked too, sorted by name, each with the hash of its file."""
    lock = resolved(request(tmp_path, "tree", "leaf<1.1"), house.uv())
    assert lock.packages == (Package("leaf", "1.0"), Package("tree", "2.0"))
    assert [len(entry.hashes) for entry in lock.entries] == [1, 1]
    assert lock.python == ".".join(map(str, sys.version_info[:3]))


def test_a_lock_is_the_same_however_it_was_asked_for(house: Wheelhouse, tmp_path: Path) -> None:
    """The order of requirements changes neither text, hash nor key."""
    one, other = request(tmp_path, "tree", "leaf==1.0"), request(tmp_path, "leaf==1.0", "tree")
    assert resolved(one, house.uv()) == resolved(other, house.uv())
    assert one.key == other.key


def test_another_version_is_another_hash(house: Wheelhouse, tmp_path: Path) -> None:
    """The hash addresses an environment, so it differs wherever the packages do."""
    old, new = (resolved(request(tmp_path, f"leaf=={version}"), house.uv()) for version in ("1.0", "1.1"))
    assert old.hash != new.hash
    assert old.hash.startswith("sha256:")


def test_the_hash_knows_the_python_but_not_its_patch(house: Wheelhouse, tmp_path: Path) -> None:
    """3.11.7 and 3.11.8 may share an environment; 3.11 and 3.12 may not."""
    lock = replace(resolved(request(tmp_path, "leaf"), house.uv()), python="3.11.7")
    assert replace(lock, python="3.11.8").hash == lock.hash
    assert replace(lock, python="3.12.7").hash != lock.hash


def test_pins_that_contradict_each_other_are_explained_by_uv(house: Wheelhouse, tmp_path: Path) -> None:
    """An unresolvable set is a value with uv's own words, not an exception."""
    answer = unresolved(request(tmp_path, "leaf==1.0", "leaf==1.1"), house.uv())
    assert answer.reason == "conflict"
    assert "leaf==1.0" in answer.explanation
    assert "unsatisfiable" in answer.explanation


def test_a_package_that_wants_another_python_says_so_first(house: Wheelhouse, tmp_path: Path) -> None:
    """The sentence names the package, the Python it needs, the one in use, and that none here will do."""
    answer = unresolved(request(tmp_path, "modern==1.0"), house.uv())
    assert answer.reason == "python"
    first = answer.explanation.splitlines()[0]
    assert first.startswith("modern==1.0 needs Python >=3.99, and these pins use Python 3.")
    assert "no suitable one is installed" in first


def test_a_python_that_is_not_installed_is_named_with_those_that_are(house: Wheelhouse, tmp_path: Path) -> None:
    """Nobody has to guess which interpreters were looked at."""
    answer = unresolved(request(tmp_path, "leaf", python="3.99"), house.uv())
    assert answer.reason == "python"
    assert "3.99" in answer.explanation
    assert ".".join(map(str, sys.version_info[:3])) in answer.explanation


def test_a_pyenv_python_off_the_path_is_found(house: Wheelhouse, tmp_path: Path) -> None:
    """pyenv's versions are searched themselves, as its shims start only the selected one."""
    place = tmp_path / "pyenv/versions/3.99.1/bin"
    place.mkdir(parents=True)
    fake = place / "python3.99"
    fake.write_text("#!/bin/sh\necho '[[3, 99, 1], \"cpython\"]'\n", encoding="utf-8")
    fake.chmod(0o755)
    real = house.uv()
    seen: list[str] = []

    def answering(
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdin: str,
        seconds: float,
        keep_open: Sequence[int],
    ) -> Answer:
        if "compile" in command:
            seen.append(command[command.index("--python") + 1])
            return Answer(0, 'lock-version = "1.0"\n', "", 0.0)
        return run_process(
            command, environment=environment, folder=folder, stdin=stdin, seconds=seconds, keep_open=keep_open
        )

    environment = {**real.environment, "PYENV_ROOT": str(tmp_path / "pyenv"), "PATH": "/usr/bin:/bin"}
    lock = resolved(request(tmp_path, python="3.99"), Uv(real.binary, environment, answering))
    assert (lock.python, seen) == ("3.99.1", [str(fake)])


def test_an_index_that_cannot_be_reached_is_not_the_pins_fault(tmp_path: Path) -> None:
    """A dead index is told apart from a conflict, and its password stays out of the message."""
    environment = {
        **clean_environment(os.environ),
        "UV_DEFAULT_INDEX": "http://me:s3cret@127.0.0.1:9/simple",
        "UV_HTTP_RETRIES": "0",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "NO_PROXY": "127.0.0.1",
    }
    environment.pop("UV_FIND_LINKS", None)
    answer = unresolved(request(tmp_path, "leaf"), Uv(Uv.found().binary, environment))
    assert answer.reason == "index"
    assert "127.0.0.1" in answer.explanation
    assert "s3cret" not in answer.explanation + answer.log


def test_a_resolver_that_hangs_is_stopped_and_said_so(house: Wheelhouse, tmp_path: Path) -> None:
    """The time limit of uv is an answer too."""
    real = house.uv()

    def hanging(command: Sequence[str], **rest: object) -> Answer:
        if "compile" in command:
            return Answer(None, "", "half a line", 300.0)
        return run_process(command, **rest)  # type: ignore[arg-type]  # passed on as they came

    answer = unresolved(request(tmp_path, "leaf"), Uv(real.binary, real.environment, hanging))
    assert answer.reason == "time limit"


def test_a_process_over_its_limit_dies_with_its_children(tmp_path: Path) -> None:
    """Nothing that uv started goes on writing after the limit."""
    late = tmp_path / "late"
    script = f"(sleep 2; touch {late}) & sleep 60"
    answer = run_process(
        ["sh", "-c", script], environment=dict(os.environ), folder=tmp_path, stdin="", seconds=0.3, keep_open=()
    )
    assert answer.code is None
    waited = run_process(
        ["sleep", "2.5"], environment=dict(os.environ), folder=tmp_path, stdin="", seconds=10, keep_open=()
    )
    assert waited.succeeded
    assert not late.exists()


def test_a_local_project_is_locked_by_its_content(house: Wheelhouse, tmp_path: Path) -> None:
    """A change of one of its files changes the lock's hash; what a build leaves behind does not."""
    project = make_project(tmp_path / "mine", "mine", "0.3", requires=("leaf",))
    asked = request(tmp_path, "./mine")
    before = resolved(asked, house.uv())
    (project / "build").mkdir()
    (project / "build/x.py").write_text("left behind", encoding="utf-8")
    (project / "__pycache__").mkdir()
    (project / "__pycache__/x.pyc").write_bytes(b"left behind")
    assert resolved(asked, house.uv()).hash == before.hash
    (project / "mine.py").write_text("ANSWER = 2\n", encoding="utf-8")
    after = resolved(asked, house.uv())
    assert after.hash != before.hash
    assert [one.name for one in before.packages] == ["leaf", "mine"]
    assert before.packages[1].version.startswith("0.3+content.")
    assert before.packages[1] != after.packages[1]


def test_the_same_project_elsewhere_is_the_same_lock(house: Wheelhouse, tmp_path: Path) -> None:
    """The hash is of content, not of places, so that a checkout may move."""
    make_project(tmp_path / "a/mine", "mine", "0.3")
    make_project(tmp_path / "b/mine", "mine", "0.3")
    one, other = (resolved(request(tmp_path / place, "-e ./mine"), house.uv()) for place in "ab")
    assert one.hash == other.hash


def test_a_stored_lock_reads_back_as_itself(house: Wheelhouse, tmp_path: Path) -> None:
    """Text and Python are enough to have the lock again, local projects included."""
    make_project(tmp_path / "my mine", "mine", "0.3", dynamic=True)
    lock = resolved(request(tmp_path, "./my mine", "tree"), house.uv())
    again = read_lock(lock.text, lock.python, tmp_path, house.uv())
    assert again == lock
    assert isinstance(again, Lock)
    assert (again.hash, again.entries) == (lock.hash, lock.entries)


@pytest.mark.parametrize(
    ("requirement", "says"),
    [("foo bar", "cannot be read"), ("./absent", "not there"), ("./empty", "no Python project")],
)
def test_a_requirement_that_cannot_be_read_is_a_mistake_of_the_user(
    house: Wheelhouse, tmp_path: Path, requirement: str, says: str
) -> None:
    """It is refused before uv is asked, with the pins' name and the requirement."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=says) as caught:
        resolve(request(tmp_path, requirement), house.uv())
    assert "'next'" in str(caught.value)


def test_a_python_that_is_neither_version_nor_path_is_refused(house: Wheelhouse, tmp_path: Path) -> None:
    """The message shows how to write it."""
    with pytest.raises(UsageError, match=r'write it as "3\.12"'):
        resolve(request(tmp_path, "leaf", python="latest"), house.uv())


def test_a_requirements_file_is_honoured_exactly(house: Wheelhouse, tmp_path: Path) -> None:
    """Its versions stay although newer ones exist, its markers are obeyed, and missing hashes are added."""
    text = 'leaf==1.0  # old on purpose\ntree==2.0 ; python_version >= "3"\nmodern==1.0 ; python_version < "3"\n'
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    lock = resolved(request(tmp_path, lock="requirements.txt"), house.uv())
    assert lock.packages == (Package("leaf", "1.0"), Package("tree", "2.0"))
    assert all(entry.hashes for entry in lock.entries)


def test_the_hashes_of_a_requirements_file_are_kept(house: Wheelhouse, tmp_path: Path) -> None:
    """The user's hash is what the installation will be held to, even when the index says otherwise."""
    own = f"sha256:{'1' * 64}"
    (tmp_path / "requirements.txt").write_text(f"leaf==1.0 \\\n    --hash={own}\n", encoding="utf-8")
    lock = resolved(request(tmp_path, lock="requirements.txt"), house.uv())
    assert lock.entries[0].hashes == (own,)


def test_requirements_beside_a_lock_file_are_added_under_it(house: Wheelhouse, tmp_path: Path) -> None:
    """What a kernel needs comes in, and the locked versions stay."""
    (tmp_path / "requirements.txt").write_text("leaf==1.0\n", encoding="utf-8")
    lock = resolved(request(tmp_path, "tree", lock="requirements.txt"), house.uv())
    assert lock.packages == (Package("leaf", "1.0"), Package("tree", "2.0"))


def test_a_contradictory_requirements_file_is_still_honoured(house: Wheelhouse, tmp_path: Path) -> None:
    """Teams do run sets that a resolver would refuse: what they run is what is watched."""
    house.add("picky", "1.0", requires=("leaf>=1.1",))
    (tmp_path / "requirements.txt").write_text("leaf==1.0\npicky==1.0\n", encoding="utf-8")
    lock = resolved(request(tmp_path, lock="requirements.txt"), house.uv())
    assert lock.packages == (Package("leaf", "1.0"), Package("picky", "1.0"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("leaf>=1.0\n", r"requirements\.txt:1: leaf>=1\.0 is not pinned"),
        ("# one\n\nleaf==1.*\n", r"requirements\.txt:3: leaf==1\.\* is not pinned"),
        ("tree==2.0\n", "lacks leaf"),
        ("leaf = 1\n", r"requirements\.txt:1: 'leaf = 1' cannot be read"),
        ("-r absent.txt\n", r"absent\.txt cannot be read"),
        ("./absent\n", r"requirements\.txt:1: the local project .*absent is not there"),
    ],
)
def test_a_file_that_does_not_pin_is_refused_with_its_line(
    house: Wheelhouse, tmp_path: Path, text: str, says: str
) -> None:
    """A lock file that leaves something open is no lock, and the message says where and how to mend it."""
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=says):
        resolve(request(tmp_path, lock="requirements.txt"), house.uv())


def test_a_missing_lock_file_is_named(house: Wheelhouse, tmp_path: Path) -> None:
    """The path is in the message."""
    with pytest.raises(UsageError, match=r"absent\.txt is not there"):
        resolve(request(tmp_path, lock="absent.txt"), house.uv())


def test_a_pylock_file_is_honoured_with_its_markers(house: Wheelhouse, tmp_path: Path) -> None:
    """Packages whose marker does not hold are left out; hashes are the file's own."""
    text = f"""
lock-version = "1.0"
created-by = "test"
[[packages]]
name = "leaf"
version = "1.0"
wheels = [{{ name = "leaf-1.0-py3-none-any.whl", hashes = {{ sha256 = "{"2" * 64}" }} }}]
[[packages]]
name = "modern"
version = "1.0"
marker = "python_version < '3'"
wheels = [{{ name = "modern-1.0-py3-none-any.whl", hashes = {{ sha256 = "{"3" * 64}" }} }}]
"""
    (tmp_path / "pylock.toml").write_text(text, encoding="utf-8")
    lock = resolved(request(tmp_path, lock="pylock.toml"), house.uv())
    assert [(entry.name, entry.hashes) for entry in lock.entries] == [("leaf", (f"sha256:{'2' * 64}",))]


@pytest.mark.parametrize(
    "text", ["not = [toml", 'lock-version = "1.0"\n', 'lock-version = "1.0"\n[[packages]]\nversion = "1"\n']
)
def test_a_malformed_pylock_file_is_refused(house: Wheelhouse, tmp_path: Path, text: str) -> None:
    """The file is named and its trouble said, without a traceback."""
    (tmp_path / "pylock.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"pylock\.toml (is no TOML|does not follow)"):
        resolve(request(tmp_path, lock="pylock.toml"), house.uv())


def test_a_uv_lock_is_honoured_without_the_project_itself(house: Wheelhouse, tmp_path: Path) -> None:
    """What the project depends on is locked as uv.lock says; the project and its development group stay out."""
    text = (
        f'[project]\nname = "app"\nversion = "1"\nrequires-python = ">={MINOR}"\ndependencies = ["tree", "leaf==1.0"]\n'
        '[dependency-groups]\ndev = ["devonly"]\n'
    )
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    house.add("devonly", "1.0")
    uv = house.uv()
    locked = uv.call("lock", "--python", sys.executable, seconds=60, folder=tmp_path)
    assert locked.succeeded, locked.stderr
    house.add("tree", "3.0")
    lock = resolved(request(tmp_path, lock="uv.lock"), uv)
    assert lock.packages == (Package("leaf", "1.0"), Package("tree", "2.0"))


def test_a_broken_uv_lock_is_refused_with_uvs_words(house: Wheelhouse, tmp_path: Path) -> None:
    """uv's own complaint is part of the message."""
    (tmp_path / "uv.lock").write_text("version = 1\n[[package]]\nname = 1\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "app"\nversion = "1"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"uv\.lock cannot be read by uv"):
        resolve(request(tmp_path, lock="uv.lock"), house.uv())


def test_uv_never_sees_the_callers_own_environment() -> None:
    """Of our variables only those about the network, the index and places cross; pip's index speaks for uv."""
    clean = clean_environment(
        {
            "PATH": "/bin",
            "PYTHONPATH": "/x",
            "VIRTUAL_ENV": "/y",
            "AWS_SECRET_ACCESS_KEY": "s3cret",
            "UV_SYSTEM_PYTHON": "1",
            "UV_NO_VERIFY_HASHES": "1",
            "UV_CACHE_DIR": "/c",
            "https_proxy": "http://p",
            "PIP_INDEX_URL": "https://mirror.example/simple",
        }
    )
    assert clean == {
        "PATH": "/bin",
        "UV_CACHE_DIR": "/c",
        "https_proxy": "http://p",
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_PYTHON_DOWNLOADS": "never",
    }


@pytest.mark.real
def test_a_package_of_the_index_is_locked_with_its_hashes(tmp_path: Path) -> None:
    """The real index, the real uv."""
    lock = resolved(request(tmp_path, "six==1.16.0"), Uv.found())
    assert lock.packages == (Package("six", "1.16.0"),)
    assert lock.entries[0].hashes


@pytest.mark.parametrize(
    "said",
    [
        "the current Python version (3.11.7) does not satisfy Python>=3.99 and jax==0.12.0 depends on Python>=3.99, we can",
        "jax==0.12.0 requires Python >=3.99 and you require jax==0.12.0, we can",
        "the current Python version (3.11.7) does not satisfy Python>=3.99 and you require jax==0.12.0, we can",
    ],
)
def test_every_way_in_which_uv_speaks_of_python_is_understood(house: Wheelhouse, tmp_path: Path, said: str) -> None:
    """uv words it differently for packages of an index, of a folder, and with extras."""
    real = house.uv()

    def refusing(command: Sequence[str], **rest: object) -> Answer:
        if "compile" in command:
            return Answer(
                1, "", f"error: No solution found when resolving dependencies\n  cause: Because {said} conclude", 0.1
            )
        return run_process(command, **rest)  # type: ignore[arg-type]  # passed on as they came

    answer = unresolved(request(tmp_path, "jax==0.12.0"), Uv(real.binary, real.environment, refusing))
    assert answer.reason == "python"
    assert answer.explanation.startswith("jax==0.12.0 needs Python >=3.99, and these pins use Python ")
    assert said in answer.explanation


@pytest.mark.real
def test_a_package_that_no_index_has_is_unresolvable(tmp_path: Path) -> None:
    """A version that does not exist is a conflict, in uv's words."""
    answer = unresolved(request(tmp_path, "six==0.0.0.1"), Uv.found())
    assert answer.reason == "conflict"
    assert "six==0.0.0.1" in answer.explanation
