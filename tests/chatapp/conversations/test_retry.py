"""Asking the model again: by itself with a countdown, and when a person says so."""

import asyncio

import pytest
from django.db import transaction
from django.test import Client

from chatapp.conversations import intake, retry
from chatapp.engine import ending
from chatapp.engine.runtime import EngineRuntime
from chatapp.engine.steps import open_step
from chatapp.journal import journal
from chatapp.journal.journal import Entry, Kind
from chatapp.journal.lease import acquire
from chatapp.models import Conversation, Member, Part, Step, Turn
from chatapp.people.refused import Refused
from chatapp.providers.events import FinishReason, ProviderError, TextDelta
from chatapp.providers.request import AssistantMessage, SaidText, UserMessage
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import Pause, calls, text
from tests.turns.acts import get_owner, read_notices, read_text, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
BUSY = ProviderError(kind="overloaded", message="OpenAI is overloaded.", retry_after=1.5)
REFUSED = ProviderError(kind="server", message="OpenAI returned an error.", retry_after=900)


def status_line(owner: Member, turn: Turn) -> str:
    page = parse(signed_in(owner).get(f"/c/{turn.conversation_id}/").content.decode())
    return page.one("div", id=f"status-{turn.answer_id}").text


async def again(turn: Turn, model: str = scripted.MODEL) -> Turn:
    owner = await in_database(get_owner, turn)
    return await in_database(retry.ask_again, turn.conversation, owner, model)


async def failed(runtime: EngineRuntime, turn: Turn) -> Turn:
    scripted.scenes.append([TextDelta(text="Half an"), REFUSED])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    return done


async def test_a_wait_for_the_provider_counts_down_on_the_page_and_is_over_with_it(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes += [[BUSY], text("Here I am.")]
    working = asyncio.create_task(wait_for_rest(runtime, turn))
    seen: list[str] = []

    async def look() -> bool:
        is_over = working.done()
        seen.append(await in_database(status_line, owner, turn))
        return is_over

    async with asyncio.timeout(60):
        while not await look():
            pass
    assert any(
        "OpenAI is overloaded. Trying again in 2 seconds (attempt 2 of 3)." in s for s in seen
    )
    assert any("Trying again in 1 second (attempt 2 of 3)." in s for s in seen)
    assert "Trying again" not in seen[-1]
    step = await in_database(Step.objects.get, turn=turn)
    assert step.waits_because == ""


async def test_stop_ends_the_wait_at_once(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    waiting = ProviderError(kind="overloaded", message="Busy.", retry_after=55)
    scripted.scenes.append([waiting])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        while "Trying again in 55" not in await in_database(status_line, owner, turn):
            pass
    await in_database(intake.stop, turn.conversation)
    async with asyncio.timeout(30):
        stopped = await wait_for_rest(runtime, turn)
    assert stopped.state == Turn.State.STOPPED


async def test_an_answer_that_failed_is_tried_again_and_keeps_what_was_painted(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await failed(runtime, turn)
    scripted.scenes.append(text("The whole answer."))
    await again(turn)
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, "complete")
    assert await in_database(read_text, turn) == "Half anThe whole answer."
    assert await in_database(read_notices, turn) == [REFUSED.message]
    told = scripted.requests[-1].history
    assert told == (UserMessage(text="Tidy up, please"),)


async def test_later_turns_do_not_hear_of_the_answer_that_was_given_up(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    await failed(runtime, turn)
    scripted.scenes.append(text("The whole answer."))
    await again(turn)
    await wait_for_rest(runtime, turn)
    scripted.scenes.append(text("Yes."))
    following = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="And?", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, following)
    said_before = [
        each for each in scripted.requests[-1].history if isinstance(each, AssistantMessage)
    ]
    assert said_before == [AssistantMessage(parts=(SaidText(text="The whole answer."),))]


async def test_an_answer_that_was_stopped_before_it_began_is_given_after_all(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await in_database(intake.stop, turn.conversation)
    scripted.scenes.append(text("Here it is."))
    await again(turn)
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, "complete")
    assert await in_database(read_text, turn) == "Here it is."
    assert await in_database(read_notices, turn) == ["You stopped this answer."]


def test_a_turn_ends_though_a_notice_stands_where_the_answer_was_to_be(turn: Turn) -> None:
    Step.objects.create(turn=turn, number=1)
    data = {"message": str(turn.answer_id), "step": 1, "attempt": 1, "position": 0, "text": "Half"}
    entry = Entry(kind=Kind.TEXT, data=data)
    with transaction.atomic():
        journal.append(turn.conversation_id, turn.pk, [entry])
        ending.add_notice(turn, Part.NoticeKind.STOPPED, "You stopped this answer.", "")
    intake.stop(turn.conversation)
    turn.refresh_from_db()
    assert turn.state == Turn.State.STOPPED


def test_a_step_that_begins_anew_does_not_say_that_it_waits(turn: Turn, owner: Member) -> None:
    Step.objects.create(
        turn=turn, number=1, waits_because="Trying again in 7 seconds (attempt 2 of 3)."
    )
    lease = acquire(turn.pk)
    assert lease is not None
    assert "Trying again" in status_line(owner, turn)
    open_step(lease, 1)
    assert "Trying again" not in status_line(owner, turn)


def buttons(owner: Member, turn: Turn) -> list[str]:
    page = parse(signed_in(owner).get(f"/c/{turn.conversation_id}/").content.decode())
    line = page.one("div", id=f"status-{turn.answer_id}")
    return [word for word in ("Try again", "Continue") if word in line.text]


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [("refused", "The model refused to answer"), ("filtered", "The provider’s content filter")],
)
async def test_an_answer_that_was_refused_or_filtered_is_tried_again_by_another_model(
    runtime: EngineRuntime, turn: Turn, owner: Member, reason: FinishReason, sentence: str
) -> None:
    scripted.scenes.append(text("I cannot help.", reason=reason))
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, reason)
    (notice,) = await in_database(read_notices, turn)
    assert sentence in notice
    assert await in_database(buttons, owner, done) == ["Try again"]
    scripted.scenes.append(text("Gladly."))
    await again(done, "scripted:other")
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason, done.model) == (Turn.State.DONE, "complete", "scripted:other")
    assert scripted.requests[-1].history == (UserMessage(text="Tidy up, please"),)
    assert await in_database(read_text, turn) == "I cannot help.Gladly."
    assert await in_database(buttons, owner, done) == []


