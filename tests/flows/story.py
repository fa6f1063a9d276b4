"""The other parties of every story: a model that knows what to say, and a service that counts."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.effects import Effects, application
from tests.peers.serving import Served
from tests.wire.http import Request
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

from .model_server import answering

TOOLS = {
    "Delete": "things_delete_thing",
    "Read": "things_read_thing",
    "Change": "things_slow_thing",
    "Ask": "asks_ask_thing",
    "Push": "pushes_ask_thing",
    "Run": "errands_errand",
    "Open": "vault_read_thing",
}
HELD_SECONDS = 25
BESIDE_RESULTS = "What the tools returned"
SENTENCES = 60
# How long a story waits between two chunks.
PACES_MS = {"Tell": 8, "Tell-slowly": 60}


def build_story(name: str) -> str:
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
        await super()._play(make_answer(request.body), request, writer)

    def asked_about(self, name: str) -> int:
        return sum(name in question_in(request.body) for request in list(self.requests))


def make_answer(body: Any) -> Answer:
    verb, _, name = question_in(body).partition(" ")
    if verb in PACES_MS:
        return Answer(text=build_story(name), chunk=8, delay_ms=PACES_MS[verb])
    if verb in TOOLS and not has_result(body):
        arguments: dict[str, Any] = {"name": name}
        if verb == "Change":
            arguments["seconds"] = HELD_SECONDS
        call = Tool(name=TOOLS[verb], arguments=arguments, id=f"call_{name}")
        return Answer(text="I will see to it.", tools=(call,), chunk=100)
    return Answer(text=last_word(name), chunk=4, delay_ms=12)


def items_in(body: Any) -> list[dict[str, Any]]:
    """The conversation so far, under the name that the provider's form has for it."""
    return list(body.get("messages") or body.get("contents") or body["input"])


def question_in(body: Any) -> str:
    """What a person said last. In some forms results of tools, which are no words, are the user's
    too; pictures of tools follow their results as a message of their own."""
    said = [_get_texts(item) for item in items_in(body) if item.get("role") == "user"]
    return [words for words in said if words and not words.startswith(BESIDE_RESULTS)][-1]


def _get_texts(item: dict[str, Any]) -> str:
    content = item.get("content") or item.get("parts") or ""
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


def has_result(body: Any) -> bool:
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
    with answering(Storyteller()) as model, Served(application(effects)) as served:
        yield World(model=model, effects=effects, service_url=served.url)
