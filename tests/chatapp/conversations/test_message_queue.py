"""The queue of a chat: messages that wait for the answer in progress, and when each is sent."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import pytest_asyncio
from django.db import connection

from chatapp.context import attachments
from chatapp.conversations import chat_list, drafts, intake, message_queue
from chatapp.conversations.queue_sender import QueueSender
from chatapp.conversations.uploads import Upload, keep_file
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import (
    Attachment,
    Conversation,
    Member,
    Message,
    MessageDraft,
    Part,
    QueuedMessage,
    Turn,
)
from chatapp.people.refused import Refused
from chatapp.providers.events import TextDelta
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.scripted import Pause, calls, text
from tests.turns import rows
from tests.turns.acts import DELETE, wait_for_rest
from tests.turns.tabs import caught_up, told, watched

pytestmark = pytest.mark.django_db(transaction=True)
State = Turn.State


@pytest_asyncio.fixture
async def sender(runtime: EngineRuntime) -> AsyncIterator[QueueSender]:
    """What sends queued messages in a server, beside its engine."""
    opened = QueueSender(current_runtime())
    opened.start()
    yield opened
    await opened.close()


def queue(chat: Conversation, words: str, **more: Any) -> Turn | QueuedMessage:
    options = {"text": words, "model": scripted.MODEL} | more
    return message_queue.send_or_queue(chat.owner, chat, **options)


def list_queue(chat: Conversation) -> list[str]:
    return [each.text for each in chat.queued_messages.all()]


def read_problem(chat: Conversation) -> str:
    return chat.queued_messages.get().problem


def list_sent(chat: Conversation) -> list[str]:
    """The messages of the person, in the order in which they were sent."""
    parts = Part.objects.filter(message__conversation=chat, message__role=Message.Role.USER)
    said = parts.filter(kind=Part.Kind.TEXT).order_by("message__created_seq")
    return list(said.values_list("text", flat=True))


async def wait_in_database(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await in_database(holds):
                return
            await asyncio.sleep(0.01)


async def begin_answer(runtime: EngineRuntime, turn: Turn) -> Pause:
    """Let the model begin its answer, which goes on when the pause ends."""
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Well, "), pause, *text("that is it.")])
    runtime.engine.wake(turn.pk)
    await pause.reached.wait()
    return pause


async def pause_answer(runtime: EngineRuntime, turn: Turn) -> None:
    """Let the model ask for a tool, so that the turn waits for its person."""
    scripted.scenes.append(calls(DELETE))
    assert (await wait_for_rest(runtime, turn)).state == State.WAITING


# --- sending ---------------------------------------------------------------------------------
@pytest.mark.usefixtures("sender")
async def test_messages_are_sent_one_after_another_as_the_answers_end(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    pause = await begin_answer(runtime, turn)
    for words in ("Then this", "And then that"):
        assert isinstance(await in_database(queue, conversation, words), QueuedMessage)
    assert await in_database(list_sent, conversation) == ["Tidy up, please"]
    pause.ended.set()
    done = "Tidy up, please", "Then this", "And then that"
    await wait_in_database(lambda: list_sent(conversation) == [*done])
    await wait_in_database(lambda: not conversation.turns.filter(state__in=Turn.LIVE).exists())
    assert await in_database(list_queue, conversation) == []
    assert await in_database(conversation.turns.filter(state=State.DONE).count) == 3


async def test_what_another_process_left_in_the_queue_is_found(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    pause = await begin_answer(runtime, turn)
    await in_database(queue, conversation, "Then this")
    assert await in_database(message_queue.find_sendable) == []
    pause.ended.set()
    await wait_for_rest(runtime, turn)
    assert await in_database(list_queue, conversation) == ["Then this"], "nothing sends here"
    assert await in_database(message_queue.find_sendable) == [conversation.pk]


async def test_the_look_for_left_messages_sends_them(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, settings: Any
) -> None:
    await wait_for_rest(runtime, turn)
    settings.SWEEP_SECONDS = 0.01
    await in_database(lambda: _leave(conversation, "Left behind"))
    opened = QueueSender(current_runtime())
    opened.start()
    try:
        await wait_in_database(lambda: "Left behind" in list_sent(conversation))
    finally:
        await opened.close()


def _leave(chat: Conversation, words: str, **more: Any) -> QueuedMessage:
    """Put a message into the queue as a process leaves it that ends at once."""
    return QueuedMessage.objects.create(conversation=chat, text=words, model=scripted.MODEL, **more)


async def test_two_senders_send_a_message_once(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    await wait_for_rest(runtime, turn)
    scripted.scenes.append([Pause()])  # the answer does not end meanwhile
    await in_database(lambda: _leave(conversation, "Only once"))
    await in_database(lambda: _leave(conversation, "After it"))
    both = Barrier(2)

    def send() -> None:
        try:
            both.wait(30)
            message_queue.send_next(conversation.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        futures = [asyncio.wrap_future(pool.submit(send)) for _ in range(2)]
        await asyncio.gather(*futures)
    assert (await in_database(list_sent, conversation)).count("Only once") == 1
    assert await in_database(list_queue, conversation) == ["After it"]
    assert await in_database(read_problem, conversation) == ""


async def test_without_an_answer_in_progress_a_message_is_sent(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    await wait_for_rest(runtime, turn)
    assert isinstance(await in_database(queue, conversation, "Now", waits=True), Turn)
    assert await in_database(list_queue, conversation) == []


@pytest.mark.usefixtures("notebook")
async def test_while_a_request_is_open_a_message_cancels_it_unless_it_is_queued(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    await pause_answer(runtime, turn)
    queued = await in_database(queue, conversation, "Later", waits=True)
    assert isinstance(queued, QueuedMessage)
    assert (await in_database(Turn.objects.get, pk=turn.pk)).state == State.WAITING
    assert isinstance(await in_database(queue, conversation, "At once"), Turn)
    assert (await in_database(Turn.objects.get, pk=turn.pk)).state == State.STOPPED
    assert await in_database(list_queue, conversation) == ["Later"]


async def test_a_message_that_is_posted_twice_is_queued_once(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    pause, client_id = await begin_answer(runtime, turn), uuid.uuid4()
    for _ in range(2):
        await in_database(queue, conversation, "Once", client_id=client_id)
    assert await in_database(list_queue, conversation) == ["Once"]
    pause.ended.set()
    await wait_for_rest(runtime, turn)
    await in_database(message_queue.send_next, conversation.pk)
    for waits in (False, True):
        await in_database(queue, conversation, "Once", client_id=client_id, waits=waits)
    assert await in_database(list_sent, conversation) == ["Tidy up, please", "Once"]
    assert await in_database(list_queue, conversation) == []


async def test_attachments_and_the_effort_go_with_their_message(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    pause = await begin_answer(runtime, turn)
    file = await in_database(keep_file, owner, Upload(name="a.txt", size=2, data=b"Hi"))
    await in_database(queue, conversation, "Read it", attachments=[file.pk], effort="high")
    pause.ended.set()
    await wait_for_rest(runtime, turn)
    await in_database(message_queue.send_next, conversation.pk)
    await in_database(file.refresh_from_db)
    assert file.part_id is not None
    await in_database(conversation.refresh_from_db)
    assert conversation.effort == "high"


# --- what is held back -----------------------------------------------------------------------
@pytest.mark.usefixtures("notebook", "sender")
async def test_after_an_answer_that_was_stopped_a_message_waits_for_its_person(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    await pause_answer(runtime, turn)
    await in_database(queue, conversation, "Held", waits=True)
    await in_database(intake.stop, conversation)
    await wait_in_database(lambda: bool(read_problem(conversation)))
    assert "not complete" in await in_database(read_problem, conversation)
    assert await in_database(message_queue.find_sendable) == []
    await in_database(message_queue.send_next, conversation.pk)
    assert await in_database(list_queue, conversation) == ["Held"]


async def test_a_message_whose_model_was_taken_away_waits_with_the_reason(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    pause = await begin_answer(runtime, turn)
    await in_database(queue, conversation, "Another model")
    await in_database(QueuedMessage.objects.update, model="nobody:gone")
    await in_database(lambda: _leave(conversation, "Behind it"))
    pause.ended.set()
    await wait_for_rest(runtime, turn)
    await in_database(message_queue.send_next, conversation.pk)
    held = await in_database(conversation.queued_messages.first)
    assert held is not None
    assert held.text == "Another model"
    assert held.problem
    assert await in_database(message_queue.find_sendable) == []
    await in_database(message_queue.send_next, conversation.pk)
    assert await in_database(list_queue, conversation) == ["Another model", "Behind it"]


@pytest.mark.parametrize("reason", ["length", "refused", "filtered", "budget"])
async def test_an_answer_that_is_not_whole_holds_the_queue(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, reason: str
) -> None:
    await wait_for_rest(runtime, turn)
    await in_database(Turn.objects.update, reason=reason)
    await in_database(lambda: _leave(conversation, "For the whole answer"))
    await in_database(message_queue.send_next, conversation.pk)
    assert "not complete" in await in_database(read_problem, conversation)


async def test_a_chat_that_is_restored_sends_nothing_by_itself(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    await begin_answer(runtime, turn)
    queued = await in_database(queue, conversation, "Now")
    assert isinstance(queued, QueuedMessage)
    await in_database(message_queue.send_now, owner, conversation, queued.pk)
    await in_database(chat_list.delete, conversation)
    await wait_in_database(lambda: not conversation.turns.filter(state__in=Turn.LIVE).exists())
    await in_database(chat_list.restore, conversation)
    await in_database(message_queue.send_next, conversation.pk)
    assert "not complete" in await in_database(read_problem, conversation)


async def test_files_of_queued_messages_make_no_room_for_others(
    runtime: EngineRuntime,
    turn: Turn,
    conversation: Conversation,
    owner: Member,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await begin_answer(runtime, turn)
    monkeypatch.setattr(attachments, "MAX_DRAFTS", 2)

    def add_file() -> uuid.UUID:
        return keep_file(owner, Upload(name="a.txt", size=2, data=b"Hi")).pk

    first, second = await in_database(add_file), await in_database(add_file)
    await in_database(queue, conversation, "With files", attachments=[first, second])
    third = await in_database(add_file)
    kept = await in_database(lambda: set(Attachment.objects.values_list("pk", flat=True)))
    assert kept == {first, second, third}
    with pytest.raises(Refused, match="too many attachments"):
        await in_database(queue, conversation, "One more", attachments=[third])


async def test_the_id_of_a_message_of_another_chat_is_refused(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    await begin_answer(runtime, turn)
    client_id = uuid.uuid4()
    other = await in_database(lambda: rows.turn(owner, State.RUNNING).conversation)
    await in_database(queue, other, "There", client_id=client_id)
    with pytest.raises(Refused):
        await in_database(queue, conversation, "Here", client_id=client_id)


@pytest.mark.parametrize("what", ["deleted chat", "disabled person"])
async def test_nothing_is_sent_for_a_deleted_chat_or_a_disabled_person(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member, what: str
) -> None:
    await wait_for_rest(runtime, turn)
    await in_database(lambda: _leave(conversation, "Never"))
    if what == "deleted chat":
        await in_database(chat_list.delete, conversation)
    else:
        await in_database(Member.objects.filter(pk=owner.pk).update, is_active=False)
    assert await in_database(message_queue.find_sendable) == []
    await in_database(message_queue.send_next, conversation.pk)
    assert await in_database(list_sent, conversation) == ["Tidy up, please"]


async def test_what_cannot_be_sent_is_not_queued_either(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    await begin_answer(runtime, turn)
    for bad in (
        {"words": " "},
        {"words": "a", "model": "nobody:gone"},
        {"words": "a", "effort": "endless"},
        {"words": "a", "attachments": [uuid.uuid4()]},
        {"words": "a\x00"},
    ):
        with pytest.raises(Refused):
            await in_database(lambda bad=bad: queue(conversation, **bad))  # type: ignore[misc]
    assert await in_database(list_queue, conversation) == []


async def test_a_queue_has_room_for_ten(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    await begin_answer(runtime, turn)
    for number in range(message_queue.MAX_QUEUED):
        await in_database(queue, conversation, f"Message {number}")
    with pytest.raises(Refused, match="10 queued messages"):
        await in_database(queue, conversation, "One too many")
    assert len(await in_database(list_queue, conversation)) == 10


# --- what a person does to it ----------------------------------------------------------------
@pytest.mark.usefixtures("sender")
async def test_sent_now_a_message_stops_the_answer_and_goes_before_the_others(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    await begin_answer(runtime, turn)
    await in_database(queue, conversation, "First")
    second = await in_database(queue, conversation, "Second")
    assert isinstance(second, QueuedMessage)
    await in_database(message_queue.send_now, owner, conversation, second.pk)
    await wait_in_database(
        lambda: list_sent(conversation) == ["Tidy up, please", "Second", "First"]
    )
    assert (await in_database(Turn.objects.get, pk=turn.pk)).state == State.STOPPED


@pytest.mark.usefixtures("notebook")
async def test_sent_now_a_message_cancels_an_open_request_and_a_refused_one_stays(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    await pause_answer(runtime, turn)
    queued = await in_database(queue, conversation, "Now", waits=True)
    assert isinstance(queued, QueuedMessage)
    await in_database(QueuedMessage.objects.update, model="nobody:gone")
    with pytest.raises(Refused):
        await in_database(message_queue.send_now, owner, conversation, queued.pk)
    assert (await in_database(Turn.objects.get, pk=turn.pk)).state == State.WAITING
    assert await in_database(list_queue, conversation) == ["Now"]
    await in_database(QueuedMessage.objects.update, model=scripted.MODEL)
    await in_database(message_queue.send_now, owner, conversation, queued.pk)
    assert (await in_database(Turn.objects.get, pk=turn.pk)).state == State.STOPPED
    assert await in_database(list_sent, conversation) == ["Tidy up, please", "Now"]


async def test_a_message_is_taken_back_before_what_is_in_the_box(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    await begin_answer(runtime, turn)
    file = await in_database(keep_file, owner, Upload(name="a.txt", size=2, data=b"Hi"))
    queued = await in_database(queue, conversation, "Queued", attachments=[file.pk])
    assert isinstance(queued, QueuedMessage)
    box: dict[str, Any] = {"text": "In the box", "attachments": [file.pk]}
    await in_database(message_queue.take_back, owner, conversation, queued.pk, **box)
    draft = await in_database(drafts.find_draft, owner, conversation)
    assert draft is not None
    assert draft.text == "Queued\n\nIn the box"
    assert draft.attachments == [str(file.pk)]
    assert await in_database(list_queue, conversation) == []


async def test_a_message_that_does_not_fit_into_the_box_stays_in_the_queue(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member, settings: Any
) -> None:
    await begin_answer(runtime, turn)
    settings.MESSAGE_MAX_CHARACTERS = 12
    queued = await in_database(queue, conversation, "Ten of them")
    assert isinstance(queued, QueuedMessage)
    box: dict[str, Any] = {"text": "Much more", "attachments": []}
    with pytest.raises(Refused):
        await in_database(message_queue.take_back, owner, conversation, queued.pk, **box)
    assert await in_database(list_queue, conversation) == ["Ten of them"]
    assert await in_database(MessageDraft.objects.count) == 0


async def test_what_was_sent_or_removed_cannot_be_sent_edited_or_removed_again(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation, owner: Member
) -> None:
    await begin_answer(runtime, turn)
    queued = await in_database(queue, conversation, "Gone")
    assert isinstance(queued, QueuedMessage)
    await in_database(message_queue.remove, conversation, queued.pk)
    with pytest.raises(Refused, match="no longer in the queue"):
        await in_database(message_queue.remove, conversation, queued.pk)
    with pytest.raises(Refused, match="no longer in the queue"):
        await in_database(message_queue.send_now, owner, conversation, queued.pk)
    box: dict[str, Any] = {"text": "", "attachments": []}
    with pytest.raises(Refused, match="no longer in the queue"):
        await in_database(message_queue.take_back, owner, conversation, queued.pk, **box)


# --- pages -----------------------------------------------------------------------------------
@pytest.mark.usefixtures("sender")
async def test_open_pages_show_the_queue_as_it_is(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    pause = await begin_answer(runtime, turn)
    feed, tab = await watched(turn)
    place = tab.soup.new_tag("ul", id="queue")
    tab.soup.append(place)

    def read_texts() -> list[str]:
        return [each.get_text(strip=True) for each in tab.soup.select("#queue .text")]

    try:
        await in_database(queue, conversation, "Then this")
        await told(feed, turn)
        await caught_up(tab, conversation)
        assert read_texts() == ["Then this"]
        pause.ended.set()
        await wait_in_database(lambda: "Then this" in list_sent(conversation))
        await wait_in_database(lambda: not conversation.turns.filter(state__in=Turn.LIVE).exists())
        await told(feed, turn)
        await caught_up(tab, conversation)
        assert read_texts() == []
        assert tab.soup.select_one("#queue[hidden]") is not None
    finally:
        feed.close()
