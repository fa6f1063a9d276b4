"""Answers as an OpenAI-compatible server gives them: each request is a governed turn."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from chatapp.api import chats
from chatapp.api.requests import ChatRequest, SentMessage
from chatapp.approvals import decisions
from chatapp.engine import steps
from chatapp.journal.lease import Lease
from chatapp.models import Member, Message, Note, Step, ToolCall, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.server.database import in_database
from chatapp.views.api import openai
from chatapp.views.api.openai_request import Wanted
from tests import scripted
from tests.conftest import signed_in
from tests.peers.reading_room import PNG
from tests.scripted import Pause, calls, text

from .openai_program import (
    DELETE,
    HELLO,
    Program,
    get_extension,
    get_text,
    notebook,
    program,
    read_stream,
    runtime,
    words,
)

__all__ = ["notebook", "program", "runtime"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def lease_of(turn: Turn) -> Lease:
    return Lease(turn_id=turn.pk, conversation_id=turn.conversation_id, owner="", fence=0)


def events_of(turn: Turn, asked: ChatRequest, program: Program) -> AsyncGenerator[str, None]:
    """Of its stream, one after another: the transport of the tests gives all of them at the end."""
    return openai._iterate_events(turn, Wanted(asked=asked), program.token)


# --- answers -------------------------------------------------------------------------------------
async def test_an_answer_has_the_shape_that_clients_expect(program: Program) -> None:
    scripted.scenes.append(text("Good ", "morning."))
    answer = await program.ask()
    assert get_text(answer) == "Good morning."
    assert (answer.object, answer.choices[0].finish_reason) == ("chat.completion", "stop")
    assert answer.model == scripted.MODEL and answer.id.startswith("chatcmpl-")
    assert answer.usage.completion_tokens == 5
    turn = await in_database(Turn.objects.get)
    told = get_extension(answer)
    assert (told["state"], told["reason"]) == ("done", "complete")
    assert told["conversation"] == str(turn.conversation_id) and told["url"].endswith("/")
    assert told["conversation"] in told["url"]


async def test_a_streamed_answer_comes_as_it_is_stored_and_ends_with_the_tokens(
    program: Program,
) -> None:
    scripted.scenes.append([ReasoningDelta(text="Hm."), *text("Good ", "morning.")])
    chunks = await read_stream(program, stream_options={"include_usage": True})
    assert chunks[0].choices[0].delta.role == "assistant"
    assert words(chunks) == "Good morning."  # thoughts stay here
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 5
    assert chunks[-2].model_extra["countersign"]["state"] == "done"


async def test_words_come_before_the_answer_is_over(program: Program) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="First"), pause, *text(" then.")])
    asking = asyncio.create_task(read_stream(program))
    async with asyncio.timeout(60):
        await pause.reached.wait()
    pause.ended.set()
    assert words(await asking) == "First then."


async def test_a_stream_whose_answer_was_begun_anew_ends_with_a_clear_error(
    program: Program,
) -> None:
    before, after = Pause(), Pause()
    scripted.scenes.append(
        [TextDelta(text="First"), before, TextDelta(text="Else"), after, *text(".")]
    )
    asked = ChatRequest(model=scripted.MODEL, said=(SentMessage(role="user", text="Hello"),))
    turn = await chats.receive(program.token, asked)
    async with asyncio.timeout(60), aclosing(events_of(turn, asked, program)) as events:
        while "First" not in await anext(events):
            pass
        step = await in_database(Step.objects.get)
        await in_database(steps._remove_earlier_attempt, turn, step, lease_of(turn))
        before.ended.set()
        last = [each async for each in events]
    after.ended.set()
    assert "started again" in last[-2] and last[-1] == openai.DONE
    assert not any("Else" in each for each in last)
    answer = await program.ask()
    assert (get_text(answer), await in_database(Turn.objects.count)) == ("FirstElse.", 1)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        *(("length", "length"), ("stop", "stop")),
        *(("refused", "content_filter"), ("filtered", "content_filter")),
    ],
)
async def test_the_way_an_answer_ended_is_told(program: Program, reason: Any, finish: str) -> None:
    scripted.scenes.append(text("Half", reason=reason))
    answer = await program.ask()
    assert answer.choices[0].finish_reason == finish


async def test_a_tool_that_may_run_runs_here_and_is_told_beside(
    program: Program, notebook: None
) -> None:
    scripted.scenes += [
        [TextDelta(text="I look."), *calls(("notebook_list_notes", "{}"))],
        text("Done."),
    ]
    answer = await program.ask()
    assert get_text(answer) == "I look.\n\nDone."
    (tool,) = get_extension(answer)["tools"]
    assert (tool["tool"], tool["service"], tool["state"]) == (
        *("notebook_list_notes", "notebook"),
        "succeeded",
    )


async def test_instructions_of_the_program_reach_the_model_and_its_person(
    program: Program, owner: Member
) -> None:
    scripted.scenes.append(text("Ahoy."))
    system = [{"role": "system", "content": "Speak like a sailor."}]
    answer = await program.ask([*system, *HELLO, {"role": "developer", "content": "Be brief."}])
    assert "Speak like a sailor.\n\nBe brief." in scripted.requests[-1].system
    page = await in_database(
        lambda: signed_in(owner).get(f"/c/{get_extension(answer)['conversation']}/")
    )
    assert "Speak like a sailor." in page.content.decode()


async def test_pictures_come_along(program: Program) -> None:
    scripted.scenes.append(text("A dot."))
    picture = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": picture}},
    ]
    await program.ask([{"role": "user", "content": parts}])
    question = await in_database(Message.objects.get, role="user")
    files = await in_database(lambda: list(question.parts.filter(kind="file")))
    assert len(files) == 1 and files[0].message_id == question.pk


# --- what waits for a person ----------------------------------------------------------------------
async def test_what_waits_is_told_with_a_link_and_asked_again_it_is_answered_once(
    program: Program, owner: Member, notebook: None
) -> None:
    scripted.scenes += [calls(DELETE), text("It is gone.")]
    first = await program.ask()
    told = get_extension(first)
    (waits,) = told["waits_for"]
    assert (told["state"], waits["kind"]) == ("waiting", "approval")
    assert waits["url"] in get_text(first) and told["url"] in get_text(first)
    assert first.choices[0].finish_reason == "stop"

    again = await program.ask()
    assert get_extension(again)["waits_for"] == told["waits_for"]
    call = await in_database(ToolCall.objects.select_related("approval").get)
    grant = partial(decisions.grant, call, by=owner, binding=call.approval.binding, shown_at=None)
    await in_database(grant)

    last = await program.ask()
    assert get_text(last) == "It is gone."
    assert get_extension(last)["tools"][0]["state"] == "succeeded"
    assert await in_database(Turn.objects.count) == 1
    assert not await in_database(Note.objects.filter(title="Old ideas").exists)


async def test_a_stream_ends_where_a_person_is_awaited(program: Program, notebook: None) -> None:
    scripted.scenes += [[TextDelta(text="I delete it."), *calls(DELETE)]]
    chunks = await read_stream(program)
    assert words(chunks).startswith("I delete it.\n\nnotebook_delete_note waits until")
    assert chunks[-1].model_extra["countersign"]["state"] == "waiting"
    assert words(await read_stream(program)) == words(chunks)
