"""The scenario becomes a part of a cell; until now the memory check knew one, `steady`."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

CELL = ("kernel", "implementation", "case", "pins", "target", "check")
ONE = "steady"  # the scenario that every memory cell meant

RUNS = sa.table("runs", sa.column("id"), sa.column("config", sa.JSON))
OBSERVATIONS = sa.table("observations", sa.column("number"), sa.column("check"), sa.column("data", sa.JSON))
VERDICTS = sa.table("verdicts", sa.column("id", sa.Text), sa.column("check"), sa.column("scenario", sa.Text))


def upgrade() -> None:
    op.drop_index("ix_observations_cell", "observations")
    for table in ("planned_cells", "observations"):
        op.add_column(table, sa.Column("scenario", sa.Text, nullable=False, server_default=""))
        rows = sa.table(table, sa.column("check"), sa.column("scenario"))
        op.execute(rows.update().where(rows.c.check == "memory").values(scenario=ONE))
        _unique(table, (*CELL, "scenario"))
    op.create_index("ix_observations_cell", "observations", [*CELL, "scenario"])
    _verdicts_of_cells()
    _change_links(lambda address: f"{address}/{ONE}")
    _change_options(lambda options: {"scenarios": [ONE], **options})


def downgrade() -> None:
    """The older schema has one memory cell of a subject: what was seen in other scenarios has no place in it."""
    for table in ("planned_cells", "observations"):
        op.execute(f"DELETE FROM {table} WHERE scenario NOT IN ('', '{ONE}')")  # noqa: S608  # names from above
    op.execute("DELETE FROM series WHERE observation NOT IN (SELECT number FROM observations)")
    op.drop_index("ix_observations_cell", "observations")
    for table in ("planned_cells", "observations"):
        _unique(table, CELL)
        with op.batch_alter_table(table) as altered:
            altered.drop_column("scenario")
    op.create_index("ix_observations_cell", "observations", list(CELL))
    with op.batch_alter_table("verdicts") as verdicts:
        verdicts.alter_column("scenario", existing_type=sa.Text, nullable=True, server_default=None)
    op.execute("UPDATE verdicts SET scenario = NULL WHERE scenario = ''")
    _change_links(lambda address: address.removesuffix(f"/{ONE}"))
    _change_options(_as_before)


def _verdicts_of_cells() -> None:
    """A verdict's scenario was its judge's; faults had none. Now it is the cell's, and so a part of every id."""
    of_memory = (VERDICTS.c.check == "memory") & VERDICTS.c.scenario.is_(None)
    op.execute(VERDICTS.update().where(of_memory).values(id=VERDICTS.c.id + f"/{ONE}", scenario=ONE))
    op.execute(VERDICTS.update().where(VERDICTS.c.scenario.is_(None)).values(scenario=""))
    with op.batch_alter_table("verdicts") as verdicts:
        verdicts.alter_column("scenario", existing_type=sa.Text, nullable=False, server_default="")


def _change_links(change: Callable[[str], str]) -> None:
    """Where kernels share a question, `same_as` holds the address of the cell that was asked."""
    chosen = sa.select(OBSERVATIONS.c.number, OBSERVATIONS.c.data).where(OBSERVATIONS.c.check == "memory")
    for number, data in op.get_bind().execute(chosen).all():
        address = data.get("same_as")
        if isinstance(address, str):
            changed = {**data, "same_as": change(address)}
            op.execute(OBSERVATIONS.update().where(OBSERVATIONS.c.number == number).values(data=changed))


def _change_options(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """A run is resumed by its stored configuration: one that began with a single scenario ends with it."""
    for name, config in op.get_bind().execute(sa.select(RUNS)).all():
        asked = config.get("config")
        if isinstance(asked, dict) and isinstance(asked.get("watchdog"), dict):
            changed = {**config, "config": {**asked, "watchdog": change(asked["watchdog"])}}
            op.execute(RUNS.update().where(RUNS.c.id == name).values(config=changed))


def _as_before(options: dict[str, Any]) -> dict[str, Any]:
    """Without the key that this migration wrote. One that a newer program wrote stays: an older cannot resume it."""
    newer = "memory_budget" in options
    return {key: value for key, value in options.items() if newer or key != "scenarios"}


def _unique(table: str, columns: tuple[str, ...]) -> None:
    """One row of a run for each of these; SQLite can only do it by copying the table."""
    with op.batch_alter_table(table) as altered:
        altered.drop_constraint(f"uq_{table}_run", type_="unique")
        altered.create_unique_constraint(f"uq_{table}_run", ["run", *columns])
