"""The demo assistant as a provider: it needs no key and no network, and streams word by word."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator

from django.conf import settings

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    ModelEvent,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    ModelRequest,
)

from .script import NextStep, choose_step

# With the overhead of the loop, this makes about 40 chunks a second, like a fast model.
DEMO_CHUNK_SECONDS = 0.02


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    if not settings.DEMO:
        raise ProviderError(
            kind="not_found",
            message="The demo assistant is switched off.",
            hint="Choose another model, or set DEMO=1.",
        )
    step = choose_step(request)
    for event in build_events(step):
        yield event
        await asyncio.sleep(DEMO_CHUNK_SECONDS)
    yield count_usage(request, step)
    yield Finished(reason="tool_calls" if step.calls else "stop")


async def list_models(account: Account) -> tuple[ListedModel, ...]:
    return (ListedModel(name="assistant", label="Demo assistant"),)


def build_events(step: NextStep) -> Iterator[ModelEvent]:
    for chunk in split_words(step.reasoning):
        yield ReasoningDelta(text=chunk)
    for chunk in split_words(step.text):
        yield TextDelta(text=chunk)
    for index, call in enumerate(step.calls):
        yield ToolCallStarted(index=index, name=call.name)
        for chunk in split_words(call.arguments):
            yield ArgumentsDelta(index=index, text=chunk)
        yield ToolCallReady(
            index=index, call_id=call.call_id, name=call.name, arguments=call.arguments
        )


def split_words(text: str) -> list[str]:
    """Return the words, each with the white space after it; joined, they are the text."""
    return re.findall(r"^\s+|\S+\s*", text)


def count_usage(request: ModelRequest, step: NextStep) -> Usage:
    """Count words, because a script has no tokens."""
    reasoning = count_words([step.reasoning])
    return Usage(
        input_tokens=count_words([request.system, *read_texts(request.history)]),
        output_tokens=reasoning + count_words([step.text, *read_texts(step.calls)]),
        reasoning_tokens=reasoning,
    )


def read_texts(items: Iterable[HistoryItem | AssistantPart]) -> Iterator[str]:
    for item in items:
        if isinstance(item, AssistantMessage):
            yield from read_texts(item.parts)
        else:
            yield item.arguments if isinstance(item, AskedTool) else item.text


def count_words(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)
