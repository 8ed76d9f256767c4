"""What a gate keeps: the time of each process, what searches learned, and its answer."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

CELL = ("kernel", "implementation", "case", "pins", "target", "check", "scenario")


def upgrade() -> None:
    op.create_table(
        "samples",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in CELL[:-1]),
        sa.Column("scenario", sa.Text, nullable=False, server_default=""),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float(53)),
        sa.Column("spread", sa.Float(53)),
        sa.Column("rounds", sa.Integer, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_samples"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_samples_run", ondelete="CASCADE"),
        sa.UniqueConstraint("run", *CELL, "place", name="uq_samples_run"),
    )
    op.create_table(
        "probes",
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("lock_hash", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("question", "lock_hash", name="pk_probes"),
    )
    op.create_table(
        "gates",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("base", sa.Text, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("run", name="pk_gates"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_gates_run", ondelete="CASCADE"),
    )


def downgrade() -> None:
    """A gate's answer and its processes' times have no place in the older schema; its observations stay."""
    for table in ("gates", "probes", "samples"):
        op.drop_table(table)
