"""The files that users already have are read exactly, or refused in one sentence that says what and where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from watchdog import interpreters, lockfiles
from watchdog.errors import ConfigError, UsageError
from watchdog.interpreters import Interpreter
from watchdog.lockfiles import Pinned, read_lock_file, read_requirements_file
from watchdog.uv import Uv

PROJECT = """
[tool.poetry.dependencies]
python = "^3.10"
jax = {version = "0.9.2", extras = ["tpu"]}
docs-only = {version = "1", optional = true}
"""
OLD_POETRY = """
[[package]]
name = "jax"
version = "0.9.2"
[package.dependencies]
jaxlib = "0.9.2"
libtpu = {version = "0.0.39", optional = true, markers = "extra == \\"tpu\\""}
colorama = {version = "*", markers = "sys_platform == \\"win32\\""}
[package.extras]
tpu = ["libtpu (==0.0.39)"]

[[package]]
name = "jaxlib"
version = "0.9.2"

[[package]]
name = "libtpu"
version = "0.0.39"
optional = true

[[package]]
name = "colorama"
version = "0.4"

[[package]]
name = "pytest"
version = "9.0"

[[package]]
name = "inhouse"
version = "2.0"
[package.source]
type = "git"
url = "https://example.org/inhouse.git"
reference = "main"
resolved_reference = "0123abc"

[metadata]
lock-version = "{version}"
python-versions = "^3.10"
"""
NEW_POETRY = """
[[package]]
name = "Jax"
version = "0.9.2"
optional = false
groups = ["main"]
files = [{file = "jax.whl", hash = "sha256:aa"}, {file = "jax.tar.gz", hash = "sha256:bb"}]

[[package]]
name = "colorama"
version = "0.4"
groups = ["main", "dev"]
markers = {main = "sys_platform == \\"win32\\"", dev = "python_version > \\"3\\""}
files = [{file = "c.whl", hash = "sha256:cc"}]

[[package]]
name = "libtpu"
version = "0.0.39"
optional = true
groups = ["main"]
markers = "extra == \\"tpu\\""
files = [{file = "l.whl", hash = "sha256:dd"}]

[[package]]
name = "pytest"
version = "9.0"
groups = ["dev"]
files = [{file = "p.whl", hash = "sha256:ee"}]

[[package]]
name = "ours"
version = "1.0"
groups = ["main"]
files = [{file = "o.whl", hash = "sha256:ff"}]
[package.source]
type = "legacy"
url = "https://packages.example.org/simple"
reference = "company"

