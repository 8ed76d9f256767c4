"""What people install: the wheel carries every room and works on its own; `make watch` ends as it says."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.commands import ROOT

_ROOMS = ("checks", "kernels", "migrations", "reports")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    hidden = shutil.ignore_patterns(".*", "__pycache__", "tests", "dist")
    shutil.copytree(ROOT, sources, ignore=hidden)
    subprocess.run([find_uv_bin(), "build", "--wheel", "-q", "-o", str(folder), str(sources)], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.real
def test_the_wheel_carries_every_room(wheel: Path) -> None:
    """All files of the rooms are in it, inside the package: no `checks` or `kernels` at the top level."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"watchdog"}
    for room in _ROOMS:
        files = [path for path in (ROOT / room).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert files
        for path in files:
            assert f"watchdog/_rooms/{path.relative_to(ROOT)}" in names


@pytest.mark.real
def test_the_installed_wheel_does_the_job(wheel: Path, tmp_path: Path) -> None:
    """Installed apart from the sources it writes the demonstration, and a small run of it finds the broken import."""
    python = tmp_path / "tool" / "bin" / "python"
    subprocess.run([find_uv_bin(), "venv", "-q", "-p", sys.executable, str(tmp_path / "tool")], check=True)
    subprocess.run([find_uv_bin(), "pip", "install", "-q", "--python", str(python), str(wheel)], check=True)
    command = [str(python.parent / "watchdog")]
    subprocess.run([*command, "init", "--demo", "demo"], cwd=tmp_path, check=True, capture_output=True)
    options = ["--pins", "jax-0.9.2", "--kernel", "jax_flash_attention", "--check", "install", "--check", "import"]
    ended = subprocess.run(
        [*command, "run", *options], cwd=tmp_path / "demo", check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stderr
    assert "absl" in ended.stderr
    assert (tmp_path / "demo" / ".watchdog" / "report" / "index.html").is_file()


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 0), (2, 2), (3, 2)])
def test_make_watch(tmp_path: Path, code: int, ends: int) -> None:
    """Findings are no failure of `make watch`, and it says that `watchdog run` exits with 1; a failed run is one."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    fake = tmp_path / ".venv" / "bin" / "watchdog"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\necho ran $1\nexit {code}\n", encoding="utf-8")
    fake.chmod(0o755)
    (tmp_path / ".venv" / ".ready").touch()
    ended = subprocess.run(["make", "watch"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert "ran run" in ended.stdout
    assert ended.returncode == ends
    assert ("exits with 1" in ended.stdout) == (code == 1)
