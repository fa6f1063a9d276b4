"""The full-text index of messages: FTS5 on SQLite, an index of `tsvector` on PostgreSQL.

The database keeps it up to date itself. It has the text parts of messages only.
"""

import re
import string

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL

MOST_WORDS = 8
# PostgreSQL refuses to index more than a megabyte of different words.
INDEXED_CHARACTERS = 200_000

_PART, _INDEX, _TEXTS = "chatapp_part", "chatapp_part_words", "chatapp_text_part"
_REMOVE = f"INSERT INTO {_INDEX}({_INDEX}, rowid, text) VALUES ('delete', OLD.id, OLD.text);"  # noqa: S608
_ADD = f"INSERT INTO {_INDEX}(rowid, text) VALUES (NEW.id, NEW.text);"  # noqa: S608
_SQLITE = {
    f"VIEW {_TEXTS}": f"AS SELECT id, text FROM {_PART} WHERE kind = 'text'",  # noqa: S608
    f"VIRTUAL TABLE {_INDEX}": (
        f"USING fts5(text, content='{_TEXTS}', content_rowid='id', "
        "tokenize='unicode61 remove_diacritics 2')"
    ),
    f"TRIGGER {_INDEX}_insert": (
        f"AFTER INSERT ON {_PART} WHEN NEW.kind = 'text' BEGIN {_ADD} END"
    ),
    f"TRIGGER {_INDEX}_delete": (
        f"AFTER DELETE ON {_PART} WHEN OLD.kind = 'text' BEGIN {_REMOVE} END"
    ),
    f"TRIGGER {_INDEX}_update": (
        f"AFTER UPDATE OF text ON {_PART} WHEN OLD.kind = 'text' AND OLD.text <> NEW.text "
        f"BEGIN {_REMOVE} {_ADD} END"
    ),
}


def separate_words(text: str) -> str:
    """Return this SQL of a text with spaces for its punctuation, at which FTS5 splits. PostgreSQL
    would keep a path, an address, a version or `read/write` as one word, and leave out markup."""
    punctuation = string.punctuation.replace("'", "''")
    return f"translate({text}, '{punctuation}', '{' ' * len(string.punctuation)}')"


_BEGINNING = f"left({_PART}.text, {INDEXED_CHARACTERS})"
_VECTOR = f"to_tsvector('simple', {separate_words(_BEGINNING)})"


def rebuild(connection: BaseDatabaseWrapper) -> None:
    """Create the index of PostgreSQL again, after a change of its expression."""
    if connection.vendor == "postgresql":
        remove(connection)
        install(connection)


def install(connection: BaseDatabaseWrapper) -> None:
    """Create the index and fill it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                f"CREATE INDEX IF NOT EXISTS {_INDEX} ON {_PART} USING gin ({_VECTOR}) "
                "WHERE kind = 'text'"
            )
            return
        for name, definition in _SQLITE.items():
            kind, _, rest = name.rpartition(" ")
            cursor.execute(f"CREATE {kind} IF NOT EXISTS {rest} {definition}")
        cursor.execute(f"INSERT INTO {_INDEX}({_INDEX}) VALUES ('rebuild')")  # noqa: S608


def remove(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"DROP INDEX IF EXISTS {_INDEX}")
            return
        for name in reversed(_SQLITE):
            cursor.execute(f"DROP {name.removeprefix('VIRTUAL ')}")


def split_words(text: str) -> list[str]:
    """Return the words to look for: letters and digits, in small letters, each once. As in the
    indexes, “ß” stays “ß”."""
    return list(dict.fromkeys(re.findall(r"[^\W_]+", text.lower())))[:MOST_WORDS]


def match_words(words: list[str]) -> Q | RawSQL:
    """Return the condition on parts that their text has all these words or their beginnings."""
    if connection.vendor == "postgresql":
        query = " & ".join(f"{word}:*" for word in words)
        vector = _VECTOR.replace("%", "%%")
        matches = f"chatapp_part.kind = 'text' AND {vector} @@ to_tsquery('simple', %s)"
        return RawSQL(matches, [query], output_field=BooleanField())  # noqa: S611  # our own SQL
    query = " ".join(f'"{word}"*' for word in words)
    found = f"SELECT rowid FROM {_INDEX} WHERE {_INDEX} MATCH %s"  # noqa: S608
    return Q(pk__in=RawSQL(found, [query]), kind="text")  # noqa: S611
