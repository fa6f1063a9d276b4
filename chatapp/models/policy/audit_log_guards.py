"""Database triggers that refuse changes to the log, for each database.

They stop mistakes, and users who may only change rows. The hash chain reveals changes by a user who
may drop a trigger.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

_ENTRY, _HEAD = "chatapp_logentry", "chatapp_loghead"
_WORDS = "What is in the log stays there, as it is."

# SQLite deletes the rows that `INSERT OR REPLACE` replaces without firing their delete triggers,
# unless the connection has set `recursive_triggers`, so a new row must not meet an old one: neither
# by its key nor by its hidden row id, which is another number. The end of the log is one row.
_SQLITE = {
    "log_refuses_update": f"BEFORE UPDATE ON {_ENTRY} BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END",
    "log_refuses_delete": f"BEFORE DELETE ON {_ENTRY} BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END",
    "log_refuses_replace": (
        f"BEFORE INSERT ON {_ENTRY} WHEN EXISTS "  # noqa: S608  # only names of ours
        f"(SELECT 1 FROM {_ENTRY} WHERE position = NEW.position OR rowid = NEW.rowid) "
        f"BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
    ),
    "log_end_is_not_replaced": (
        f"BEFORE INSERT ON {_HEAD} WHEN EXISTS (SELECT 1 FROM {_HEAD}) "  # noqa: S608
        f"BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
    ),
    "log_keeps_its_end": f"BEFORE DELETE ON {_HEAD} BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END",
    "log_end_goes_forward": (
        f"BEFORE UPDATE ON {_HEAD} WHEN NEW.position <= OLD.position "
        f"BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
    ),
}
_FUNCTION = (
    "CREATE OR REPLACE FUNCTION log_refuses() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_WORDS}'; END $$"
)
_RUN = "EXECUTE FUNCTION log_refuses()"
_POSTGRESQL = {
    "log_refuses_update": f"BEFORE UPDATE ON {_ENTRY} FOR EACH ROW {_RUN}",
    "log_refuses_delete": f"BEFORE DELETE ON {_ENTRY} FOR EACH ROW {_RUN}",
    "log_refuses_truncate": f"BEFORE TRUNCATE ON {_ENTRY} FOR EACH STATEMENT {_RUN}",
    "log_keeps_its_end": f"BEFORE DELETE ON {_HEAD} FOR EACH ROW {_RUN}",
    "log_end_is_not_emptied": f"BEFORE TRUNCATE ON {_HEAD} FOR EACH STATEMENT {_RUN}",
    "log_end_goes_forward": (
        f"BEFORE UPDATE ON {_HEAD} FOR EACH ROW WHEN (NEW.position <= OLD.position) {_RUN}"
    ),
}
_GUARDS = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}
# The name of each trigger that is there, and its statement where the database keeps it.
_THERE = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname, NULL FROM pg_trigger WHERE tgenabled <> 'D'",
}


def install(connection: BaseDatabaseWrapper) -> None:
    """Create every missing trigger."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FUNCTION)
        for name in list_missing(connection):
            cursor.execute(_drop_statement(connection, name))
            cursor.execute(_create_statement(connection, name))


def remove(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers, so that the tables can be dropped."""
    with connection.cursor() as cursor:
        for name in _GUARDS[connection.vendor]:
            cursor.execute(_drop_statement(connection, name))


def list_missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the triggers that the database lacks, has disabled or, on SQLite, has with another
    statement."""
    with connection.cursor() as cursor:
        cursor.execute(_THERE[connection.vendor])
        there = dict(cursor.fetchall())
    return [
        name
        for name in _GUARDS[connection.vendor]
        if name not in there or there[name] not in (None, _create_statement(connection, name))
    ]


def _create_statement(connection: BaseDatabaseWrapper, name: str) -> str:
    return f"CREATE TRIGGER {name} {_GUARDS[connection.vendor][name]}"


def _drop_statement(connection: BaseDatabaseWrapper, name: str) -> str:
    table = _HEAD if _HEAD in _GUARDS[connection.vendor][name] else _ENTRY
    where = f" ON {table}" if connection.vendor == "postgresql" else ""
    return f"DROP TRIGGER IF EXISTS {name}{where}"
