"""README and docs say only what the program does: commands exist with their options, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.commands import ROOT
from watchdog.cli import app

_PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "kernels" / "README.md"])
_COMMAND = re.compile(r"(?<![\w./-])watchdog ((?:[a-z-]+)(?: [^\s`|&;]+)*)")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _commands(page: Path) -> list[list[str]]:
    """Every command line that is shown: in code blocks at the line's beginning, and in backticks."""
    text = page.read_text(encoding="utf-8")
    shown = [*re.findall(r"^\$ (.+)$", text, re.MULTILINE), *re.findall(r"`([^`\n]+)`", text)]
    return [
        match[1].split()
        for line in shown
        if (match := _COMMAND.match(line) or re.search(r"&& " + _COMMAND.pattern, line))
    ]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_shown_exists(page: Path) -> None:
    """Each `watchdog …` names a command, and each of its options is one of that command's."""
    for words in _commands(page):
        command: Any = typer.main.get_command(app)
        arguments = list(words)
        while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
            name = arguments.pop(0)
            names = name.split("|")  # `environments list|prune` shows two
            assert set(names) <= set(command.commands), f"{page.name}: watchdog {' '.join(words)}"
            command = command.commands[names[0]]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        for option in arguments:
            if option.startswith("-") and option != "-":
                assert option.partition("=")[0] in known, f"{page.name}: watchdog {' '.join(words)}"


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """Links between pages and to pictures name files that exist."""
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_there_are_commands_to_check() -> None:
    """The README shows commands: an empty search would prove nothing."""
    assert len(_commands(ROOT / "README.md")) >= 5
