"""What the pages of the admin cost with many rows: statements, time and size of every page, and of
every list with its filters, orders and searches.

Run `python -m benchmarks.admin_pages [--calls 1000000] [--json FILE]`, with a `DATABASE_URL` of
PostgreSQL. It fills a database of its own, which it drops afterwards; with `--database NAME` it
keeps the database and uses its rows in the next run. Entries of the log are copies of each other,
so their checksums do not fit, but those of the last hundred do. With `--smoke` the rows are few
and the database may be SQLite.
"""

import argparse
import json
import logging
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from chatapp.models import Approval, Conversation, LogEntry, Member, Message, ToolCall, Turn
from chatapp.server.runtime import BoundedCache, current_runtime
from mcpconfig.models import Exchange
from tests import admin_visits, many_rows
from tests.many_rows import Rows, Sizes
from tests.route_world import build_world

from .own_database import own_database
from .report import Figure, print_figures, read_options

BASE_CALLS = 10_000
SHOWN = 15
ALIKE = 100
MOST_STATEMENTS = 25
MOST_MS = 300
# A process keeps the charts of this page for a while.
WITH_CHARTS = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    name: str
    address: str
    status: int
    statements: int
    median_ms: float
    max_ms: float
    # Of this process; what the database takes is not in it.
    cpu_ms: float
    # All statements together.
    database_ms: float
    kilobytes: float
    slowest_ms: float
    slowest: str


# --- rows ----------------------------------------------------------------------------------------
def multiply(model: Any, times: int, values: Mapping[str, str]) -> None:
    """Store `times` copies of each row. `values` are columns as SQL, where `r` is the row and `k`
    the number of the copy; other columns are copied."""
    fields = model._meta.concrete_fields
    # A serial key is given by the database.
    copied = [field for field in fields if field.column in values or not _is_serial(field)]
    columns = ", ".join(f'"{field.column}"' for field in copied)
    taken = ", ".join(values.get(field.column, f'r."{field.column}"') for field in copied)
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {taken} "  # noqa: S608  # only names of ours
            f"FROM {table} r CROSS JOIN generate_series(1, {int(times)}) k"
        )


def _is_serial(field: Any) -> bool:
    return bool(field.primary_key) and str(field.db_type(connection)).startswith("bigint")


def _derive(column: str) -> str:
    """The id of a copy, as SQL: the same wherever the copied id is the same."""
    return f"CASE WHEN r.{column} IS NULL THEN NULL ELSE md5(r.{column}::text || k)::uuid END"


def _shift(column: str) -> str:
    return f"r.{column} - k * interval '7 minutes'"


def spread_over_a_year() -> None:
    """Give each turn, with all that belongs to it, a time of its own in the last twelve months."""
    statements = (
        "UPDATE chatapp_turn SET created_at = now() - random() * interval '360 days'",
        "UPDATE chatapp_turn SET started_at = created_at, "
        "finished_at = created_at + interval '20 s'",
        "UPDATE chatapp_conversation c SET created_at = t.created_at, active_at = t.created_at "
        "FROM chatapp_turn t WHERE t.conversation_id = c.id",
        "UPDATE chatapp_message m SET created_at = t.created_at "
        "FROM chatapp_turn t WHERE t.conversation_id = m.conversation_id",
        "UPDATE chatapp_toolcall c SET sent_at = c.sent_at - (now() - t.created_at), "
        "finished_at = c.finished_at - (now() - t.created_at) "
        "FROM chatapp_turn t WHERE t.id = c.turn_id",
        "UPDATE chatapp_approval a SET created_at = t.created_at, "
        "decided_at = a.decided_at - (now() - t.created_at) FROM chatapp_toolcall c "
        "JOIN chatapp_turn t ON t.id = c.turn_id WHERE c.id = a.tool_call_id",
    )
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def multiply_activity(times: int) -> None:
    chats = {"id": _derive("id"), "created_at": _shift("created_at")}
    multiply(Conversation, times, chats | {"active_at": _shift("active_at")})
    of_chat = {"id": _derive("id"), "conversation_id": _derive("conversation_id")}
    times_of = {name: _shift(name) for name in ("created_at", "started_at", "finished_at")}
    parent = {"parent_id": _derive("parent_id"), "created_at": _shift("created_at")}
    multiply(Message, times, of_chat | parent)
    said = {name: _derive(name) for name in ("question_id", "answer_id")}
    multiply(Turn, times, of_chat | said | times_of)
    calls = {"id": _derive("id"), "turn_id": _derive("turn_id")}
    calls |= {name: _shift(name) for name in ("sent_at", "finished_at")}
    multiply(ToolCall, times, calls)
    approvals = {"tool_call_id": _derive("tool_call_id"), "created_at": _shift("created_at")}
    multiply(Approval, times, approvals | {"decided_at": _shift("decided_at")})


def multiply_traces(times: int) -> None:
    values = {"operation_id": "md5(r.id::text || k)::uuid"}
    values |= {"created_at": f"r.created_at - ({times} - k) * interval '14 days' / {times}"}
    multiply(Exchange, times, values)


def multiply_log(times: int, rows: Rows) -> None:
    """The copies have positions behind the entries that are there; some whose checksums fit
    follow, as the pages verify the last ones."""
    end = LogEntry.objects.order_by("-position").first()
    assert end is not None
    ago = f"({times} - k) * interval '360 days' / {times}"
    position = f"r.position + k * {end.position}"
    values = {"position": position, "at": f"r.at - {ago}", "call_id": _derive("call_id")}
    values |= {name: _derive(name) for name in ("conversation_id", "turn_id")}
    multiply(LogEntry, times, values)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE chatapp_loghead SET position = %s, hash = %s",
            [end.position * (times + 1), end.hash],
        )
    many_rows.append_entries(rows.people, rows.calls, ALIKE)


