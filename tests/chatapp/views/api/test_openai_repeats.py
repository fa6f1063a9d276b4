"""The same request again is the same turn, and a history that was told goes on in its chat."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from chatapp.api import chats
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Conversation, Member, Message, Turn
from chatapp.providers.events import TextDelta
from chatapp.providers.request import SaidText, UserMessage
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from chatapp.views.api import openai
from tests import scripted
from tests.conftest import signed_in
from tests.scripted import Pause, text
from tests.turns.acts import wait_for_rest, wait_until

from .openai_program import HELLO, Program, get_extension, get_text, notebook, program, runtime

__all__ = ["notebook", "program", "runtime"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


# --- the same again, and what follows -----------------------------------------------------------
async def test_the_same_words_mean_something_new_once_they_were_answered(program: Program) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    assert [get_text(await program.ask()), get_text(await program.ask())] == ["One.", "Two."]


async def test_a_client_that_says_it_tries_again_gets_the_answer_of_before(
    program: Program,
) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    await program.ask()
    retry = {"x-stainless-retry-count": "1"}
    answer = await program.post({"model": scripted.MODEL, "messages": HELLO}, **retry)
    assert answer.json()["choices"][0]["message"]["content"] == "One."


async def test_a_client_that_tries_again_much_later_means_something_new(program: Program) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    await program.ask()
    long_ago = timezone.now() - chats.KEPT_FOR_RETRY - timedelta(seconds=1)
    await in_database(Turn.objects.update, finished_at=long_ago)
    retry = {"x-stainless-retry-count": "1"}
    answer = await program.post({"model": scripted.MODEL, "messages": HELLO}, **retry)
    assert answer.json()["choices"][0]["message"]["content"] == "Two."


async def test_a_key_names_one_request(program: Program) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    body, key = {"model": scripted.MODEL, "messages": HELLO}, {"Idempotency-Key": "night-1"}
    both = [(await program.post(body, **key)).json() for _ in range(2)]
    assert both[0]["id"] == both[1]["id"]
    place = {"conversation": both[0]["countersign"]["conversation"]}
    others: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "Else"}]},
        {"messages": [{"role": "system", "content": "Be brief."}, *HELLO]},
        {"model": "demo:assistant"},
        {"countersign": place},
    ]
    for other in others:
        answer = await program.post({**body, **other}, **key)
        assert answer.status_code == 409, other
        assert "Idempotency-Key" in answer.json()["error"]["message"]


async def test_a_key_counts_at_every_face_of_its_token(program: Program, owner: Member) -> None:
    both = await in_database(Program, owner, "chat", "tools")
    shown, key = {"Authorization": f"Bearer {both.text}"}, {"Idempotency-Key": "a"}

    async def call() -> int:
        where, values = "/api/tools/current-time", {"zone": "UTC"}
        answer = await both.http.post(where, json=values, headers={**shown, **key})
        return answer.status_code

    body = {"model": scripted.MODEL, "messages": HELLO}
    assert await call() == 200
    answer = await both.post(body, **key)
    assert answer.status_code == 409 and "another request" in answer.json()["error"]["message"]
    key["Idempotency-Key"] = "b"
    assert (await both.post(body, **key)).status_code == 200
    assert await call() == 422


async def test_the_same_at_once_is_one_turn(program: Program) -> None:
    pause, listeners = Pause(), current_runtime().journal_listeners
    before = len(listeners)
    scripted.scenes += [[pause, *text("One.")], text("Two.")]
    asking = [asyncio.create_task(program.ask()) for _ in range(4)]
    await wait_until(lambda: len(listeners) == before + 4)  # all of them wait for the answer
    pause.ended.set()
    found = {answer.id for answer in await asyncio.gather(*asking)}
    assert len(found) == await in_database(Turn.objects.count) == 1


async def test_a_history_that_was_told_goes_on_in_its_chat(program: Program) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    first = await program.ask()
    history = [*HELLO, {"role": "assistant", "content": get_text(first)}]
    second = await program.ask([*history, {"role": "user", "content": "And then?"}])
    assert get_extension(second)["conversation"] == get_extension(first)["conversation"]
    assert await in_database(Message.objects.count) == 4


@pytest.mark.parametrize("told", ["Something else.", ""])
async def test_another_history_is_a_chat_of_its_own_with_its_words(
    program: Program, owner: Member, told: str
) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    first = await program.ask()
    history = [*HELLO, {"role": "assistant", "content": told}] if told else HELLO
    second = await program.ask([*history, {"role": "user", "content": "And then?"}])
    place = get_extension(second)["conversation"]
    assert place != get_extension(first)["conversation"]
    request = scripted.requests[-1]
    if told:
        asked, answered, last = request.history
        assert asked == UserMessage(text="Hello")
        assert answered.parts == (SaidText(text=told),)  # type: ignore[union-attr]
        assert last == UserMessage(text="And then?")
    else:
        assert request.history == (UserMessage(text="Hello\n\nAnd then?"),)
    page = await in_database(lambda: signed_in(owner).get(f"/c/{place}/"))
    assert page.status_code == 200 and (told or "Hello") in page.content.decode()


async def test_a_chat_that_its_person_went_on_with_is_left_to_them(
    runtime: EngineRuntime, program: Program, owner: Member
) -> None:
    scripted.scenes += [text("One."), text("Mine."), text("Two.")]
    first = await program.ask()
    chat = await in_database(Conversation.objects.get)
    assert not chat.title_is_draft  # no model titles it
    turn = await in_database(partial(intake.receive, owner, chat, text="I", model=scripted.MODEL))
    await wait_for_rest(runtime, turn)
    history = [*HELLO, {"role": "assistant", "content": get_text(first)}]
    second = await program.ask([*history, {"role": "user", "content": "And then?"}])
    assert get_extension(second)["conversation"] != str(chat.pk)


async def test_a_chat_can_be_named(program: Program) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    place = {"conversation": get_extension(await program.ask())["conversation"]}
    more = [{"role": "user", "content": "And then?"}]
    second = await program.ask(more, extra_body={"countersign": place})
    assert get_extension(second)["conversation"] == place["conversation"]
    assert len(scripted.requests[-1].history) == 3


async def test_an_answer_that_takes_too_long_is_told_to_ask_again(
    runtime: EngineRuntime, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "WAIT_SECONDS", 0.2)
    pause = Pause()
    scripted.scenes.append([TextDelta(text="First"), pause, *text(" then.")])
    early = await program.ask()
    assert get_extension(early)["state"] == "running"
    pause.ended.set()
    await wait_for_rest(runtime, await in_database(Turn.objects.get))
    assert get_text(await program.ask()) == "First then."
    assert await in_database(Turn.objects.count) == 1
