"""The demo assistant: needs no key and no network, calls real tools, and says what it is.

It keeps nothing: what it does next follows from the history alone (`demo_script`).
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator

from django.conf import settings

from .account import Account, ListedModel
from .demo_script import Call, NextStep, next_step
from .events import (
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
from .request import AskedTool, AssistantMessage, ModelRequest

# With the loop's own overhead this makes about 40 chunks a second, as a fast model does.
DEMO_CHUNK_SECONDS = 0.02


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    """The next step of the script, word by word."""
    if not settings.DEMO:
        raise ProviderError(
            kind="not_found",
            message="The demo assistant is switched off.",
            hint="Choose another model, or set DEMO=1.",
        )
    step = next_step(request)
    for event in events_of(step):
        yield event
        await asyncio.sleep(DEMO_CHUNK_SECONDS)
    yield usage(request, step)
    yield Finished(reason="tool_calls" if step.calls else "stop")


async def listed_models(account: Account) -> tuple[ListedModel, ...]:
    return (ListedModel(name="assistant", label="Demo assistant"),)


def events_of(step: NextStep) -> Iterator[ModelEvent]:
    for chunk in chunks(step.reasoning):
        yield ReasoningDelta(text=chunk)
    for chunk in chunks(step.text):
        yield TextDelta(text=chunk)
    for index, call in enumerate(step.calls):
        yield ToolCallStarted(index=index, name=call.tool_id)
        for chunk in chunks(call.arguments):
            yield ArgumentsDelta(index=index, text=chunk)
        yield ready(index, call)


def ready(index: int, call: Call) -> ToolCallReady:
    return ToolCallReady(
        index=index, call_id=call.call_id, name=call.tool_id, arguments=call.arguments
    )


def chunks(text: str) -> list[str]:
    """The text in words, each with the blanks after it; together they are the text again."""
    return re.findall(r"^\s+|\S+\s*", text)


def usage(request: ModelRequest, step: NextStep) -> Usage:
    """Words stand in for tokens: a script has none."""
    said = [step.text, *(call.arguments for call in step.calls)]
    thought = words_in(step.reasoning)
    return Usage(
        input_tokens=words_in(request.system, *heard(request)),
        output_tokens=words_in(*said) + thought,
        reasoning_tokens=thought,
    )


def heard(request: ModelRequest) -> Iterator[str]:
    for item in request.history:
        if isinstance(item, AssistantMessage):
            for part in item.parts:
                yield part.arguments if isinstance(part, AskedTool) else part.text
        else:
            yield item.text


def words_in(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)
