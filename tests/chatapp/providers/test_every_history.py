"""What each provider said goes back to it exactly, and to every other as plain words."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    ToolOutcome,
    UserMessage,
)
from tests.wire.formats import FORMATS
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer, wire_server

from .accounts import forget_environment, point_at
from .stories import (
    HELLO,
    NOTES,
    STORIES,
    a_request,
    as_history,
    as_stopped,
    failure_of,
    finish_of,
    said_by,
)

# What only the provider that said it may see again.
SEALED = {
    "openai": "gAAAA-sealed",
    "openai-chat": "reasoning_content",
    "anthropic": '"thinking": "Hm.", "signature": "EqQB-signed"',
    "google": "c2lnbmVk",
    "bedrock": '"reasoningText"',
}
RICH = Answer(
    reasoning="Hm.",
    text="Both.",
    tools=(Tool(name="notes_write", arguments={"a": 1}), Tool(name="notes_write")),
)


def and_what_is_kept_when_stopped(answer: AssistantMessage) -> Iterator[AssistantMessage]:
    """The whole answer, then stopped before its end, and after each of its parts."""
    yield answer
    for length in range(1, len(answer.parts) + 1):
        yield as_stopped(AssistantMessage(parts=answer.parts[:length]))


async def answers_of_all() -> list[AssistantMessage]:
    """What each provider says in each story, as the engine keeps it."""
    stories = [RICH, *STORIES.values()]
    found: list[AssistantMessage] = []
    async with wire_server() as server:
        with pytest.MonkeyPatch.context() as patch:
            forget_environment(patch)
            point_at(patch, server.url)
            for form in FORMATS:
                server.play(*stories)
                for _ in stories:
                    said = as_history(await said_by(form))
                    found += and_what_is_kept_when_stopped(said)
    return [message for message in found if message.parts]


@pytest.fixture(scope="module")
def answers() -> list[AssistantMessage]:
    return asyncio.run(answers_of_all())


def with_results(answers: list[AssistantMessage]) -> Iterator[HistoryItem]:
    for answer in answers:
        yield UserMessage(text="Next, please")
        yield answer
        for part in answer.parts:
            if isinstance(part, AskedTool):
                yield ToolOutcome(call_id=part.call_id, name=part.name, text="Done")


async def test_answers_of_all_providers_go_to_each(
    wire: WireServer, answers: list[AssistantMessage], form: str
) -> None:
    history = (*with_results(answers), *HELLO)
    assert finish_of(await said_by(form, a_request(history))) == "stop"
    sent = json.dumps(wire.requests[-1].body)
    for provider, sealed in SEALED.items():
        assert (sealed in sent) is (provider == form), provider


ORDER = {
    "thoughts_among_calls": ["First this.", "a1", "Then that.", "Now the other.", "a2"],
    "thoughts_among_words": ["First this.", "Said.", "Then that.", "Done."],
}
SIGNS = {"First this.", "Then that.", "Said.", "Now the other.", "Done."}


def order_sent(body: Any) -> list[str]:
    """What a model said in `thoughts_…`, wherever a request holds it, in its order."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                look(each)
        elif isinstance(value, dict):
            if "a" in value:
                found.append(f"a{value['a']}")
            for each in value.values():
                look(each)
        elif value in SIGNS:
            found.append(value)
        elif isinstance(value, str) and value.startswith('{"a"'):
            look(json.loads(value))

    look(body)
    return found


@pytest.mark.parametrize("story", ORDER)
@pytest.mark.parametrize("form", sorted({*FORMATS} - {"openai-chat"}))
async def test_what_was_said_goes_back_in_its_order(
    wire: WireServer, form: str, story: str
) -> None:
    wire.play(STORIES[story])
    said = as_history(await said_by(form))
    history = (*with_results([said]), *HELLO)
    assert finish_of(await said_by(form, a_request(history))) == "stop"
    # Gemini's own thoughts come as summaries, which only their signature brings back.
    unsent = {"First this.", "Then that."} if form == "google" else set()
    expected = [word for word in ORDER[story] if word not in unsent]
    assert order_sent(wire.requests[-1].body) == expected


async def test_what_the_real_provider_would_refuse_is_refused(wire: WireServer, form: str) -> None:
    """Otherwise the test above would prove little: a result without its call."""
    orphan = ToolOutcome(call_id="nobody", name=NOTES.name, text="Done")
    assert (await failure_of(form, a_request((*HELLO, orphan)))).kind == "bad_request"
