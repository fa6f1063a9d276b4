"""What the log costs: an entry in its transaction, a check of the whole, and the evidence of one
chat.

Run `python -m benchmarks.log [ENTRIES]`, with the `DATABASE_URL` of the server. It uses a database
of its own, which it drops afterwards.
"""

import argparse
import time
import uuid
from collections.abc import Callable, Iterator

from django.db import connection, transaction

from chatapp.audit import audit_log, evidence
from chatapp.audit.audit_log import AuditEvent, Kind, Who
from chatapp.audit.hash_chain import Mark
from chatapp.models import Member

from .own_database import own_database
from .report import Figure, print_figures, read_options

AT_ONCE = 500


def create_entry(number: int, chat: uuid.UUID) -> AuditEvent:
    data = {
        "tool": "create_issue",
        "service": "tracker",
        "effect": "ask",
        "reason": "Needs approval because the risk is high.",
        "risk_reasons": ["The name says it creates something."],
        "arguments": f'{{"title":"Entry {number}","body":"{"words " * 30}"}}',
        "binding": "b" * 64,
    }
    return AuditEvent(
        kind=Kind.DECIDED,
        data=data,
        person=Who(id=number % 50, name="somebody"),
        conversation_id=chat,
        turn_id=chat,
        call_id=chat,
    )


def measure_seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def measure_single_entries(count: int) -> Iterator[Figure]:
    """What a transaction costs without an entry, and what an entry adds to it."""
    writer = Member.objects.create_user("writer")
    without = measure_seconds(lambda: commit(count, writer, []))
    entries = [create_entry(1, uuid.uuid4())]
    with_entry = measure_seconds(lambda: commit(count, writer, entries))
    yield "a transaction without an entry", 1000 * without / count, "ms"
    yield "an entry in it", 1000 * (with_entry - without) / count, "ms"


def commit(count: int, writer: Member, events: list[AuditEvent]) -> None:
    """Commit `count` transactions, each with one changed row and these entries."""
    for _ in range(count):
        with transaction.atomic():
            writer.save(update_fields=["last_login"])
            audit_log.append(events)


def measure_whole_log(count: int) -> Iterator[Figure]:
    chats = [uuid.uuid4() for _ in range(max(1, count // 50))]
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        audit_log.append([create_entry(number, chats[number % len(chats)]) for number in numbers])
    answers: list[tuple[Mark, str]] = []
    checked = measure_seconds(lambda: answers.append(audit_log.verify()))
    (end, problem), texts = answers[0], list[str]()
    assert not problem, problem
    yield "entries", end.position, "entries"
    yield "checking all of them", checked, "s"
    read, write = evidence.read_evidence, evidence.write_evidence
    made = measure_seconds(lambda: texts.append("".join(write(read(chats[0])))))
    yield "evidence of one chat among them", made, "s"
    yield "its size", len(texts[0]) / 1e6, "MB"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log", description=__doc__)
    parser.add_argument("entries", nargs="?", type=int, default=100_000)
    parser.add_argument("--transactions", type=int, default=500)
    options = read_options(parser, entries=200, transactions=20)
    with own_database():
        figures = [
            *measure_single_entries(options.transactions),
            *measure_whole_log(options.entries),
        ]
        print_figures(connection.vendor, figures)


if __name__ == "__main__":
    main()
