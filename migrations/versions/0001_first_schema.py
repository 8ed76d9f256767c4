"""The first schema: runs, locks, environments, plans, observations with their series, verdicts."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

CELL = ("kernel", "implementation", "case", "pins", "target", "check")


def upgrade() -> None:
    _runs()
    _locks()
    _run_environments()
    _planned_cells()
    _observations()
    _series()
    _verdicts()


def downgrade() -> None:
    for table in (
        "verdicts",
        "series",
        "observations",
        "planned_cells",
        "run_environments",
        "lock_requests",
        "locks",
        "runs",
    ):
        op.drop_table(table)


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("finished", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("host", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_started", "runs", ["started"])


def _locks() -> None:
    op.create_table(
        "locks",
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("packages", sa.JSON, nullable=False),
        sa.Column("python", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_locks"),
    )
    op.create_table(
        "lock_requests",
        sa.Column("request_key", sa.Text, nullable=False),
        sa.Column("lock_hash", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_key", name="pk_lock_requests"),
        sa.ForeignKeyConstraint(["lock_hash"], ["locks.hash"], name="fk_lock_requests_lock_hash", ondelete="CASCADE"),
    )


def _run_environments() -> None:
    op.create_table(
        "run_environments",
        _number(),
        _run(),
        sa.Column("pins", sa.Text, nullable=False),
        sa.Column("kernels", sa.JSON, nullable=False),
        sa.Column("lock_hash", sa.Text),
        sa.Column("python", sa.Text, nullable=False),
        sa.Column("packages", sa.JSON, nullable=False),
        *_keys("run_environments"),
        sa.ForeignKeyConstraint(["lock_hash"], ["locks.hash"], name="fk_run_environments_lock_hash"),
    )
    op.create_index("ix_run_environments_run", "run_environments", ["run"])


def _planned_cells() -> None:
    op.create_table(
        "planned_cells",
        _number(),
        _run(),
        *_cell(),
        *_keys("planned_cells"),
        sa.UniqueConstraint("run", *CELL, name="uq_planned_cells_run"),
    )


def _observations() -> None:
    op.create_table(
        "observations",
        _number(),
        _run(),
        *_cell(),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("fault", sa.JSON),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("log_tail", sa.Text, nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        *_keys("observations"),
        sa.UniqueConstraint("run", *CELL, name="uq_observations_run"),
    )
    op.create_index("ix_observations_cell", "observations", list(CELL))


def _series() -> None:
    op.create_table(
        "series",
        sa.Column("observation", sa.Integer, nullable=False),
        sa.Column("signal", sa.Text, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("encoding", sa.Text, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("observation", "signal", name="pk_series"),
        sa.ForeignKeyConstraint(
            ["observation"], ["observations.number"], name="fk_series_observation", ondelete="CASCADE"
        ),
    )


def _verdicts() -> None:
    op.create_table(
        "verdicts",
        _number(),
        _run(),
        sa.Column("id", sa.Text, nullable=False),
        *_cell(),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("baseline", "scenario", "signal", "kind", "suspect")),
        *(sa.Column(name, sa.Float(53)) for name in ("figure_value", "figure_low", "figure_high")),
        sa.Column("figure_unit", sa.Text),
        sa.Column("detectable_value", sa.Float(53)),
        sa.Column("detectable_unit", sa.Text),
        sa.Column("where", sa.Text),
        *_keys("verdicts"),
    )
    op.create_index("ix_verdicts_run", "verdicts", ["run"])
    op.create_index("ix_verdicts_id", "verdicts", ["id", "run"])


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.Integer, nullable=False)


def _run() -> sa.Column[str]:
    return sa.Column("run", sa.Text, nullable=False)


def _cell() -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in CELL]


def _keys(table: str) -> list[sa.Constraint]:
    return [
        sa.PrimaryKeyConstraint("number", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=f"fk_{table}_run", ondelete="CASCADE"),
    ]
