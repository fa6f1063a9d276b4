"""The log keeps what was written: one gapless chain, and every tampering named where it begins."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import rfc8785
from django.db import DatabaseError, connection, transaction

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Kind, Who
from chatapp.audit.hash_chain import (
    FIELDS,
    Mark,
    Sealed,
    canonicalize,
    compute_digest,
    export_entry,
    link_hash,
)
from chatapp.models import AppendOnly, LogEntry, LogHead
from chatapp.models.policy import audit_log_guards

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = LogEntry._meta.db_table
ENTRIES = 8


def make_event(number: int = 0) -> AuditEvent:
    who = Who(id=7, name="Ada “Zoë” \\ \x1f")
    return AuditEvent(kind=Kind.ENDED, data={"n": number, "ü": [1.5, None]}, actor=who, person=who)


@pytest.fixture
def written() -> None:
    for number in range(ENTRIES):
        audit_log.append([make_event(number)])


def sql(statement: str, *values: str | int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(TABLE), values)


def changed() -> None:
    sql("UPDATE {} SET data = REPLACE(data, '\"n\":3', '\"n\":9') WHERE position = 4")


def renamed() -> None:
    sql("UPDATE {} SET actor_name = 'Eve' WHERE position = 5")


def redated() -> None:
    sql("UPDATE {} SET at = %s WHERE position = 5", "2020-01-01 00:00:00+00:00")


def deleted() -> None:
    sql("DELETE FROM {} WHERE position = 3")


def first_deleted() -> None:
    sql("DELETE FROM {} WHERE position = 1")


def deleted_and_closed_up() -> None:
    sql("DELETE FROM {} WHERE position = 3")
    for position in range(4, ENTRIES + 1):
        sql("UPDATE {} SET position = %s WHERE position = %s", position - 1, position)


def forged(position: int, previous: str) -> LogEntry:
    """An entry with a hash that fits it."""
    entry = LogEntry(
        position=position, at=datetime.now(UTC), kind=Kind.GRANTED, previous=previous, data="{}"
    )
    entry.hash = link_hash(previous, compute_digest(entry))
    return entry


def inserted() -> None:
    for position in range(ENTRIES, 4, -1):
        sql("UPDATE {} SET position = %s WHERE position = %s", position + 1, position)
    LogEntry.objects.bulk_create([forged(5, LogEntry.objects.get(position=4).hash)])


def put_behind() -> None:
    LogEntry.objects.bulk_create([forged(ENTRIES + 1, LogEntry.objects.latest("position").hash)])


def reordered() -> None:
    for old, new in ((2, 1000), (6, 2), (1000, 6)):
        sql("UPDATE {} SET position = %s WHERE position = %s", new, old)


def hash_made_to_fit() -> None:
    """Whoever changes an entry and its hash is found at the next one."""
    changed()
    entry = LogEntry.objects.get(position=4)
    sql(
        "UPDATE {} SET hash = %s WHERE position = 4",
        link_hash(entry.previous, compute_digest(entry)),
    )


def cut_off() -> None:
    sql("DELETE FROM {} WHERE position > 6")


def end_moved() -> None:
    LogHead.objects.update(hash="f" * 64)


@pytest.mark.parametrize(
    ("tamper", "position", "why"),
    [
        (changed, 4, "changed"),
        (renamed, 5, "changed"),
        (redated, 5, "changed"),
        (deleted, 3, "missing"),
        (first_deleted, 1, "missing"),
        (deleted_and_closed_up, 3, "follow"),
        (inserted, 6, "follow"),
        (put_behind, ENTRIES + 1, "after the end"),
        (reordered, 2, "follow"),
        (hash_made_to_fit, 5, "follow"),
        (cut_off, 7, "missing"),
        (end_moved, ENTRIES, "unexpected hash"),
    ],
)
def test_each_tampering_is_named_at_its_position(
    written: None, tamper: Callable[[], None], position: int, why: str
) -> None:
    assert audit_log.verify() == (audit_log.read_end(), "")
    tamper()
    found, said = audit_log.verify()
    assert (found.position, why in said) == (position, True), said


def test_a_chain_written_anew_is_told_by_an_end_that_was_written_down(written: None) -> None:
    """Whoever may write everything leaves a chain without a flaw; only what is elsewhere tells."""
    known = audit_log.read_end()
    entries = list(LogEntry.objects.filter(position__lt=6))
    sql("DELETE FROM {}")
    LogHead.objects.filter(pk=1).delete()
    audit_log.append([make_event(40 + number) for number in range(len(entries))])
    assert audit_log.verify()[1] == ""
    found, said = audit_log.verify([known])
    assert (found.position, "missing" in said) == (6, True)
    audit_log.append([make_event(50 + number) for number in range(ENTRIES)])
    found, said = audit_log.verify([known])
    assert (found.position, "the saved one" in said) == (ENTRIES, True)


def test_the_canonical_form_is_that_of_the_standard(written: None) -> None:
    """Written by hand for speed, so it is compared with the library's on what is hard in it."""
    data = {"é": "\u2028\x00/", "a": -0.5}
    chat, turn, call = uuid4(), uuid4(), uuid4()
    audit_log.append(
        [AuditEvent(kind=Kind.DECIDED, data=data, conversation_id=chat, turn_id=turn, call_id=call)]
    )
    for entry in audit_log.iter_entries():
        value = export_entry(entry)
        assert (value.pop("previous"), value.pop("hash")) == (entry.previous, entry.hash)
        assert canonicalize(entry).encode() == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "act",
    [
        lambda: LogEntry.objects.update(kind="x"),
        lambda: LogEntry.objects.all().delete(),
        lambda: LogEntry.objects.bulk_update([], ["kind"]),
        lambda: LogEntry.objects.get(position=1).save(),
        lambda: LogEntry.objects.get(position=1).delete(),
    ],
)
def test_the_code_refuses_to_change_an_entry(written: None, act: Callable[[], object]) -> None:
    with pytest.raises(AppendOnly):
        act()


