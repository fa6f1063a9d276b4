"""Anthropic's Messages: what the registry offers of this provider."""

import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import chain
from typing import Any

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.anthropic_answer import Answer
from chatapp.providers.anthropic_body import allowed_tokens, body_of, simpler
from chatapp.providers.anthropic_client import (
    DRAIN_SECONDS,
    Body,
    events,
    model_rows,
)
from chatapp.providers.events import ModelEvent
from chatapp.providers.failures import unfinished
from chatapp.providers.reading import rest
from chatapp.providers.request import ModelRequest
from chatapp.providers.retreat import Retreat
from chatapp.providers.toolbox import ANTHROPIC, Toolbox
from chatapp.providers.words import storable

# The longest answers by address and model, as lists and complaints told them: a hint that saves a
# refused request.
_largest_answers: dict[tuple[str, str], int] = {}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(ANTHROPIC, request.tools)
    for tool in box.left_out:
        yield tool
    answer = Answer(box, account)
    body = body_of(request, box, _largest_answers.get((account.base_url, request.model)))
    messages = body["messages"]
    retreat = Retreat(functools.partial(_simpler, request, account))
    while not answer.is_finished:
        body["messages"] = [*messages, *answer.so_far()]
        async with aclosing(_leg(answer, account, body, retreat)) as leg:
            async for said in leg:
                yield said


async def _leg(
    answer: Answer, account: Account, body: Body, retreat: Retreat
) -> AsyncGenerator[ModelEvent, None]:
    """One request. Where the provider pauses, another goes on from what was said so far."""
    answer.begin_leg()
    async with aclosing(events(account, body, retreat)) as source:
        async for event in source:
            for said in chain(retreat.told(), answer.take(event)):
                yield said
            if answer.has_stopped:
                await rest(source, DRAIN_SECONDS)
                return
    raise unfinished(account.names)


def _simpler(request: ModelRequest, account: Account, body: Body, complaint: str) -> Body | None:
    most = allowed_tokens(complaint)
    if most is not None:
        _largest_answers[account.base_url, request.model] = most
    return simpler(request.parameters.effort, body, complaint)


async def listed_models(account: Account) -> tuple[ListedModel, ...]:
    """The models that the account may use, newest first, with their sizes and abilities."""
    rows = await model_rows(account)
    models = [_listed(row) for row in rows if row.get("lifecycle") != "retired"]
    for model in models:
        if model.output_tokens:
            _largest_answers[account.base_url, model.name] = model.output_tokens
    return tuple({model.name: model for model in models if model.name}.values())


def _listed(row: dict[str, Any]) -> ListedModel:
    return ListedModel(
        name=storable(row.get("id")),
        label=storable(row.get("display_name")),
        context_tokens=_size(row.get("max_input_tokens")),
        output_tokens=_size(row.get("max_tokens")),
        takes_pictures=_can(row, "image_input"),
        takes_documents=_can(row, "pdf_input"),
        reasons=_can(row, "thinking"),
    )


def _size(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _can(row: dict[str, Any], ability: str) -> bool | None:
    abilities = row.get("capabilities")
    found = abilities.get(ability) if isinstance(abilities, dict) else None
    return bool(found.get("supported")) if isinstance(found, dict) else None
