"""What makes the database itself refuse changes to the log: triggers, in each database's words.

They stop a mistake, and whoever may only reach rows. Who may also drop a trigger is found out by
the hash chain.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

_ENTRY, _HEAD = "chatapp_logentry", "chatapp_loghead"
_WORDS = "What is in the log stays there, as it is."

_SQLITE = {
    "log_refuses_update": f"BEFORE UPDATE ON {_ENTRY} BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END",
    "log_refuses_delete": f"BEFORE DELETE ON {_ENTRY} BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END",
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
_THERE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'",
}


def install(connection: BaseDatabaseWrapper) -> None:
    """Put every guard that is missing in its place."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FUNCTION)
        for name in missing(connection):
            cursor.execute(f"CREATE TRIGGER {name} {_GUARDS[connection.vendor][name]}")


def remove(connection: BaseDatabaseWrapper) -> None:
    """Take the guards away, so that the tables can be."""
    with connection.cursor() as cursor:
        for name, words in _GUARDS[connection.vendor].items():
            table = f" ON {_HEAD if _HEAD in words else _ENTRY}"
            where = table if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{where}")


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """The guards that the database does not have, or has switched off."""
    with connection.cursor() as cursor:
        cursor.execute(_THERE[connection.vendor])
        there = {name for (name,) in cursor.fetchall()}
    return [name for name in _GUARDS[connection.vendor] if name not in there]
