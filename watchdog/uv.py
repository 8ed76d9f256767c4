"""The one seam to uv, the tool that resolves and installs: every call has a time limit and a clean environment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from uv import find_uv_bin

from watchdog.errors import UsageError
from watchdog.redaction import plain, redact

# What uv may see of the environment: where to look, how to connect, where to write. Never VIRTUAL_ENV or PYTHONPATH,
# which would let the caller's own packages in.
_PASSED = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TMPDIR|NETRC|PYENV_ROOT|XDG_\w+|LD_LIBRARY_PATH|UV_\w+"
    r"|SSL_CERT_\w+|(?i:https?_proxy|all_proxy|no_proxy)|GIT_SSL_\w+|SSH_AUTH_SOCK"
)
# uv's own settings that would move an installation elsewhere, or weaken what is verified.
_NEVER_PASSED = {
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_NO_VERIFY_HASHES",
    "UV_PREFIX",
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
    "UV_VENV_CLEAR",
    "UV_VENV_SEED",
    "UV_WORKING_DIRECTORY",
    "UV_WORKING_DIR",
}
# Users who told pip about a mirror mean uv as well: pip's variable, uv's, and what separates several values in uv's.
_FROM_PIP = (
    ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", " "),
    ("PIP_EXTRA_INDEX_URL", "UV_INDEX", " "),
    ("PIP_FIND_LINKS", "UV_FIND_LINKS", ","),
    ("PIP_CERT", "SSL_CERT_FILE", " "),
)


@dataclass(frozen=True)
class Answer:
    """How a process ended, and what it wrote."""

    code: int | None  # None: it was stopped at the time limit
    stdout: str
    stderr: str
    seconds: float

    @property
    def succeeded(self) -> bool:
        return self.code == 0


class Run(Protocol):
    """Starts a process and waits for it; tests put their own in its place."""

    def __call__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdin: str,
        seconds: float,
        keep_open: Sequence[int],
    ) -> Answer:
        """Raises OSError when the process cannot be started."""


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    stdin: str,
    seconds: float,
    keep_open: Sequence[int],
) -> Answer:
    """Run `command` in a process group of its own; at the limit of `seconds`, or when we are interrupted, all of it dies.

    `keep_open` are file descriptors that the process inherits. Raises OSError when it cannot be started.
    """
    started = time.monotonic()
    with subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        pass_fds=tuple(keep_open),
    ) as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            code = None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Answer(code, stdout, stderr, time.monotonic() - started)


@dataclass(frozen=True)
class Uv:
    """uv, ready to be called.

    `environment` is what it sees of ours; `run` is the seam for tests.
    """

    binary: Path
    environment: Mapping[str, str] = field(default_factory=lambda: clean_environment(os.environ))
    run: Run = run_process

    @classmethod
    def found(cls) -> Uv:
        """The uv that belongs to this program, or else the one on PATH.

        Raises UsageError when there is none.
        """
        return cls(_find_binary())

    def call(
        self,
        *arguments: str,
        seconds: float,
        folder: Path | None = None,
        stdin: str = "",
        keep_open: Sequence[int] = (),
    ) -> Answer:
        """Run `uv <arguments>` in `folder` (whose uv settings apply), for at most `seconds`.

        Both outputs come back without control characters; stderr without credentials too.
        Raises UsageError when uv or the folder cannot be used.
        """
        command = [str(self.binary), *arguments]
        try:
            answer = self.run(
                command,
                environment={**self.environment, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"},
                folder=folder or Path.cwd(),
                stdin=stdin,
                seconds=seconds,
                keep_open=keep_open,
            )
        except OSError as error:
            msg = f"uv cannot be started: {error}; reinstall it (pip install uv)"
            raise UsageError(msg) from error
        return Answer(answer.code, plain(answer.stdout), redact(plain(answer.stderr)), answer.seconds)

    @property
    def downloads_python(self) -> bool:
        """Whether the user lets uv download Pythons."""
        return self.environment.get("UV_PYTHON_DOWNLOADS", "never") not in ("never", "false")


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of `environment` that uv may see; pip's index settings speak for uv where it has none of its own."""
    clean = {
        name: value for name, value in environment.items() if _PASSED.fullmatch(name) and name not in _NEVER_PASSED
    }
    for pip, uv, separator in _FROM_PIP:
        if environment.get(pip) and uv not in clean and not (uv == "UV_DEFAULT_INDEX" and "UV_INDEX_URL" in clean):
            clean[uv] = separator.join(environment[pip].split())
    clean.setdefault("UV_PYTHON_DOWNLOADS", "never")
    return clean


def _find_binary() -> Path:
    try:
        return Path(find_uv_bin())
    except FileNotFoundError as error:
        on_path = shutil.which("uv")
        if on_path:
            return Path(on_path)
        msg = "uv is missing; install it beside this program (pip install uv)"
        raise UsageError(msg) from error
