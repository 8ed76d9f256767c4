"""What `watchdog init` writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdog import scaffold
from watchdog.config import load
from watchdog.errors import UsageError
from watchdog.rooms import room


def test_the_starter_loads_as_it_is(tmp_path: Path) -> None:
    """The configuration that `init` writes is valid before its names are replaced, and every folder is made."""
    written = scaffold.write_starter(tmp_path / "new" / "folder")
    assert written == [tmp_path / "new" / "folder" / "watchdog.toml"]
    config = load(written[0])
    assert config.baseline == "current"
    assert [kernel.name for kernel in config.kernel] == ["my_kernel"]


def test_what_the_starter_leaves_commented_out_is_valid_too(tmp_path: Path) -> None:
    """Every line of configuration that stands in a comment may be taken out of it."""
    lines = scaffold.starter_config().splitlines()
    uncommented = [line.removeprefix("# ") if " = " in line or line.startswith("# [") else line for line in lines]
    (tmp_path / "watchdog.toml").write_text("\n".join(uncommented))
    (tmp_path / "uv.lock").touch()
    (tmp_path / "my-project").mkdir()
    config = load(tmp_path / "watchdog.toml")
    assert config.pins["production"].lock == "uv.lock"
    assert config.kernel[0].requirements == ("./my-project", "einops>=0.8")
    assert config.kernel[0].case[1].kwargs == {"causal": True}


def test_the_demonstration_is_complete(tmp_path: Path) -> None:
    """`init --demo` gives a configuration that loads, with every module of its kernels and nothing else.

    The leaks that the selftest plants are no kernel to show, and compiled leftovers are none either.
    """
    config_file, kernels = scaffold.write_demo(tmp_path)
    config = load(config_file)
    assert [kernel.name for kernel in config.kernel] == ["flash_attention", "jax_flash_attention"]
    bundled = {path.relative_to(room("kernels")) for path in room("kernels").rglob("*.py")}
    shown = {path for path in bundled if path.parts[0] != "planted_leaks"}
    assert {path.relative_to(kernels) for path in kernels.rglob("*.py")} == shown != bundled
    assert not list(kernels.rglob("*.pyc"))


@pytest.mark.parametrize("occupied", ["watchdog.toml", "kernels"])
def test_nothing_is_overwritten(tmp_path: Path, occupied: str) -> None:
    """Where one of the names is taken, `init --demo` writes nothing at all and names it."""
    (tmp_path / occupied).write_text("mine")
    with pytest.raises(UsageError, match=f"{occupied} is there already"):
        scaffold.write_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [occupied]
    assert (tmp_path / occupied).read_text() == "mine"


def test_an_existing_configuration_is_left_as_it_is(tmp_path: Path) -> None:
    """A second `init` refuses, and the user's file stays; a dangling link counts as a file."""
    (tmp_path / "watchdog.toml").symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(UsageError, match="is there already"):
        scaffold.write_starter(tmp_path)
    assert not (tmp_path / "elsewhere.toml").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_sentence(tmp_path: Path) -> None:
    """A folder without write permission is a usage error with the reason."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        scaffold.write_starter(tmp_path)


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    """A path through a file cannot become a folder; both forms of `init` say so."""
    (tmp_path / "file").touch()
    for write in (scaffold.write_starter, scaffold.write_demo):
        with pytest.raises(UsageError, match="cannot be written: "):
            write(tmp_path / "file" / "inside")


def test_the_next_steps_name_commands_and_the_folder_to_ignore() -> None:
    """Both texts lead to `watchdog run`, and say what to keep out of version control."""
    for steps in (scaffold.starter_steps(), scaffold.demo_steps()):
        assert "`watchdog run`" in steps
        assert ".gitignore" in steps