@pytest.fixture
def guarded(written: None) -> Iterator[None]:
    audit_log_guards.install(connection)
    yield
    audit_log_guards.remove(connection)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET kind = 'x' WHERE position = 1",
        "DELETE FROM {} WHERE position = 1",
        "DELETE FROM chatapp_loghead",
        "UPDATE chatapp_loghead SET position = 1",
    ],
)
def test_the_database_refuses_to_change_an_entry(guarded: None, statement: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        sql(statement)
    audit_log.append([make_event(99)])
    assert audit_log.verify() == (audit_log.read_end(), "")


def columns(table: str) -> str:
    model = LogEntry if table == TABLE else LogHead
    return ", ".join(field.attname for field in model._meta.fields)


@pytest.mark.parametrize("does_recurse", [False, True])
@pytest.mark.parametrize(
    ("table", "statement"),
    [
        (TABLE, "REPLACE INTO {0} ({1}) SELECT {1} FROM {0} WHERE position = 3"),
        (TABLE, "INSERT OR REPLACE INTO {0} ({1}) SELECT {1} FROM {0} WHERE position = 3"),
        # By the hidden row id of another entry, with a key that is free.
        (
            TABLE,
            "INSERT OR REPLACE INTO {0} (rowid, {1}) SELECT 3, 99, at, kind, actor_id, actor_name, "
            "person_id, person_name, conversation_id, turn_id, call_id, data, previous, hash "
            "FROM {0} WHERE position = 1",
        ),
        ("chatapp_loghead", "INSERT OR REPLACE INTO {0} ({1}) SELECT {1} FROM {0}"),
        ("chatapp_loghead", "INSERT INTO {0} ({1}) SELECT 2, position, hash FROM {0}"),
    ],
)
def test_sqlite_refuses_to_replace_an_entry(
    guarded: None, table: str, statement: str, does_recurse: bool
) -> None:
    if connection.vendor != "sqlite":
        return
    before = list(LogEntry.objects.values_list())
    sql(f"PRAGMA recursive_triggers = {int(does_recurse)}")
    try:
        with pytest.raises(DatabaseError, match="stays there"), transaction.atomic():
            sql(statement.format(table, columns(table)))
    finally:
        sql("PRAGMA recursive_triggers = 0")
    assert list(LogEntry.objects.values_list()) == before
    audit_log.append([make_event(99)])
    assert audit_log.verify() == (audit_log.read_end(), "")


def test_a_guard_with_another_statement_is_missed(guarded: None) -> None:
    if connection.vendor != "sqlite":
        return
    sql("DROP TRIGGER log_refuses_delete")
    sql("CREATE TRIGGER log_refuses_delete BEFORE DELETE ON {} BEGIN SELECT 1; END")
    assert audit_log_guards.list_missing(connection) == ["log_refuses_delete"]
    audit_log_guards.install(connection)
    assert audit_log_guards.list_missing(connection) == []


def test_a_guard_that_was_taken_away_is_missed(guarded: None) -> None:
    assert audit_log_guards.list_missing(connection) == []
    audit_log_guards.remove(connection)
    assert "log_refuses_delete" in audit_log_guards.list_missing(connection)


def test_writers_at_the_same_time_make_one_gapless_chain() -> None:
    """Also the very first ones, who find no end to lock."""
    together, failures = threading.Barrier(6), list[BaseException]()

    def write() -> None:
        try:
            together.wait(timeout=60)
            for number in range(10):
                audit_log.append([make_event(number), make_event(number)])
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    writers = [threading.Thread(target=write) for _ in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=40)
    assert not failures
    assert audit_log.verify() == (Mark(position=120, hash=audit_log.read_end().hash), "")


def test_a_transaction_that_fails_leaves_no_entry_and_no_gap(written: None) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        audit_log.append([make_event()])
        raise RuntimeError
    audit_log.append([make_event()])
    assert audit_log.verify() == (Mark(position=ENTRIES + 1, hash=audit_log.read_end().hash), "")


def test_what_is_read_back_is_what_was_sealed(written: None) -> None:
    entry = next(audit_log.iter_entries())
    assert isinstance(entry, Sealed) and set(FIELDS) == {f.attname for f in LogEntry._meta.fields}
    assert json.loads(entry.data) == {"n": 0, "ü": [1.5, None]}
