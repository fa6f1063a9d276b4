"""The face that speaks as OpenAI's chat completions do: each request is a governed turn of ours."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from chatapp.models import AccessToken, Turn
from chatapp.storage import in_database
from chatapp.turns import program_answers, program_chats, program_words
from chatapp.turns.model_choice import OfferedModel, offered_models
from chatapp.turns.program_calls import check_rate
from chatapp.turns.refusals import Refused

from .bearer import Problem, ProgramRequest, for_programs
from .openai_answer import (
    begun_anew,
    counted,
    error,
    event,
    failure,
    finish_of,
    piece,
    refusal,
    whole,
)
from .openai_request import Wanted, read

# The clients of others give up after ten minutes.
WAIT_SECONDS = 540.0
ALIVE = ": the turn goes on\n\n"
DONE = "data: [DONE]\n\n"


@for_programs("chat", methods=("GET",), refusal=refusal)
async def models(request: ProgramRequest) -> HttpResponse:
    found = await in_database(offered_models, request.token.person)
    return JsonResponse({"object": "list", "data": [_model(model) for model in found]})


@for_programs("chat", methods=("GET",), refusal=refusal)
async def model(request: ProgramRequest, name: str) -> HttpResponse:
    found = await in_database(offered_models, request.token.person)
    for each in found:
        if each.id == name:
            return JsonResponse(_model(each))
    raise _no_such_model(f"There is no model “{name}” for this token.")


@for_programs("chat", methods=("POST",), refusal=refusal)
async def completions(request: ProgramRequest) -> HttpResponseBase:
    """The answer to a chat, whole or as it is written. Closing the connection does not stop it."""
    wanted, turn = await _accepted(request)
    if wanted.streams:
        return _streamed(turn, wanted, request.token)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS):
            await program_words.rested(turn, request.token)
    return JsonResponse(await in_database(_whole, turn, wanted))


def _model(offered: OfferedModel) -> dict[str, Any]:
    return {"id": offered.id, "object": "model", "created": 0, "owned_by": offered.provider_label}


async def _accepted(request: ProgramRequest) -> tuple[Wanted, Turn]:
    """What comes too often is not even read. Reading takes long enough to be done aside."""
    try:
        await in_database(check_rate, request.token)
        wanted = await asyncio.to_thread(read, request)
        return wanted, await program_chats.receive(request.token, wanted.asked)
    except program_chats.NoSuchModel as refused:
        raise _no_such_model(refused.sentence) from None
    except Refused as refused:
        is_too_much = refused.status == HTTPStatus.TOO_MANY_REQUESTS
        raise Problem(
            status=refused.status,
            kind="refused",
            message=refused.sentence,
            headers={"Retry-After": "60"} if is_too_much else {},
        ) from None


def _no_such_model(message: str) -> Problem:
    return Problem(
        status=HTTPStatus.NOT_FOUND, kind="model_not_found", message=message, field="model"
    )


def _whole(turn: Turn, wanted: Wanted) -> dict[str, Any]:
    """Raises Problem where the turn failed."""
    turn, standing = _now(turn, wanted)
    program_chats.deliver(turn)
    if turn.state == Turn.State.FAILED:
        raise failure(turn)
    return whole(turn, standing)


def _now(turn: Turn, wanted: Wanted) -> tuple[Turn, dict[str, Any]]:
    turn = Turn.objects.select_related("conversation__owner").get(pk=turn.pk)
    standing = program_answers.standing_of(turn)
    return turn, {**standing, "ignored_parameters": list(wanted.ignored)}


def _streamed(turn: Turn, wanted: Wanted, token: AccessToken) -> StreamingHttpResponse:
    # Compressed piece by piece, it would be many gzip members, of which clients read the first.
    headers = {"Content-Encoding": "identity", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(
        _events(turn, wanted, token), content_type="text/event-stream", headers=headers
    )


async def _events(turn: Turn, wanted: Wanted, token: AccessToken) -> AsyncGenerator[str, None]:
    yield piece(turn, {"role": "assistant", "content": ""})
    has_spoken = False
    try:
        async with aclosing(program_words.words_of(turn, token)) as words:
            async for said in words:
                has_spoken = has_spoken or bool(said)
                yield piece(turn, {"content": said}) if said else ALIVE
    except program_words.BegunAnew:
        yield event(error(begun_anew()))
        yield DONE
        return
    async for last in _ending(turn, wanted, has_spoken):
        yield last
    yield DONE
    await in_database(_delivered, turn)


async def _ending(turn: Turn, wanted: Wanted, has_spoken: bool) -> AsyncGenerator[str, None]:
    turn, standing = await in_database(_now, turn, wanted)
    if turn.state == Turn.State.FAILED:
        yield event(error(await in_database(failure, turn)))
        return
    if sentence := program_answers.closing_words(turn, standing):
        said = f"{program_words.PARAGRAPH}{sentence}" if has_spoken else sentence
        yield piece(turn, {"content": said})
    yield piece(turn, {}, finish_of(turn), countersign=standing)
    if wanted.counts_tokens:
        yield await in_database(counted, turn)


def _delivered(turn: Turn) -> None:
    program_chats.deliver(Turn.objects.get(pk=turn.pk))
