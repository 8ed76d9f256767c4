"""The only way in: `python -I <link to this folder>/run.py PLAN RECORDS LIVING`.

A JSON plan in, JSON lines out on the descriptor RECORDS. LIVING is a pipe whose other end the program holds.

This folder is loaded as the private package that the link's name gives it, so that no `checks` ever appears among
the modules of the environment under watch.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import json
import os
import select
import sys
from pathlib import Path

HERE = Path(__file__).parent.absolute()  # not resolved: the link's name is the package's name


def _load_package(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, HERE / "__init__.py", submodule_search_locations=[str(HERE)])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)


def _die_with_the_program(living: int) -> None:
    """Have the operating system send SIGIO, which ends a process, to this whole group when the pipe's other end closes."""
    fcntl.fcntl(living, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(living, fcntl.F_SETFL, fcntl.fcntl(living, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([living], [], [], 0)[0]:  # closed before anyone listened
        sys.exit("the program that started this process has ended")


def _behind_a_parent() -> None:
    """Go on in a child, so that the parent which code under watch may signal is this process and not the program.

    The parent does nothing but end as the child ends.
    """
    child = os.fork()
    if child == 0:
        return
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def main(plan_file: str, record_fd: int, living: int) -> int:
    """Ask every question of the plan; returns pytest's exit status."""
    os.set_inheritable(record_fd, False)
    _die_with_the_program(living)
    _behind_a_parent()
    document = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    sys.path.append(document["tools"])  # last: never in place of a package that the environment lacks
    name = HERE.name
    _load_package(name)
    session = importlib.import_module(f"{name}.session")
    return int(session.run(document, record_fd, HERE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
