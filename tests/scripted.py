"""A model whose words are scripted: the only thing about a turn that tests make up.

Each model call takes the next scene. A scene is a list of events, exceptions to raise, and `Pause`s
that a test ends.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.estimate import count_tokens
from chatapp.providers.events import (
    Finished,
    FinishReason,
    ModelEvent,
    TextDelta,
    ToolCallReady,
    Usage,
)
from chatapp.providers.failures import provider_error
from chatapp.providers.provider import Provider
from chatapp.providers.request import ModelRequest

MODEL = "scripted:model"
PROVIDER = Provider(
    kind="scripted", label="scripted", module="tests.scripted", models={"model": "Scripted"}
)
NAMES = ProviderNames(label="Scripted", key_variable="its key", url_variable="its address")


@dataclass(eq=False)
class Pause:
    """The model says nothing until `ended` is set; `reached` tells that it has come here."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


Scene = list[ModelEvent | Exception | Pause]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The model reads so many tokens and complains of a longer request, which is no scene."""

    tokens: int
    complaint: str = "The prompt is too long"


scenes: list[Scene] = []
limits: list[Limit] = []
requests: list[ModelRequest] = []
closed: list[bool] = []


def text(*words: str, reason: FinishReason = "stop") -> Scene:
    return [
        *(TextDelta(text=word) for word in words),
        Usage(output_tokens=5),
        Finished(reason=reason),
    ]


def calls(*asked: tuple[str, str]) -> Scene:
    ready = [
        ToolCallReady(index=i, call_id=f"call_{len(requests)}_{i}", name=name, arguments=arguments)
        for i, (name, arguments) in enumerate(asked)
    ]
    return [*ready, Usage(input_tokens=3, output_tokens=2), Finished(reason="tool_calls")]


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    requests.append(request)
    for limit in limits:
        if count_tokens(request) > limit.tokens:
            raise provider_error("too_long", NAMES, detail=limit.complaint)
    scene = scenes.pop(0) if scenes else text("Nothing more was scripted.")
    try:
        for item in scene:
            if isinstance(item, Exception):
                raise item
            if isinstance(item, Pause):
                item.reached.set()
                await item.ended.wait()
            else:
                yield item
    finally:
        closed.append(True)
