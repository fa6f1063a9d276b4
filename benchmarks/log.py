"""What the log costs: an entry in its transaction, a whole check, and the evidence of one chat.

`python -m benchmarks.log [ENTRIES]`, with `DATABASE_URL` as the server has it. It works in a
database of its own, which it takes away again.
"""

import os
import sys
import time
import uuid
from collections.abc import Callable

import django
from django.db import connection, transaction
from django.test.utils import get_runner

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402

from chatapp.models import LogHead  # noqa: E402
from chatapp.turns import evidence, log  # noqa: E402
from chatapp.turns.log import Happening, Kind, Who  # noqa: E402

AT_ONCE = 500
COMMITS = 500


def entry(number: int, chat: uuid.UUID) -> Happening:
    data = {
        "tool": "create_issue",
        "service": "tracker",
        "effect": "ask",
        "reason": "Asked because its risk is high.",
        "risk_reasons": ["Its name says that it creates something."],
        "arguments": f'{{"title":"Entry {number}","body":"{"words " * 30}"}}',
        "binding": "b" * 64,
    }
    return Happening(
        kind=Kind.DECIDED,
        data=data,
        person=Who(id=number % 50, name="somebody"),
        conversation_id=chat,
        turn_id=chat,
        call_id=chat,
    )


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def alone(count: int) -> None:
    """What each transaction costs without an entry, then with one."""
    LogHead.objects.create(id=2, position=0, hash="")
    bare = seconds(lambda: commits(count, []))
    logged = seconds(lambda: commits(count, [entry(1, uuid.uuid4())]))
    each, more = 1000 * bare / count, 1000 * (logged - bare) / count
    print(f"an entry: {more:.2f} ms in a transaction that takes {each:.2f} ms without it")


def commits(count: int, happenings: list[Happening]) -> None:
    for _ in range(count):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE chatapp_loghead SET position = position + 1 WHERE id = 2")
            log.append(happenings)


def whole(count: int) -> None:
    chats = [uuid.uuid4() for _ in range(count // 50)]
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        log.append([entry(number, chats[number % len(chats)]) for number in numbers])
    taken = seconds(lambda: print(*log.verify()))
    print(f"verify: {taken:.1f} s for {log.end().position:,} entries")
    text: list[str] = []
    made = seconds(lambda: text.append(evidence.as_text(evidence.of_conversation(chats[0]))))
    print(f"evidence of one chat among them: {made:.1f} s, {len(text[0]) / 1e6:.1f} MB")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    runner = get_runner(settings)(verbosity=0, interactive=False)
    made = runner.setup_databases()
    try:
        print(connection.vendor)
        alone(COMMITS)
        whole(count)
    finally:
        runner.teardown_databases(made)


if __name__ == "__main__":
    main()