[metadata]
lock-version = "2.1"
python-versions = ">=3.10,<4"
"""


HASH = "sha256:aa"


def old_poetry(version: str) -> str:
    """As poetry wrote it before each package said for which groups it is; the place of hashes has changed since 1.1."""
    text = OLD_POETRY.replace("{version}", version)
    files = f'[{{file = "one.whl", hash = "{HASH}"}}]'
    if version == "1.1":
        names = re.findall(r'^name = "(.*)"', text, re.MULTILINE)
        return text + "[metadata.files]\n" + "".join(f"{name} = {files}\n" for name in names)
    return re.sub(r'^(name = ".*")', rf"\1\nfiles = {files}", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def uv() -> Uv:
    return Uv.found()


@pytest.fixture(scope="module")
def here(uv: Uv) -> Interpreter:
    found = interpreters.find(None, uv)
    assert found is not None
    return found


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


class TestPoetry:
    @pytest.mark.parametrize("version", ["1.1", "2.0"])
    def test_an_old_lock_is_followed_from_the_project(
        self, tmp_path: Path, here: Interpreter, uv: Uv, version: str
    ) -> None:
        """Extras count, other platforms and what no dependency of the project needs do not."""
        written(tmp_path, "pyproject.toml", PROJECT + 'inhouse = {git = "https://example.org/inhouse.git"}\n')
        lock = written(tmp_path, "poetry.lock", old_poetry(version))
        pinned = read_lock_file(lock, here, uv)
        assert set(pinned.requirements) == {
            "jax==0.9.2",
            "jaxlib==0.9.2",
            "libtpu==0.0.39",
            "inhouse @ git+https://example.org/inhouse.git@0123abc",
        }
        assert pinned.hashes == dict.fromkeys(("jax", "jaxlib", "libtpu"), (HASH,))

    def test_without_the_project_the_roots_are_what_nobody_needs(
        self, tmp_path: Path, here: Interpreter, uv: Uv
    ) -> None:
        """Development packages of an old lock are told by their category alone."""
        text = old_poetry("1.1").replace('name = "pytest"\n', 'name = "pytest"\ncategory = "dev"\n')
        pinned = read_lock_file(written(tmp_path, "poetry.lock", text), here, uv)
        assert pinned.names == {"jax", "jaxlib", "libtpu", "inhouse"}

    def test_a_new_lock_says_by_itself_what_is_for_whom(self, tmp_path: Path, here: Interpreter, uv: Uv) -> None:
        """The main group without extras, with every hash, and its private index."""
        pinned = read_lock_file(written(tmp_path, "poetry.lock", NEW_POETRY), here, uv)
        assert pinned.requirements == ("jax==0.9.2", "ours==1.0")
        assert pinned.hashes == {"jax": ("sha256:aa", "sha256:bb"), "ours": ("sha256:ff",)}
        assert pinned.options == ("--extra-index-url https://packages.example.org/simple",)

    @pytest.mark.parametrize("wanted", ["^2.7", "~3.9", "3.9.*", "<3.0"])
    def test_a_lock_for_another_python_is_refused(self, tmp_path: Path, here: Interpreter, uv: Uv, wanted: str) -> None:
        """Poetry's own words for versions are understood."""
        lock = written(tmp_path, "poetry.lock", NEW_POETRY.replace(">=3.10,<4", wanted))
        with pytest.raises(UsageError, match=r"is a lock for Python .* name another one with --python"):
            read_lock_file(lock, here, uv)

    @pytest.mark.parametrize("wanted", ["*", "^3.10", "^3.8 || ^3.11", ">=3.10", "3.*"])
    def test_a_lock_for_this_python_is_read(self, tmp_path: Path, here: Interpreter, uv: Uv, wanted: str) -> None:
        lock = written(tmp_path, "poetry.lock", NEW_POETRY.replace(">=3.10,<4", wanted))
        assert read_lock_file(lock, here, uv).names == {"jax", "ours"}


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("uv.lock", "version = 7\n"),
            ("uv.lock", 'requires-python = ">=3.10"\n'),
            ("pylock.toml", 'lock-version = "9.9"\npackages = []\n'),
            ("pylock.ci.toml", "packages = []\n"),
            ("poetry.lock", '[metadata]\nlock-version = "3.0"\n'),
            ("poetry.lock", "[metadata]\n"),
        ],
    )
    def test_an_unknown_version_is_refused(
        self, tmp_path: Path, here: Interpreter, uv: Uv, name: str, text: str
    ) -> None:
        with pytest.raises(UsageError, match=r"is a lock of (no )?version.*write it again with"):
            read_lock_file(written(tmp_path, name, text), here, uv)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("uv.lock", 'version = 1\nrequires-python = ">=3.99"\n'),
            ("pylock.toml", 'lock-version = "1.0"\nrequires-python = "<3"\npackages = []\n'),
        ],
    )
    def test_another_python_is_refused(self, tmp_path: Path, here: Interpreter, uv: Uv, name: str, text: str) -> None:
        with pytest.raises(UsageError, match=r"is a lock for Python .*, and Python 3\.\d+\.\d+ is used"):
            read_lock_file(written(tmp_path, name, text), here, uv)

    def test_another_platform_is_refused(self, tmp_path: Path, here: Interpreter, uv: Uv) -> None:
        """Told by what a lock says of itself, or by nothing being left of it."""
        text = 'lock-version = "1.0"\nenvironments = ["sys_platform == \'win32\'"]\npackages = []\n'
        with pytest.raises(UsageError, match=r"is a lock for other machines: sys_platform == 'win32'"):
            read_lock_file(written(tmp_path, "pylock.toml", text), here, uv)
        text = "six==1.16.0 ; sys_platform == 'win32'\n"
        with pytest.raises(UsageError, match=r"pins nothing for Python .* on this platform"):
            read_lock_file(written(tmp_path, "requirements.txt", text), here, uv)

    def test_a_missing_hash_is_refused_with_its_line(self, tmp_path: Path, here: Interpreter, uv: Uv) -> None:
        """As pip does: one hash makes all of them needed; local projects have none."""
        text = "six==1.16.0 \\\n    --hash=sha256:aa\n# a remark\nidna==3.7\n"
        with pytest.raises(ConfigError, match=r"requirements\.txt:4: idna==3\.7 has no hash, though others have"):
            read_lock_file(written(tmp_path, "requirements.txt", text), here, uv)


