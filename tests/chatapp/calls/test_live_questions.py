"""A handshake-era service asks in the middle of a call: the card is there while the connection is
open, an answer from any tab reaches it, and silence ends within a bound."""

import asyncio
from collections.abc import Iterator

import pytest
from django.test import override_settings

from chatapp.approvals import questions
from chatapp.calls import live_questions
from chatapp.calls.ledger import Sending, begin_sending, settle_orphans
from chatapp.calls.live_questions import LiveQuestions
from chatapp.calls.question_rounds import store_question
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime
from chatapp.journal.lease import Lease, acquire
from chatapp.models import Member, Question, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import from_now, in_database
from mcpconfig.models import Service
from mcpconfig.values.results import InputRequest
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service, grant_call, wait_for_event, wait_for_rest
from tests.turns.faults import Held

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
NAG = ("asker_nag", '{"times": 1}')


@pytest.fixture
def diary(transactional_db: None) -> Iterator[QuestionLog]:
    diary = QuestionLog()
    with Served(application(diary, "handshake")) as served:
        create_offered_service("asker", served.url, "nag", "dawdle", title="The asker")
        yield diary


async def asked(runtime: EngineRuntime, turn: Turn, call: tuple[str, str] = NAG) -> Question:
    """The question of a call that is under way."""
    scripted.scenes += [calls(call), text("So it is.")]
    runtime.engine.wake(turn.pk)
    rows = Question.objects.select_related("tool_call__turn").filter(state="open")
    async with asyncio.timeout(60):
        while True:
            if found := await in_database(list, rows.all()):
                return found[0]
            await asyncio.sleep(0.01)


async def test_the_answer_reaches_the_open_call(
    runtime: EngineRuntime, diary: QuestionLog, turn: Turn, owner: Member
) -> None:
    question = await asked(runtime, turn)
    assert question.tool_call.state == State.SENDING

    def see_and_answer() -> str:
        client = signed_in(owner)
        page = parse(client.get(f"/c/{turn.conversation_id}/").content.decode())
        listed = client.get("/approvals/").content.decode()
        assert f"/approvals/{question.tool_call_id}/" in listed
        client.post(f"/questions/{question.pk}/answer", {"action": "accept", "v0-sure": "true"})
        return page.one(id=f"tool-call-{question.tool_call_id}").text

    assert "The service waits only a short time." in await in_database(see_and_answer)
    await wait_for_rest(runtime, turn)
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert (call.state, diary.entries) == (State.SUCCEEDED, ["0: accept"])
    assert call.attempt == 1


@override_settings(QUESTION_WAIT_SECONDS=0.2)
async def test_silence_is_told_to_the_service_and_a_late_answer_is_refused(
    runtime: EngineRuntime, diary: QuestionLog, turn: Turn, owner: Member
) -> None:
    scripted.scenes += [calls(NAG), text("Nobody was there.")]
    done = await wait_for_rest(runtime, turn)
    assert (done.state, diary.entries) == (Turn.State.DONE, ["0: cancel"])
    question = await in_database(Question.objects.select_related("tool_call").get)
    assert question.state == Question.State.EXPIRED
    with pytest.raises(Refused, match="too late"):
        await in_database(questions.answer, question, by=owner, action="decline", values={})


async def test_stop_withdraws_what_is_asked_meanwhile(
    runtime: EngineRuntime, diary: QuestionLog, turn: Turn
) -> None:
    question = await asked(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    await wait_for_rest(runtime, turn)
    await question.arefresh_from_db()
    assert question.state == Question.State.WITHDRAWN
    assert (await in_database(ToolCall.objects.get, turn=turn)).state == State.UNKNOWN


async def test_a_process_that_ends_in_good_order_withdraws_what_is_asked_in_it(
    runtime: EngineRuntime, diary: QuestionLog, turn: Turn
) -> None:
    question = await asked(runtime, turn)
    await close_engine_runtime(runtime)
    await question.arefresh_from_db()
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert (question.state, call.state) == (Question.State.WITHDRAWN, State.UNKNOWN)
    assert (await in_database(Turn.objects.get, pk=turn.pk)).state == Turn.State.QUEUED


def send_nag(turn: Turn) -> tuple[Lease, Sending]:
    """A call of `nag` that this worker has begun to send."""
    service = Service.objects.get()
    made = ToolCall.objects.create(
        turn=turn,
        step=1,
        position=0,
        provider_call_id="call_0",
        tool_id="asker_nag",
        tool_name="nag",
        service=service,
        definition=service.definitions.get(name="nag"),
        arguments="{}",
        state=State.APPROVED,
    )
    lease = acquire(turn.pk)
    assert lease is not None
    sending = begin_sending(lease, grant_call(made).pk)
    assert sending is not None
    return lease, sending


async def test_a_question_that_is_stored_while_its_call_is_cancelled_is_withdrawn(
    diary: QuestionLog, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, sending = await in_database(send_nag, turn)
    held = Held(store_question)
    monkeypatch.setattr(live_questions, "store_question", held)
    asks = InputRequest(key="1", mode="form", message="Shall I?", schema={"properties": {}})
    asking = asyncio.create_task(LiveQuestions(lease=lease, sending=sending).ask(asks))
    await wait_for_event(held.reached)
    asking.cancel()
    await asyncio.sleep(0)
    held.released.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await in_database(Question.objects.get)).state == Question.State.WITHDRAWN


def test_with_its_worker_the_question_is_gone_and_the_outcome_unknown(
    diary: QuestionLog, turn: Turn
) -> None:
    lease, sending = send_nag(turn)
    asks = InputRequest(key="1", mode="form", message="Shall I?", schema={"properties": {}})
    question = store_question(
        sending.call_id, (asks,), expires_at=from_now(seconds=60), source=Question.Source.LIVE
    )
    settle_orphans(lease)
    question.refresh_from_db()
    call = ToolCall.objects.get(turn=turn)
    assert (question.state, call.state) == (Question.State.WITHDRAWN, State.UNKNOWN)
