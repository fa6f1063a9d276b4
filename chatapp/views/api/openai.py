"""The OpenAI-compatible endpoints: each chat completion is a governed turn."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from chatapp.api import chats, outcomes, text_stream
from chatapp.api.calls import check_rate
from chatapp.models import AccessToken, Turn
from chatapp.people.refused import Refused
from chatapp.providers.access.model_choice import OfferedModel, list_offered_models
from chatapp.server.database import in_database
from chatapp.views.downloads import STREAM_HEADERS

from .bearer import Problem, ProgramRequest, for_programs
from .openai_request import Wanted, read_request
from .openai_response import (
    build_completion,
    build_error,
    build_failure,
    build_restart_problem,
    format_chunk,
    format_event,
    format_usage_chunk,
    get_finish_reason,
    render_problem,
)

# OpenAI clients give up after ten minutes.
WAIT_SECONDS = 540.0
ALIVE = ": the turn continues\n\n"
DONE = "data: [DONE]\n\n"


@for_programs("chat", methods=("GET",), refusal=render_problem)
async def models(request: ProgramRequest) -> HttpResponse:
    found = await in_database(list_offered_models, request.token.person)
    return JsonResponse({"object": "list", "data": [_describe_model(model) for model in found]})


@for_programs("chat", methods=("GET",), refusal=render_problem)
async def model(request: ProgramRequest, name: str) -> HttpResponse:
    found = await in_database(list_offered_models, request.token.person)
    for each in found:
        if each.id == name:
            return JsonResponse(_describe_model(each))
    raise _build_no_such_model(_("This token has no model named “%(name)s”.") % {"name": name})


@for_programs("chat", methods=("POST",), refusal=render_problem)
async def completions(request: ProgramRequest) -> HttpResponseBase:
    """Return the answer to a chat, whole or as a stream. Closing the connection does not stop the
    turn."""
    wanted, turn = await _accept(request)
    if wanted.streams:
        return _build_stream(turn, wanted, request.token)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS):
            await text_stream.wait_until_rest(turn, request.token)
    return JsonResponse(await in_database(_build_whole, turn, wanted))


def _describe_model(offered: OfferedModel) -> dict[str, Any]:
    return {"id": offered.id, "object": "model", "created": 0, "owned_by": offered.provider_label}


async def _accept(request: ProgramRequest) -> tuple[Wanted, Turn]:
    """Check the rate before the body is read. The body is parsed in a thread, because that is slow.
    Raises Problem."""
    try:
        await in_database(check_rate, request.token)
        wanted = await asyncio.to_thread(read_request, request)
        return wanted, await chats.receive(request.token, wanted.asked)
    except chats.NoSuchModel as refused:
        raise _build_no_such_model(refused.sentence) from None
    except Refused as refused:
        is_too_much = refused.status == HTTPStatus.TOO_MANY_REQUESTS
        raise Problem(
            status=refused.status,
            kind="refused",
            message=refused.sentence,
            headers={"Retry-After": "60"} if is_too_much else {},
        ) from None


def _build_no_such_model(message: str) -> Problem:
    return Problem(
        status=HTTPStatus.NOT_FOUND, kind="model_not_found", message=message, field="model"
    )


def _build_whole(turn: Turn, wanted: Wanted) -> dict[str, Any]:
    """Return the whole answer. Raises Problem if the turn failed."""
    turn, standing = _read_turn(turn, wanted)
    chats.mark_delivered(turn)
    if turn.state == Turn.State.FAILED:
        raise build_failure(turn)
    return build_completion(turn, standing)


def _read_turn(turn: Turn, wanted: Wanted) -> tuple[Turn, dict[str, Any]]:
    turn = Turn.objects.select_related("conversation__owner").get(pk=turn.pk)
    standing = outcomes.describe_turn(turn)
    return turn, {**standing, "ignored_parameters": list(wanted.ignored)}


def _build_stream(turn: Turn, wanted: Wanted, token: AccessToken) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        _iterate_events(turn, wanted, token),
        content_type="text/event-stream",
        headers=STREAM_HEADERS,
    )


async def _iterate_events(
    turn: Turn, wanted: Wanted, token: AccessToken
) -> AsyncGenerator[str, None]:
    yield format_chunk(turn, {"role": "assistant", "content": ""})
    has_spoken = False
    try:
        async with aclosing(text_stream.stream_text(turn, token)) as words:
            async for said in words:
                has_spoken = has_spoken or bool(said)
                yield format_chunk(turn, {"content": said}) if said else ALIVE
    except text_stream.AnswerRestarted:
        yield format_event(build_error(build_restart_problem()))
        yield DONE
        return
    async for last in _iterate_ending(turn, wanted, has_spoken):
        yield last
    yield DONE
    await in_database(_mark_delivered, turn)


async def _iterate_ending(
    turn: Turn, wanted: Wanted, has_spoken: bool
) -> AsyncGenerator[str, None]:
    turn, standing = await in_database(_read_turn, turn, wanted)
    if turn.state == Turn.State.FAILED:
        yield format_event(build_error(await in_database(build_failure, turn)))
        return
    if sentence := outcomes.build_closing_text(turn, standing):
        said = f"{text_stream.PARAGRAPH}{sentence}" if has_spoken else sentence
        yield format_chunk(turn, {"content": said})
    yield format_chunk(turn, {}, get_finish_reason(turn), countersign=standing)
    if wanted.counts_tokens:
        yield await in_database(format_usage_chunk, turn)


def _mark_delivered(turn: Turn) -> None:
    chats.mark_delivered(Turn.objects.get(pk=turn.pk))
