"""The scenario becomes a part of a cell; until now the memory check knew one, `steady`."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

CELL = ("kernel", "implementation", "case", "pins", "target", "check")
TABLES = ("planned_cells", "observations", "verdicts")


def upgrade() -> None:
    op.drop_index("ix_observations_cell", "observations")
    for table in ("planned_cells", "observations"):
        op.add_column(table, sa.Column("scenario", sa.Text, nullable=False, server_default=""))
        _of_memory(table, "steady")
        _unique(table, (*CELL, "scenario"))
    op.create_index("ix_observations_cell", "observations", [*CELL, "scenario"])
    op.execute("UPDATE verdicts SET scenario = '' WHERE scenario IS NULL")
    _of_memory("verdicts", "steady")
    with op.batch_alter_table("verdicts") as verdicts:
        verdicts.alter_column("scenario", existing_type=sa.Text, nullable=False, server_default="")


def downgrade() -> None:
    """The older schema has one memory cell of a subject: what other scenarios saw has no place in it."""
    for table in TABLES:
        op.execute(f"DELETE FROM {table} WHERE scenario NOT IN ('', 'steady')")  # noqa: S608  # a name from above
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


def _of_memory(table: str, scenario: str) -> None:
    rows = sa.table(table, sa.column("check"), sa.column("scenario"))
    op.execute(rows.update().where(rows.c.check == "memory").values(scenario=scenario))


def _unique(table: str, columns: tuple[str, ...]) -> None:
    """One row of a run for each of these; SQLite can only do it by copying the table."""
    with op.batch_alter_table(table) as altered:
        altered.drop_constraint(f"uq_{table}_run", type_="unique")
        altered.create_unique_constraint(f"uq_{table}_run", ["run", *columns])
