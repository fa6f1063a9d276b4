"""The log keeps what was written: one gapless chain, and every tampering named where it begins."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import rfc8785
from django.db import DatabaseError, connection, transaction

from chatapp.models import AppendOnly, LogEntry, LogHead, log_guards
from chatapp.turns import log
from chatapp.turns.chain import FIELDS, Mark, Sealed, canonical, digest_of, exported, linked
from chatapp.turns.log import Happening, Kind, Who

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = LogEntry._meta.db_table
ENTRIES = 8


def happening(number: int = 0) -> Happening:
    who = Who(id=7, name="Ada “Zoë” \\ \x1f")
    return Happening(kind=Kind.ENDED, data={"n": number, "ü": [1.5, None]}, actor=who, person=who)


@pytest.fixture
def written() -> None:
    for number in range(ENTRIES):
        log.append([happening(number)])


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
    entry.hash = linked(previous, digest_of(entry))
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
    sql("UPDATE {} SET hash = %s WHERE position = 4", linked(entry.previous, digest_of(entry)))


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
        (put_behind, ENTRIES + 1, "behind the end"),
        (reordered, 2, "follow"),
        (hash_made_to_fit, 5, "follow"),
        (cut_off, 7, "missing"),
        (end_moved, ENTRIES, "another hash"),
    ],
)
def test_each_tampering_is_named_at_its_position(
    written: None, tamper: Callable[[], None], position: int, why: str
) -> None:
    assert log.verify() == (log.end(), "")
    tamper()
    found, said = log.verify()
    assert (found.position, why in said) == (position, True), said


def test_a_chain_written_anew_is_told_by_an_end_that_was_written_down(written: None) -> None:
    """Whoever may write everything leaves a chain without a flaw; only what is elsewhere tells."""
    known = log.end()
    entries = list(LogEntry.objects.filter(position__lt=6))
    sql("DELETE FROM {}")
    LogHead.objects.filter(pk=1).delete()
    log.append([happening(40 + number) for number in range(len(entries))])
    assert log.verify()[1] == ""
    found, said = log.verify([known])
    assert (found.position, "missing" in said) == (6, True)
    log.append([happening(50 + number) for number in range(ENTRIES)])
    found, said = log.verify([known])
    assert (found.position, "written down" in said) == (ENTRIES, True)


def test_the_canonical_form_is_that_of_the_standard(written: None) -> None:
    """Written by hand for speed, so it is compared with the library's on what is hard in it."""
    data = {"é": "\u2028\x00/", "a": -0.5}
    chat, turn, call = uuid4(), uuid4(), uuid4()
    log.append(
        [Happening(kind=Kind.DECIDED, data=data, conversation_id=chat, turn_id=turn, call_id=call)]
    )
    for entry in log.entries():
        value = exported(entry)
        assert (value.pop("previous"), value.pop("hash")) == (entry.previous, entry.hash)
        assert canonical(entry).encode() == rfc8785.dumps(value)


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
    log_guards.install(connection)
    yield
    log_guards.remove(connection)


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
    log.append([happening(99)])
    assert log.verify() == (log.end(), "")


def test_a_guard_that_was_taken_away_is_missed(guarded: None) -> None:
    assert log_guards.missing(connection) == []
    log_guards.remove(connection)
    assert "log_refuses_delete" in log_guards.missing(connection)


def test_writers_at_the_same_time_make_one_gapless_chain() -> None:
    """Also the very first ones, who find no end to lock."""
    together, failures = threading.Barrier(6), list[BaseException]()

    def write() -> None:
        try:
            together.wait(timeout=10)
            for number in range(10):
                log.append([happening(number), happening(number)])
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
    assert log.verify() == (Mark(position=120, hash=log.end().hash), "")


def test_a_transaction_that_fails_leaves_no_entry_and_no_gap(written: None) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        log.append([happening()])
        raise RuntimeError
    log.append([happening()])
    assert log.verify() == (Mark(position=ENTRIES + 1, hash=log.end().hash), "")


def test_what_is_read_back_is_what_was_sealed(written: None) -> None:
    entry = next(log.entries())
    assert isinstance(entry, Sealed) and set(FIELDS) == {f.attname for f in LogEntry._meta.fields}
    assert json.loads(entry.data) == {"n": 0, "ü": [1.5, None]}