class TestRequirementsText:
    def test_files_constraints_and_options_are_followed(self, tmp_path: Path, here: Interpreter) -> None:
        """Each path means what it means in its own file."""
        inner = tmp_path / "inner"
        inner.mkdir()
        written(inner, "base.txt", "-c limits.txt\nsix>=1.10 # why\nabsent ; python_version < '3'\n")
        written(inner, "limits.txt", "six<1.17\n")
        text = "--index-url https://user:secret@packages.example.org/simple\n-r inner/base.txt\njax[tpu]\n--require-hashes\n"
        asked = read_requirements_file(written(tmp_path, "requirements.txt", text), here)
        assert asked.requirements == ("six>=1.10", "jax[tpu]")
        assert asked.options == (
            "--index-url https://user:secret@packages.example.org/simple",
            f"-c {inner / 'limits.txt'}",
        )

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("-r gone.txt", "gone.txt cannot be read"),
            ("\n-c gone.txt", r"requirements\.txt:2: -c gone\.txt: .* is not there"),
            ("six\n-r requirements.txt", r"requirements\.txt:2: .* being read already"),
            ("six ===== 1", r"requirements\.txt:1: .* cannot be read as a requirement"),
            ("./gone", r"requirements\.txt:1: the local project .* is not there"),
            ("# nothing", "names no package"),
        ],
    )
    def test_what_cannot_be_followed_is_said(self, tmp_path: Path, here: Interpreter, text: str, problem: str) -> None:
        path = written(tmp_path, "requirements.txt", text)
        with pytest.raises(UsageError, match=problem):
            read_requirements_file(path, here)


def named(path: Path) -> list[str] | None:
    roots = lockfiles.roots(path)
    return None if roots is None else sorted(roots)


class TestRoots:
    def test_uv_lock_tells_its_projects(self, tmp_path: Path) -> None:
        text = (
            'version = 1\n[[package]]\nname = "app"\nversion = "1"\nsource = { virtual = "." }\n'
            'dependencies = [{ name = "Jax" }]\n[[package]]\nname = "jax"\nversion = "0.9.2"\n'
            'source = { registry = "https://example.org/simple" }\ndependencies = [{ name = "numpy" }]\n'
        )
        assert named(written(tmp_path, "uv.lock", text)) == ["jax"]

    def test_poetry_and_pylock_ask_the_project_beside(self, tmp_path: Path) -> None:
        lock = written(tmp_path, "poetry.lock", NEW_POETRY)
        assert lockfiles.roots(lock) is None
        written(tmp_path, "pyproject.toml", PROJECT + '[project]\ndependencies = ["numpy>=1"]\n')
        assert named(lock) == named(tmp_path / "pylock.toml") == ["jax", "numpy"]

    @pytest.mark.parametrize(
        ("text", "roots"),
        [
            (
                "jax==1 \\\n    --hash=sha256:aa\n    # via -r requirements.in\nnumpy==2\n    # via\n    #   jax\n",
                ["jax"],
            ),
            ("jax==1\n    # via\n    #   -r requirements.in\n    #   other\nother==1  # via jax\n", ["jax"]),
            ("jax==1  # via app (pyproject.toml)\nnumpy==2  # via jax\n", ["jax"]),
            ("jax==1\nnumpy==2\n", None),
        ],
    )
    def test_requirements_text_tells_by_its_remarks(self, tmp_path: Path, text: str, roots: list[str] | None) -> None:
        assert named(written(tmp_path, "requirements.txt", text)) == roots


def test_pinned_knows_its_kind(tmp_path: Path) -> None:
    """A requirements file is a lock where it pins its files."""
    assert lockfiles.is_lock(tmp_path / "uv.lock")
    assert lockfiles.is_lock(tmp_path / "pylock.ci.toml")
    assert lockfiles.is_lock(written(tmp_path, "requirements.txt", "six==1.16.0 --hash=sha256:aa\n"))
    assert not lockfiles.is_lock(written(tmp_path, "requirements.txt", "six==1.16.0\n"))
    assert Pinned.of(()).names == frozenset()
