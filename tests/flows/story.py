"""The other parties of every story: a model that knows what to say, and a service that counts."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.effects import Effects, application
from tests.peers.serving import Served
from tests.wire.openai import Request, WireServer
from tests.wire.script import Answer, Tool

TOOLS = {
    "Delete": "things_delete_thing",
    "Read": "things_read_thing",
    "Change": "things_slow_thing",
}
HELD_SECONDS = 25
SENTENCES = 60


def tale_of(name: str) -> str:
    """A long answer with headings, lists and code in it."""
    parts = [f"# The tale of {name}"]
    for number in range(1, SENTENCES + 1):
        parts.append(f"Paragraph {number} of the tale of *{name}*, with `code {number}`.")
        if number % 10 == 0:
            parts.append(f"- first of {number}\n- second of {number}")
            parts.append(f"```python\nnumber = {number}\n```")
    return "\n\n".join(parts)


def last_word(name: str) -> str:
    return f"All is done with **{name}** now, and there is nothing more to say about it."


class Storyteller(WireServer):
    """Says what fits what it was asked and told, however often it is asked the same."""

    async def _play(self, answer: Answer, request: Request, writer: asyncio.StreamWriter) -> None:
        await super()._play(says(request.body), request, writer)

    def asked_about(self, name: str) -> int:
        return sum(name in question_in(request.body) for request in list(self.requests))


def says(body: Any) -> Answer:
    verb, _, name = question_in(body).partition(" ")
    if verb == "Tell":
        return Answer(text=tale_of(name), chunk=8, delay_ms=8)
    if verb in TOOLS and not was_told(body):
        arguments: dict[str, Any] = {"name": name}
        if verb == "Change":
            arguments["seconds"] = HELD_SECONDS
        call = Tool(name=TOOLS[verb], arguments=arguments, id=f"call_{name}")
        return Answer(text="I will see to it.", tools=(call,), chunk=100)
    return Answer(text=last_word(name), chunk=4, delay_ms=12)


def items_in(body: Any) -> list[dict[str, Any]]:
    """The conversation so far: Chat Completions call it messages, Responses input."""
    return list(body.get("messages") or body["input"])


def question_in(body: Any) -> str:
    content = [item["content"] for item in items_in(body) if item.get("role") == "user"][-1]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def was_told(body: Any) -> bool:
    """Whether an outcome of a tool call follows the question."""
    last = items_in(body)[-1]
    return last.get("role") == "tool" or last.get("type") == "function_call_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What an installation talks to."""

    model: Storyteller
    effects: Effects
    service_url: str

    def executions(self, name: str) -> int:
        """How often the service did something to this thing: lines that are on its disk."""
        return sum(line.split()[1] == name for line in self.effects.lines)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    effects = Effects(folder / "effects")
    with storyteller() as model, Served(application(effects)) as served:
        yield World(model=model, effects=effects, service_url=served.url)


@contextmanager
def storyteller() -> Iterator[Storyteller]:
    """The model server, in a thread with an event loop of its own."""
    model = Storyteller()
    loop = asyncio.new_event_loop()
    is_up, is_over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        listener = await asyncio.start_server(model.serve, "127.0.0.1", 0)
        model.port = listener.sockets[0].getsockname()[1]
        is_up.set()
        await is_over.wait()
        listener.close()
        await model.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert is_up.wait(10)
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(10)
        loop.close()