def fill(options: argparse.Namespace) -> Rows:
    base = min(options.calls, BASE_CALLS)
    sizes = Sizes(
        people=options.people,
        services=options.services,
        tools=options.tools,
        calls=base,
        entries=base // 5,
    )
    rows = many_rows.fill(sizes)
    if connection.vendor == "postgresql":
        spread_over_a_year()
        multiply_activity(max(0, options.calls // base - 1))
        multiply_traces(max(1, 5 * (options.calls // base) - 1))
        multiply_log(max(1, 5 * (options.calls // base) - 1), rows)
    many_rows.analyse()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    return rows


# --- pages ---------------------------------------------------------------------------------------
class Counter:
    """Counts the statements, and keeps the slowest."""

    def __init__(self) -> None:
        self.count, self.slowest, self.seconds, self.all_seconds = 0, "", 0.0, 0.0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, *more: Any) -> Any:
        self.count += 1
        started = time.perf_counter()
        try:
            return execute(sql, params, *more)
        finally:
            taken = time.perf_counter() - started
            self.all_seconds += taken
            if taken > self.seconds:
                self.seconds, self.slowest = taken, f"{sql}"


def measure(
    client: Client, name: str, address: str, times: int, *, keeps_charts: bool = True
) -> tuple[Measured, Any]:
    taken, cpu, counted, response = [], [], [], None
    for _ in range(times):
        if not keeps_charts:
            current_runtime().overview_charts = BoundedCache(1)
        counter = Counter()
        with connection.execute_wrapper(counter):
            started, cpu_started = time.perf_counter(), time.process_time()
            response = client.get(address)
            taken.append(1000 * (time.perf_counter() - started))
            cpu.append(1000 * (time.process_time() - cpu_started))
        counted.append(counter)
        # A page that takes seconds is opened twice.
        if sum(taken) > 3_000 and len(taken) > 1:
            break
    assert response is not None
    measured = Measured(
        name=name,
        address=address,
        status=response.status_code,
        statements=counted[-1].count,
        median_ms=statistics.median(taken),
        max_ms=max(taken),
        cpu_ms=statistics.median(cpu),
        database_ms=1000 * statistics.median(counter.all_seconds for counter in counted),
        kilobytes=0 if response.streaming else len(response.content) / 1000,
        slowest_ms=1000 * statistics.median(counter.seconds for counter in counted),
        slowest=counted[-1].slowest,
    )
    return measured, response


def measure_pages(rows: Rows, options: argparse.Namespace) -> Iterator[Measured]:
    owner, stranger = (Member.objects.create_user(name) for name in ("owner", "stranger"))
    # Without a password an admin is asked to set one first.
    admin = Member.objects.create_superuser("admin", password="a-long-password")  # noqa: S106
    world = build_world(owner, stranger, admin)
    client = admin_visits.sign_in(admin)
    client.raise_request_exception = False
    chosen = admin_visits.choose_rows(world, rows, client)
    for name, address in admin_visits.list_pages(world, chosen):
        if options.only and options.only not in name:
            continue
        measured, response = measure(client, name, address, options.times)
        yield measured
        if name == WITH_CHARTS:
            drawn = f"{name}, charts drawn"
            yield measure(client, drawn, address, options.times, keeps_charts=False)[0]
        variants = () if options.plain else admin_visits.list_variants(name, response)
        for variant, query in variants:
            yield measure(client, variant, f"{address.split('?')[0]}{query}", options.times)[0]


def summarise(found: list[Measured]) -> Iterator[Figure]:
    yield "pages", len(found), "pages"
    yield "most statements of a page", max(each.statements for each in found), "statements"
    over = sum(each.statements > MOST_STATEMENTS for each in found)
    yield f"pages with more than {MOST_STATEMENTS} statements", over, "pages"
    slow = sum(each.median_ms > MOST_MS for each in found)
    yield f"pages that take more than {MOST_MS} ms", slow, "pages"
    yield "half of the pages take at most", statistics.median(e.median_ms for e in found), "ms"
    for each in sorted(found, key=lambda each: -each.median_ms)[:SHOWN]:
        yield f"{each.name} ({each.statements} statements)", each.median_ms, "ms"


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admin_pages", description=__doc__)
    parser.add_argument("--people", type=int, default=1_000)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--tools", type=int, default=5_000)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="", help="measure pages whose name has this text")
    parser.add_argument("--database", default="", help="keep the database under this name")
    parser.add_argument("--plain", action="store_true", help="leave out filters, orders, searches")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    # Pages that this admin may not open answer in a line of the log each.
    logging.disable()
    options = read_options(parser, people=12, services=4, tools=40, calls=200, times=1)
    with own_database(options.database):
        rows = many_rows.load()
        if not rows.people:
            with timed("filling the database"):
                rows = fill(options)
        # What the pages need besides goes again, so that the next run can store it.
        with transaction.atomic():
            found = list(measure_pages(rows, options))
            transaction.set_rollback(True)
        failed = [each for each in found if each.status >= 500]
        assert not failed, failed
        title = (
            f"{connection.vendor}, {ToolCall.objects.count():,} calls, {timezone.now():%Y-%m-%d}"
        )
        print_figures(title, summarise(found))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1))


if __name__ == "__main__":
    main()
