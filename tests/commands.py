"""Running the program as its users do, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def watchdog(*arguments: str, folder: Path, check: bool = False) -> subprocess.CompletedProcess[str]:
    """`watchdog …` in `folder`; both outputs are kept."""
    return subprocess.run(
        [sys.executable, "-c", "from watchdog.cli import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=check,
    )
