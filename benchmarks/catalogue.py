"""What many tools cost: the catalogue of a turn, and the Tools menu at each keystroke of a search.

Run `python -m benchmarks.catalogue [--services 200] [--tools 25]`. The figures are CPU time of this
process, so other load does not count: the median of some rounds, after a first one that fills the
caches. Creating the tools is not counted.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial

from asgiref.sync import async_to_sync
from django.test import Client
from django.utils import timezone

from chatapp.models import Conversation, Member, Message, ToolSwitch, Turn
from chatapp.server.database import in_database
from chatapp.tool_menu.turn_selection import choose_tools
from chatapp.tools.catalogue import Catalogue, build_catalogue
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .machine import read_resident_mb
from .own_database import own_database
from .report import Figure, print_figures, read_options

HOST = {"Host": "localhost"}
VERBS = ("list", "get", "create", "delete", "search")
QUERIES = ("", "s", "search", "search thing 7")
SCHEMA = {
    "type": "object",
    "properties": {
        f"field_{number}": {"type": "string", "description": "What the tool is to do with it."}
        for number in range(6)
    },
    "required": ["field_0"],
}


def create_tools(services: int, tools: int) -> None:
    """So many services with so many confirmed tools each."""
    for number in range(services):
        service = Service.objects.create(
            name=f"service-{number:03}",
            url=f"https://{number}.invalid/mcp",
            visibility=Service.Visibility.EVERYONE,
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


def create_turn(person: Member) -> Turn:
    """A turn of a person who switched one service off."""
    chat = Conversation.objects.create(owner=person)
    question = Message.objects.create(conversation=chat, role="user")
    answer = Message.objects.create(conversation=chat, role="assistant")
    service = Service.objects.all()[0]
    ToolSwitch.objects.create(person=person, service=service, is_on=False)
    return Turn.objects.create(conversation=chat, question=question, answer=answer)


def measure_ms(work: Callable[[], object], rounds: int) -> float:
    """The median CPU time of one call in milliseconds."""
    took = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        took.append((time.process_time() - started) * 1_000)
    return statistics.median(took)


async def measure_ms_in_a_loop(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    """Like `measure_ms`, inside one event loop, as the engine works."""
    took = []
    for _ in range(rounds):
        started = time.process_time()
        await work()
        took.append((time.process_time() - started) * 1_000)
    return statistics.median(took)


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    create_tools(options.services, options.tools)
    person = Member.objects.create(username="member")
    turn = create_turn(person)
    client = Client()
    client.force_login(person)

    async def build() -> Catalogue:
        return await in_database(choose_tools, await build_catalogue(person, None), turn, person)

    def search(query: str) -> None:
        answer = client.post("/tools/found", {"scope": "all", "q": query}, headers=HOST)
        assert answer.status_code == 200

    gc.collect()
    before, started = read_resident_mb(os.getpid()), time.process_time()
    found = async_to_sync(build)()
    first_ms = (time.process_time() - started) * 1_000
    gc.collect()
    kept = read_resident_mb(os.getpid()) - before
    yield "tools that are on", len(found), "tools"
    yield "catalogue, the first time", first_ms, "ms"
    yield "catalogue of a turn", async_to_sync(measure_ms_in_a_loop)(build, options.rounds), "ms"
    yield "memory of the catalogue", kept, "MB"
    search("")
    for query in QUERIES:
        yield f"menu, searching “{query}”", measure_ms(partial(search, query), options.rounds), "ms"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalogue", description=__doc__)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--tools", type=int, default=25, help="of each service")
    parser.add_argument("--rounds", type=int, default=15)
    options = read_options(parser, services=3, tools=5, rounds=2)
    with own_database():
        print_figures(f"{options.services} services of {options.tools} tools", measure(options))


if __name__ == "__main__":
    main()
