"""Alembic's entry: runs the migrations on the connection that `watchdog.store` hands over, in its transaction."""

from alembic import context

from watchdog.errors import UsageError
from watchdog.store.tables import REVISION_TABLE, Base


def main() -> None:
    connection = context.config.attributes.get("connection")
    if connection is None:
        msg = "migrations run when the program opens its database; there is no alembic.ini"
        raise UsageError(msg)
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=REVISION_TABLE,
        transactional_ddl=True,  # SQLite can, when the driver does not begin and commit by itself
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


main()