async def test_an_answer_that_was_given_is_not_tried_again(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append(text("Done."))
    await wait_for_rest(runtime, turn)
    with pytest.raises(Refused, match="no answer to try again"):
        await again(turn)


async def test_what_a_failed_answer_said_is_gone_on_from(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    done = await failed(runtime, turn)
    assert await in_database(buttons, owner, done) == ["Try again", "Continue"]
    scripted.scenes.append(text(" answer."))

    def go_on() -> Turn:
        answer = signed_in(owner).post(
            f"/c/{turn.conversation_id}/go-on", {"model": scripted.MODEL}
        )
        assert answer.status_code < 400, answer.content
        return Turn.objects.exclude(pk=turn.pk).get()

    await wait_for_rest(runtime, await in_database(go_on))
    assert AssistantMessage(parts=(SaidText(text="Half an"),)) in scripted.requests[-1].history


async def test_without_a_word_there_is_nothing_to_go_on_from(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append([REFUSED])
    done = await wait_for_rest(runtime, turn)
    assert await in_database(buttons, owner, done) == ["Try again"]


async def test_another_model_may_try(runtime: EngineRuntime, turn: Turn) -> None:
    await failed(runtime, turn)
    scripted.scenes.append(text("As another one."))
    await again(turn, "scripted:other")
    done = await wait_for_rest(runtime, turn)
    assert done.model == "scripted:other"
    assert scripted.requests[-1].model == "other"
    conversation = await in_database(Conversation.objects.get, pk=turn.conversation_id)
    assert conversation.model == "scripted:other"


async def test_calls_that_were_made_stand_and_the_model_goes_on_from_them(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes += [calls(("unheard_of", "{}")), [REFUSED]]
    await wait_for_rest(runtime, turn)
    scripted.scenes.append(text("That tool is not there."))
    await again(turn)
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert [type(item).__name__ for item in scripted.requests[-1].history] == [
        "UserMessage",
        "AssistantMessage",
        "ToolOutcome",
    ]


async def test_only_the_last_answer_that_ended_early_can_be_tried_again(
    runtime: EngineRuntime, turn: Turn
) -> None:
    with pytest.raises(Refused, match="no answer to try again"):
        await again(turn)  # it has not begun
    scripted.scenes.append(text("Well."))
    await wait_for_rest(runtime, turn)
    with pytest.raises(Refused, match="no answer to try again"):
        await again(turn)


async def test_two_presses_begin_it_once(runtime: EngineRuntime, turn: Turn) -> None:
    await failed(runtime, turn)
    pause = Pause()
    scripted.scenes.append([pause, *text("Once.")])
    await again(turn)
    with pytest.raises(Refused):
        await again(turn)
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    pause.ended.set()
    await wait_for_rest(runtime, turn)
    assert await in_database(read_text, turn) == "Half anOnce."


def asked(client: Client, turn: Turn, act: str, **fields: str) -> str:
    answer = client.post(f"/c/{turn.conversation_id}/{act}", {"text": "in the box", **fields})
    assert answer.status_code == 200
    return answer.content.decode()


async def test_the_page_offers_it_and_keeps_what_stands_in_the_box(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    await failed(runtime, turn)

    def press() -> None:
        client = signed_in(owner)
        page = parse(client.get(f"/c/{turn.conversation_id}/").content.decode())
        assert page.button("Try again")["formaction"] == f"/c/{turn.conversation_id}/again"
        shown = parse(asked(client, turn, "again", model=scripted.MODEL))
        assert shown.one("textarea").text == "in the box"
        refused = client.post(f"/c/{turn.conversation_id}/again", headers={"HX-Request": "true"})
        assert refused.status_code == 409

    await in_database(press)


async def test_an_answer_that_was_cut_by_its_length_goes_on_as_a_new_message(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append(text("This goes on and", reason="length"))
    await wait_for_rest(runtime, turn)

    def press() -> Turn:
        client = signed_in(owner)
        page = parse(client.get(f"/c/{turn.conversation_id}/").content.decode())
        assert "Try again" not in page.buttons()
        assert page.button("Continue")
        asked(client, turn, "go-on", model=scripted.MODEL)
        return Turn.objects.exclude(pk=turn.pk).get()

    following = await in_database(press)
    scripted.scenes.append(text(" on."))
    await wait_for_rest(runtime, following)
    assert scripted.requests[-1].history[-1] == UserMessage(text=retry.GO_ON)


def test_a_stranger_can_do_neither(turn: Turn) -> None:
    stranger = Member.objects.create_user("stranger", password="a-long-password")
    for act in ("again", "go-on"):
        assert signed_in(stranger).post(f"/c/{turn.conversation_id}/{act}").status_code == 404
