"""The full-text index of passages of project files, ranked by BM25: FTS5 on SQLite, a stored
`tsvector` on PostgreSQL.

The database keeps it up to date itself. FTS5 has BM25; for PostgreSQL it is written out in SQL with
the same constants, because `ts_rank` does not know how common a word is.
"""

import uuid
from collections.abc import Sequence

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from chatapp.models.conversations.search_index import separate_words

_PASSAGE, _FILE = "chatapp_projectpassage", "chatapp_projectfile"
_INDEX = "chatapp_passage_words"
# Shorter words are looked for whole, longer ones also as the beginning of another.
MIN_PREFIX = 3

_REMOVE = f"INSERT INTO {_INDEX}({_INDEX}, rowid, text) VALUES ('delete', OLD.id, OLD.text);"  # noqa: S608
_ADD = f"INSERT INTO {_INDEX}(rowid, text) VALUES (NEW.id, NEW.text);"  # noqa: S608
_SQLITE = {
    f"VIRTUAL TABLE {_INDEX}": (
        f"USING fts5(text, content='{_PASSAGE}', content_rowid='id', "
        "tokenize='unicode61 remove_diacritics 2')"
    ),
    f"TRIGGER {_INDEX}_insert": f"AFTER INSERT ON {_PASSAGE} BEGIN {_ADD} END",
    f"TRIGGER {_INDEX}_delete": f"AFTER DELETE ON {_PASSAGE} BEGIN {_REMOVE} END",
    f"TRIGGER {_INDEX}_update": (
        f"AFTER UPDATE OF text ON {_PASSAGE} WHEN OLD.text <> NEW.text BEGIN {_REMOVE} {_ADD} END"
    ),
}
_SEPARATED = separate_words("text")
_POSTGRESQL = (
    f"ALTER TABLE {_PASSAGE} ADD COLUMN IF NOT EXISTS words tsvector "
    f"GENERATED ALWAYS AS (to_tsvector('simple', {_SEPARATED})) STORED",
    f"CREATE INDEX IF NOT EXISTS {_INDEX} ON {_PASSAGE} USING gin (words)",
)

_SEARCH_SQLITE = f"""
SELECT passage.id FROM {_INDEX}
JOIN {_PASSAGE} passage ON passage.id = {_INDEX}.rowid
JOIN {_FILE} file ON file.id = passage.file_id
WHERE {_INDEX} MATCH %s AND file.project_id = %s AND file.state = 'ready'
  AND (%s IS NULL OR file.id = %s)
ORDER BY bm25({_INDEX}), passage.id LIMIT %s
"""  # noqa: S608
_SEARCH_POSTGRESQL = f"""
WITH passages AS (
  SELECT passage.id, passage.words, length(passage.text) AS size
  FROM {_PASSAGE} passage JOIN {_FILE} file ON file.id = passage.file_id
  WHERE file.project_id = %s AND file.state = 'ready' AND (%s::uuid IS NULL OR file.id = %s::uuid)
), whole AS (
  SELECT count(*)::float AS number, greatest(avg(size), 1)::float AS size FROM passages
), terms AS (
  SELECT * FROM unnest(%s::text[], %s::bool[], %s::text[]) AS term(word, is_prefix, query)
), hits AS (
  SELECT passages.id, passages.size, terms.word, (
    SELECT sum(coalesce(array_length(found.positions, 1), 1)) FROM unnest(passages.words) AS found
    WHERE found.lexeme = terms.word OR (terms.is_prefix AND starts_with(found.lexeme, terms.word))
  )::float AS times
  FROM passages JOIN terms ON passages.words @@ terms.query::tsquery
), rarity AS (
  SELECT word, ln(1 + (whole.number - count(*) + 0.5) / (count(*) + 0.5)) AS weight
  FROM hits, whole GROUP BY word, whole.number
)
SELECT hits.id FROM hits JOIN rarity USING (word), whole GROUP BY hits.id ORDER BY sum(
  rarity.weight * hits.times * 2.2 / (hits.times + 1.2 * (0.25 + 0.75 * hits.size / whole.size))
) DESC, hits.id LIMIT %s
"""  # noqa: S608


def install(connection: BaseDatabaseWrapper) -> None:
    """Create the index and fill it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for statement in _POSTGRESQL:
                cursor.execute(statement)
            return
        for name, definition in _SQLITE.items():
            kind, _, rest = name.rpartition(" ")
            cursor.execute(f"CREATE {kind} IF NOT EXISTS {rest} {definition}")
        cursor.execute(f"INSERT INTO {_INDEX}({_INDEX}) VALUES ('rebuild')")  # noqa: S608


def remove(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"DROP INDEX IF EXISTS {_INDEX}")
            cursor.execute(f"ALTER TABLE {_PASSAGE} DROP COLUMN IF EXISTS words")
            return
        for name in reversed(_SQLITE):
            cursor.execute(f"DROP {name.removeprefix('VIRTUAL ')}")


def find_best(
    project_id: uuid.UUID, words: Sequence[str], most: int, file_id: uuid.UUID | None = None
) -> list[int]:
    """Return the ids of the passages of this project with any of these words, the best first. The
    words are those of `search_index.split_words`; with a file, only its passages count."""
    if not words:
        return []
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            prefixes = [len(word) >= MIN_PREFIX for word in words]
            queries = [
                f"{word}:*" if is_prefix else word
                for word, is_prefix in zip(words, prefixes, strict=True)
            ]
            given = [project_id, file_id, file_id, list(words), prefixes, queries, most]
            cursor.execute(_SEARCH_POSTGRESQL, given)
        else:
            query = " OR ".join(
                f'"{word}"{"*" if len(word) >= MIN_PREFIX else ""}' for word in words
            )
            file = None if file_id is None else file_id.hex
            cursor.execute(_SEARCH_SQLITE, [query, project_id.hex, file, file, most])
        return [row[0] for row in cursor.fetchall()]
