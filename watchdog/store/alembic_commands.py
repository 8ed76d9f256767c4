"""The two things the store asks of Alembic. Importing it takes long: do so only when a store is not up to date."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(connection: Connection, folder: Path, revision: str) -> None:
    """Run the migrations in `folder` up to `revision`, in the connection's transaction."""
    command.upgrade(_config(folder, connection), revision)


def downgrade(connection: Connection, folder: Path, revision: str) -> None:
    """Undo the migrations in `folder` down to `revision`, in the connection's transaction."""
    command.downgrade(_config(folder, connection), revision)


def known_revisions(folder: Path) -> set[str]:
    """The revisions that the migrations in `folder` lead to."""
    return {script.revision for script in ScriptDirectory.from_config(_config(folder)).walk_revisions()}


def _config(folder: Path, connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    return config
