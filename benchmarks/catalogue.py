"""What many tools cost: the catalogue of a turn, and the Tools menu at each keystroke of a search.

Run `python -m benchmarks.catalogue [--services 200] [--tools 25]`. The tools are stored in a
database of its own, which is not counted. CPU time of this process, the median of some rounds, once
the process has made the tools (which it says as well); so other load does not count.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from asgiref.sync import async_to_sync  # noqa: E402 - Django comes first
from django.test import Client  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.machine import resident_mb  # noqa: E402
from chatapp.models import Conversation, Member, Message, ToolSwitch, Turn  # noqa: E402
from chatapp.storage import in_database  # noqa: E402
from chatapp.tools.catalogue import Catalogue, catalogue_for  # noqa: E402
from chatapp.turns.tool_selection import chosen  # noqa: E402
from mcpconfig.models import Service, ToolDefinition, ToolSetting  # noqa: E402

ROUNDS = 15
HOST = {"Host": "localhost"}
VERBS = ("list", "get", "create", "delete", "search")
SCHEMA = {
    "type": "object",
    "properties": {
        f"field_{number}": {"type": "string", "description": "What the tool is to do with it."}
        for number in range(6)
    },
    "required": ["field_0"],
}


def fill(services: int, tools: int) -> None:
    for number in range(services):
        service = Service.objects.create(
            name=f"service-{number:03}",
            url=f"https://{number}.invalid/mcp",
            tools_fresh_until=timezone.now() + timedelta(days=1),
            last_success_at=timezone.now(),
        )
        names = [f"{VERBS[each % len(VERBS)]}_thing_{each}" for each in range(tools)]
        ToolDefinition.objects.bulk_create(
            ToolDefinition(
                service=service,
                name=name,
                hash=f"{number}-{name}",
                description=f"Use it to {name.replace('_', ' ')} of service {number}. " * 4,
                input_schema=SCHEMA,
            )
            for name in names
        )
        ToolSetting.objects.bulk_create(
            ToolSetting(service=service, name=name, confirmed_hash=f"{number}-{name}")
            for name in names
        )


def a_turn(person: Member) -> Turn:
    chat = Conversation.objects.create(owner=person)
    question = Message.objects.create(conversation=chat, role="user")
    answer = Message.objects.create(conversation=chat, role="assistant")
    service = Service.objects.all()[0]
    ToolSwitch.objects.create(person=person, service=service, is_on=False)
    return Turn.objects.create(conversation=chat, question=question, answer=answer)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds, the median."""
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        took.append((time.process_time() - began) * 1_000)
    return statistics.median(took)


async def timed_in_a_loop(work: Callable[[], Awaitable[object]]) -> float:
    """As `timed`, inside one event loop, as the engine works."""
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        await work()
        took.append((time.process_time() - began) * 1_000)
    return statistics.median(took)


def measure(services: int, tools: int) -> None:
    fill(services, tools)
    person = Member.objects.create(username="member")
    turn = a_turn(person)
    client = Client()
    client.force_login(person)

    async def catalogue() -> Catalogue:
        return await in_database(chosen, await catalogue_for(person, None), turn, person)

    def menu(query: str) -> None:
        answer = client.post("/tools/found", {"scope": "all", "q": query}, headers=HOST)
        assert answer.status_code == 200  # noqa: S101 - a figure of an error page means nothing

    gc.collect()
    before, began = resident_mb(os.getpid()), time.process_time()
    found = async_to_sync(catalogue)()
    first = (time.process_time() - began) * 1_000
    gc.collect()
    kept = resident_mb(os.getpid()) - before
    print(f"{len(found):,} tools on of {services} services; made once in {first:,.0f} ms")
    turns = async_to_sync(timed_in_a_loop)(catalogue)
    print(f"catalogue of a turn: {turns:.1f} ms; memory: {kept:.0f} MB")
    menu("")
    for query in ("", "s", "search", "search thing 7"):
        print(f"menu, searching “{query}”: {timed(lambda q=query: menu(q)):.0f} ms")  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--tools", type=int, default=25, help="of each service")
    options = parser.parse_args()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        measure(options.services, options.tools)
    finally:
        teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    main()
