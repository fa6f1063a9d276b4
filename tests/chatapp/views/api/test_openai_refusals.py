"""What an OpenAI-compatible server of ours refuses, to whom, and in which words."""

import asyncio
from functools import partial
from typing import Any

import openai
import pytest

from chatapp.api import calls
from chatapp.conversations import intake
from chatapp.models import Allowance, Member, ModelProvider, Turn
from chatapp.providers.events import Finished, ProviderError, TextDelta
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import Pause, text

from .openai_program import HELLO, Program, get_extension, notebook, program, read_stream, runtime

__all__ = ["notebook", "program", "runtime"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


# --- what cannot be done ------------------------------------------------------------------------
async def test_a_turn_that_failed_is_an_error(program: Program) -> None:
    broken = ProviderError(kind="bad_request", message="It is too odd.", hint="")
    scripted.scenes += [[broken], [broken]]
    with pytest.raises(openai.InternalServerError, match="too odd") as caught:
        await program.ask()
    assert caught.value.status_code == 502 and caught.value.code == "failed"
    with pytest.raises(openai.APIError, match="too odd"):
        await read_stream(program)


async def test_a_used_up_allowance_is_too_much(program: Program, owner: Member) -> None:
    scripted.scenes.append(text("One."))
    await program.ask()
    await in_database(partial(Allowance.objects.create, person=owner, tokens=1))
    with pytest.raises(openai.RateLimitError):
        await program.ask()


async def test_too_many_requests_are_told_when_to_come_back(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_A_MINUTE", 0)
    with pytest.raises(openai.RateLimitError) as caught:
        await program.ask()
    assert caught.value.response.headers["retry-after"] == "60"


@pytest.mark.parametrize("model", ["scripted:", "nobody:model", "closed:model", "model"])
async def test_a_model_that_is_not_for_this_person_is_not_found(
    program: Program, model: str
) -> None:
    closed = partial(ModelProvider.objects.create, slug="closed", kind="openai", is_enabled=False)
    await in_database(closed)
    with pytest.raises(openai.NotFoundError) as caught:
        await program.ask(model=model)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert not await in_database(Turn.objects.exists)


USER = {"role": "user", "content": "Hello"}
PART = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"model": 7}, "model"),
    ({"model": "m" * 201}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": "Hello"}, "messages"),
    ({"messages": ["Hello"]}, "messages[0]"),
    ({"messages": [USER] * 1_001}, "messages"),
    ({"messages": [{"role": "assistant", "content": "Hi"}]}, "messages"),
    ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [PART]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0]"),
    ({"messages": [USER, {"role": "tool", "content": "x"}]}, "messages[1].role"),
    (
        {"messages": [USER, {"role": "assistant", "tool_calls": [{}]}, USER]},
        "messages[1].tool_calls",
    ),
    ({"messages": [{"role": "system", "content": [PART]}, USER]}, "messages[0].content[0]"),
    ({"tools": [{}]}, "tools"),
    ({"functions": [{}]}, "functions"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"n": 2}, "n"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"logprobs": True}, "logprobs"),
    ({"stop": "END"}, "stop"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": 7}, "stream_options"),
    ({"countersign": 7}, "countersign"),
    ({"countersign": {"conversation": "x"}}, "countersign.conversation"),
    ({"countersign": {"conversation": 7}}, "countersign.conversation"),
]


@pytest.mark.parametrize(("more", "field"), BAD, ids=[field for _, field in BAD])
async def test_a_request_that_cannot_be_read_names_what_is_at_fault(
    program: Program, more: dict[str, Any], field: str
) -> None:
    body = {"model": scripted.MODEL, "messages": HELLO, **more}
    answer = await program.post(body)
    fault = answer.json()["error"]
    assert (answer.status_code, fault["param"]) == (400, field)
    assert fault["type"] == "invalid_request_error" and fault["message"]
    assert not await in_database(Turn.objects.exists)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_object_is_refused(program: Program, body: bytes) -> None:
    assert (await program.post(body)).status_code == 400


async def test_other_media_types_are_refused(program: Program) -> None:
    answer = await program.post(b"{}", **{"Content-Type": "text/plain"})
    assert answer.status_code == 415


@pytest.mark.parametrize("content", ["", "  ", "a\x00b"])
async def test_a_message_without_words_is_refused(program: Program, content: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError):
        await program.ask([{"role": "user", "content": content}])


async def test_what_admins_set_is_named_as_ignored(program: Program) -> None:
    scripted.scenes.append(text("One."))
    answer = await program.ask(temperature=0.1, max_tokens=5, user="night job")
    assert get_extension(answer)["ignored_parameters"] == ["max_tokens", "temperature"]


# --- who -----------------------------------------------------------------------------------------
async def test_models_are_those_that_the_person_may_use(program: Program) -> None:
    listed = [model.id async for model in program.client.models.list()]
    assert "demo:assistant" in listed
    found = await program.client.models.retrieve("demo:assistant")
    assert (found.object, found.owned_by) == ("model", "Demo")
    with pytest.raises(openai.NotFoundError):
        await program.client.models.retrieve("nobody:model")


async def test_another_persons_chat_is_not_there(
    program: Program, stranger: Member, owner: Member
) -> None:
    scripted.scenes.append(text("One."))
    place = {"countersign": {"conversation": get_extension(await program.ask())["conversation"]}}
    others = await in_database(Program, stranger)
    second = await in_database(Program, owner)  # another token of the same person
    for other in (others, second):
        with pytest.raises(openai.NotFoundError, match="no such conversation"):
            await other.ask(extra_body=place)
        own = await other.ask([*HELLO, {"role": "assistant", "content": "One."}, USER])
        assert get_extension(own)["conversation"] != place["countersign"]["conversation"]


async def test_a_chat_of_the_person_that_no_program_began_is_out_of_reach(
    program: Program, owner: Member
) -> None:
    turn = await in_database(
        partial(intake.receive, owner, None, text="Private", model=scripted.MODEL)
    )
    with pytest.raises(openai.NotFoundError):
        await program.ask(extra_body={"countersign": {"conversation": str(turn.conversation_id)}})


async def test_only_a_live_token_with_this_scope_gets_in(program: Program, owner: Member) -> None:
    other = await in_database(Program, owner, "tools")
    with pytest.raises(openai.PermissionDeniedError):
        await other.ask()
    await in_database(program.revoke)
    with pytest.raises(openai.AuthenticationError) as caught:
        await program.ask()
    assert caught.value.type == "authentication_error"
    assert not await in_database(Turn.objects.exists)


async def test_a_token_that_is_revoked_stops_the_stream_and_not_the_turn(
    program: Program,
) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="First"), pause, Finished(reason="stop")])
    asking = asyncio.create_task(read_stream(program))
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(program.revoke)
    chunks = await asking
    assert chunks[-1].model_extra["countersign"]["state"] == "running"
    pause.ended.set()
