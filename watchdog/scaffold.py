"""What `watchdog init` writes: a commented `watchdog.toml` for the user's own kernel, or the bundled demonstration."""

from __future__ import annotations

import shutil
from pathlib import Path

from watchdog.config import FILE_NAME
from watchdog.errors import UsageError
from watchdog.rooms import room

_STARTER = """\
# Kernel Watchdog: what to watch, under which library versions, and what to ask.
# `watchdog check-config` reads this file and names every mistake in it; `watchdog run` does the job.

[watchdog]
# The pins that are known to be good; the others are judged against them.
baseline = "current"

# "host" is this machine's own device. A TPU generation, such as "tpu:v5e", is reached by its compiler alone: that
# needs no TPU. Known: v2, v3, v4, v5e, v5p, v6e, tpu7x.
targets = ["host", "tpu:v5e"]

# What one cell may take before it is stopped, which is then recorded as an observation.
# cell_timeout = "5m"
# cell_memory = "8GiB"

# The ways of using a kernel in which its memory is watched; all ten by default. docs/configuration.md explains them.
# scenarios = ["steady", "eager", "shapes", "rebuild", "grad", "donate", "errors", "threads", "async", "reload"]


# Pins: the sets of library versions to compare. Each is installed into an environment of its own.

[pins.current]
requirements = ["jax[tpu]==0.9.2"]  # what you use today
python = "3.11"

[pins.next]
requirements = ["jax[tpu]==0.10.2"]  # what you think of moving to
python = "3.11"

# A lock that another tool made does as well:
# [pins.production]
# lock = "uv.lock"  # or requirements.txt, pylock.toml


# The kernel. Replace the names with your own; nothing in your code imports Kernel Watchdog.

[[kernel]]
name = "my_kernel"

# The kernel under watch and what XLA offers for the same job, as module:function. Both are called with the same
# arguments and give the same result.
custom = "my_kernel.pallas_tpu:my_kernel"
native = "my_kernel.native:my_kernel"

# The folder that holds the modules above. Leave it out when they come with a package, and name that instead.
path = "."
# requirements = ["./my-project", "einops>=0.8"]

# One case for each input that matters to you: a small one, which can be checked without a TPU, and a real one.

[[kernel.case]]
name = "small"
args = ["f32[256,128]"]  # one string per argument: dtype[shape], and optionally how to fill it

[[kernel.case]]
name = "real"
args = ["bf16[8192,1024]"]
# kwargs = { causal = true }
# seed = 1


# Where the kernel serves: then a leak is told in hours to out-of-memory, restarts and money.
# [service]
# calls_per_second = 40.0
# device_memory = "16GiB"
# price_per_hour = 1.2
"""

_STARTER_STEPS = """\
1. In watchdog.toml, put your kernel's functions, its cases and the library versions that you care about.
2. `watchdog check-config` reads it and names every mistake.
3. `watchdog doctor` says what this machine can and cannot answer.
4. `watchdog run` builds the environments, asks the questions and writes the report.
What a run keeps goes into .watchdog/; add that line to .gitignore.
"""

_DEMO_STEPS = """\
1. `watchdog doctor` says what this machine can and cannot answer.
2. `watchdog run` watches two flash attention kernels under three releases of JAX, and writes the report.
3. To watch your own kernel, add a [[kernel]] table to watchdog.toml.
What a run keeps goes into .watchdog/; add that line to .gitignore.
"""


def starter_config() -> str:
    """A `watchdog.toml` for a kernel of one's own; it loads as it is, its names are to be replaced."""
    return _STARTER


def starter_steps() -> str:
    """What to do after `write_starter`, one step per line."""
    return _STARTER_STEPS


def demo_steps() -> str:
    """What to do after `write_demo`, one step per line."""
    return _DEMO_STEPS


def write_starter(directory: Path) -> list[Path]:
    """Write the starter configuration into `directory`, which is made if missing; return what was written.

    Raises UsageError when there is a configuration already, or when it cannot be written.
    """
    _refuse_existing(directory / FILE_NAME)
    return [_write(directory / FILE_NAME, _STARTER)]


def write_demo(directory: Path) -> list[Path]:
    """Copy the bundled kernels and their configuration into `directory`; return what was written.

    Raises UsageError when one of the two is there already, or when they cannot be written; nothing is left half done.
    """
    kernels, config = directory / "kernels", directory / FILE_NAME
    _refuse_existing(config)
    _refuse_existing(kernels)
    _copy(room("kernels"), kernels)
    try:
        return [_write(config, _bundled_config().read_text(encoding="utf-8")), kernels]
    except UsageError:
        shutil.rmtree(kernels)
        raise


def _bundled_config() -> Path:
    """A wheel carries it inside the room of the kernels, a checkout beside that room."""
    kernels = room("kernels")
    inside = kernels / FILE_NAME
    return inside if inside.is_file() else kernels.parent / FILE_NAME


def _refuse_existing(path: Path) -> None:
    if path.exists() or path.is_symlink():
        msg = f"{path} is there already and is left as it is; move it away, or choose another folder"
        raise UsageError(msg)


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


_NOT_SHOWN = ("__pycache__", "*.pyc", FILE_NAME, "planted_leaks")  # the last is the selftest's own


def _copy(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_NOT_SHOWN))
    except (OSError, shutil.Error) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise _unwritable(target, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror or error}; choose a folder that you may write to")
