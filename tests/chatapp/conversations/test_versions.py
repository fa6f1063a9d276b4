"""Versions of messages: editing, other answers, and switching between branches of a chat."""

import asyncio
import contextlib
import random
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import Http404

from chatapp.api import access_tokens, apps, direct_calls
from chatapp.context import attachments, summaries
from chatapp.conversations import intake, retry, uploads, versions
from chatapp.conversations.search import Search, search_chats
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_facts import load_gauge
from chatapp.live.page_view import PART_LENGTH, find_later_part, find_part
from chatapp.models import (
    Approval,
    Attachment,
    Conversation,
    Member,
    Message,
    Plan,
    Summary,
    ToolCall,
    Turn,
)
from chatapp.people.refused import Refused
from chatapp.providers.events import Finished, TextDelta, Usage
from chatapp.providers.request import AssistantMessage, SaidText, UserMessage
from chatapp.server.database import in_database
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import Context
from chatapp.tools.core import read_conversation, search_conversations
from chatapp.views.chat.conversations import build_call_address
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.values.results import ResourceContents, ResourcePart
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import Pause, calls, text
from tests.turns import rows
from tests.turns.acts import (
    DELETE,
    get_only_call,
    read_last_outcome,
    read_notices,
    wait_for_rest,
)
from tests.turns.own_tool_turns import asked_for
from tests.turns.tabs import assert_as_reloaded, caught_up, gone, told, watched, whole_page

pytestmark = pytest.mark.django_db(transaction=True)
FIRST = "Tidy up, please"


# --- acts ------------------------------------------------------------------------------------
async def answer(runtime: EngineRuntime, asked: Turn | Awaitable[Turn], words: str) -> Turn:
    """Let the model answer a turn, or what an act asks, with these words."""
    scripted.scenes.append(text(words))
    return await wait_for_rest(runtime, asked if isinstance(asked, Turn) else await asked)


def find(turn: Turn, person: Member | None = None) -> Message:
    """Find the message of the turn as its person does."""
    asker = person or turn.conversation.owner
    return versions.find_message(asker, turn.conversation_id, turn.question_id)


async def edit(turn: Turn, words: str, **more: Any) -> Turn:
    options = {"text": words, "model": scripted.MODEL} | more
    return await in_database(
        lambda: versions.edit_message(turn.conversation.owner, find(turn), **options)
    )


async def answer_again(turn: Turn, model: str = scripted.MODEL) -> Turn:
    return await in_database(
        lambda: versions.answer_again(turn.conversation.owner, find(turn), model)
    )


async def send(turn: Turn, words: str) -> Turn:
    """Send another message in the chat of this turn."""

    def receive() -> Turn:
        chat = turn.conversation
        return intake.receive(chat.owner, chat, text=words, model=scripted.MODEL)

    return await in_database(receive)


async def show(turn: Turn, message_id: uuid.UUID) -> None:
    await in_database(versions.show_version, turn.conversation, message_id)


def read_history() -> list[str]:
    """Return the texts of the last request to the model, in order."""
    texts = []
    for item in scripted.requests[-1].history:
        if isinstance(item, UserMessage):
            texts.append(item.text)
        elif isinstance(item, AssistantMessage):
            texts.append("".join(part.text for part in item.parts if isinstance(part, SaidText)))
    return texts


def read_page(turn: Turn) -> list[str]:
    """Return the text of each message that a page shows, with its place among its versions."""
    read = []
    for message in whole_page(Conversation.objects.get(pk=turn.conversation_id)).soup.select("li"):
        words = message.select_one(".bubble, .prose")
        place = message.select_one(".versions .num [aria-hidden]")
        texts = [each.get_text(strip=True) for each in (words, place) if each is not None]
        read.append(" ".join(texts))
    return read


async def page(turn: Turn) -> list[str]:
    return await in_database(read_page, turn)


# --- what the person and the model see -------------------------------------------------------
async def test_an_edited_message_is_answered_and_its_earlier_version_stays(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, send(turn, "And then?"), "Second answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")

    assert read_history() == ["Tidy the garden"]
    assert await page(turn) == ["Tidy the garden 2/2", "Garden answer"]
    await show(turn, turn.question_id)
    assert await page(turn) == [f"{FIRST} 1/2", "First answer", "And then?", "Second answer"]


async def test_another_answer_by_another_model_is_a_version_of_the_first(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, send(turn, "And then?"), "Second answer")
    other = await answer(runtime, answer_again(turn, "scripted:other"), "Better answer")

    assert other.question_id == turn.question_id
    assert scripted.requests[-1].model == "other"
    assert read_history() == [FIRST]
    assert await page(turn) == [FIRST, "Better answer 2/2"]
    await show(turn, turn.answer_id)
    assert await page(turn) == [FIRST, "First answer 1/2", "And then?", "Second answer"]


async def test_a_new_message_goes_on_from_the_version_that_is_shown(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")
    await show(turn, turn.question_id)
    await answer(runtime, send(turn, "And then?"), "Done")

    assert read_history() == [FIRST, "First answer", "And then?"]
    assert await page(turn) == [f"{FIRST} 1/2", "First answer", "And then?", "Done"]


async def test_a_version_is_shown_with_the_newest_of_what_followed_it(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    follow_up = await answer(runtime, send(turn, "And then?"), "Second answer")
    await answer(runtime, edit(follow_up, "And now?"), "Third answer")
    garden = await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")

    await show(turn, turn.question_id)
    assert await page(turn) == [f"{FIRST} 1/2", "First answer", "And now? 2/2", "Third answer"]
    await show(turn, follow_up.question_id)
    assert (await page(turn))[2:] == ["And then? 1/2", "Second answer"]
    await show(turn, follow_up.question_id)  # it is shown already
    assert (await page(turn))[2:] == ["And then? 1/2", "Second answer"]
    await show(turn, garden.answer_id)
    assert await page(turn) == ["Tidy the garden 2/2", "Garden answer"]


async def test_try_again_is_for_the_answer_that_is_shown(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append(text("Half", reason="length"))
    await wait_for_rest(runtime, turn)
    await in_database(Turn.objects.filter(pk=turn.pk).update, state=Turn.State.FAILED)
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")
    await show(turn, turn.question_id)
    owner, chat = turn.conversation.owner, turn.conversation
    restarted = await in_database(retry.ask_again, chat, owner, scripted.MODEL)
    assert restarted.pk == turn.pk


async def test_the_gauge_is_about_the_branch_that_is_shown(
    runtime: EngineRuntime, turn: Turn
) -> None:
    async def ask(asked: Turn | Awaitable[Turn], tokens: int) -> None:
        used = Usage(input_tokens=tokens)
        scripted.scenes.append([TextDelta(text="Done"), used, Finished(reason="stop")])
        await wait_for_rest(runtime, asked if isinstance(asked, Turn) else await asked)

    await ask(turn, 700)
    await ask(edit(turn, "Tidy the garden"), 300)
    gauge = await in_database(load_gauge, turn.conversation)
    assert (gauge.tokens, gauge.total_tokens) == (300, 1000)
    await show(turn, turn.question_id)
    gauge = await in_database(load_gauge, turn.conversation)
    assert (gauge.tokens, gauge.total_tokens) == (700, 1000)


# --- attachments -----------------------------------------------------------------------------
def send_with_files(owner: Member) -> Turn:
    part = ResourcePart(uri="notes://1", mime_type="text/plain", text="Dear reader.")
    resource = attachments.store_draft(
        owner, rows.service(), "notes://1", "Letter", ResourceContents(parts=(part,))
    )
    file = uploads.keep_file(owner, uploads.Upload(name="plan.txt", size=11, data=b"Dig a pond."))
    files = [resource.pk, file.pk]
    return intake.receive(owner, None, text="Read them", model=scripted.MODEL, attachments=files)


async def test_an_edited_message_keeps_its_attachments_and_so_does_the_earlier_version(
    runtime: EngineRuntime, owner: Member
) -> None:
    first = await in_database(send_with_files, owner)
    await answer(runtime, first, "Read.")
    await answer(runtime, edit(first, "Read them aloud"), "Read aloud.")
    await show(first, first.question_id)
    await answer(runtime, answer_again(first), "Read once more.")

    assert len(scripted.requests) == 3
    for request in scripted.requests:
        told = "".join(item.text for item in request.history if isinstance(item, UserMessage))
        assert "Dear reader." in told
        assert "Dig a pond." in told
    assert await in_database(Attachment.objects.filter(part=None).count) == 0
    assert await in_database(Attachment.objects.count) == 4


# --- open pages ------------------------------------------------------------------------------
async def test_open_pages_and_those_that_come_back_show_what_a_reload_shows(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    late = await in_database(whole_page, turn.conversation)
    feed, tab = await watched(turn)

    async def assert_current() -> None:
        await told(feed, turn)
        await caught_up(tab, turn.conversation)
        await assert_as_reloaded(tab, turn.conversation)

    try:
        other = await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")
        await assert_current()
        await answer(runtime, answer_again(other), "Another answer")
        await assert_current()
        await show(turn, turn.question_id)
        await assert_current()
        await answer(runtime, send(turn, "And then?"), "Done")
        await assert_current()
    finally:
        feed.close()
    feed, _late = await watched(turn, late)
    feed.close()
    await assert_as_reloaded(late, turn.conversation)


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(5))
async def test_any_order_of_acts_leaves_one_branch_and_the_same_on_every_page(
    runtime: EngineRuntime, turn: Turn, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same acts for each seed
    await answer(runtime, turn, "Answer 0")
    turns = [turn]
    feed, tab = await watched(turn)
    try:
        for number in range(1, 16):
            act = chance.choice(["edit", "again", "send", "show", "show"])
            shown = [each for each in turns if await in_database(is_shown, each)]
            if act == "show":
                other = chance.choice(turns)
                await show(turn, chance.choice([other.question_id, other.answer_id]))
            else:
                about = chance.choice(shown)
                make = {"edit": edit, "send": send}.get(act)
                asked = make(about, f"Words {number}") if make else answer_again(about)
                turns.append(await answer(runtime, asked, f"Answer {number}"))
            await in_database(assert_one_branch, turn.conversation_id)
            await told(feed, turn)
            await caught_up(tab, turn.conversation)
            await assert_as_reloaded(tab, turn.conversation)
    finally:
        feed.close()


def is_shown(turn: Turn) -> bool:
    return Message.objects.get(pk=turn.answer_id).is_shown


def assert_one_branch(conversation_id: uuid.UUID) -> None:
    """The shown messages lead from the first to one that nothing follows."""
    messages = Message.objects.filter(conversation=conversation_id)
    shown = list(messages.filter(is_shown=True).order_by("created_seq"))
    before = None
    for message in shown:
        assert message.parent_id == before
        before = message.pk
    assert before is not None
    assert not messages.filter(parent=before).exists()


# --- tool calls ------------------------------------------------------------------------------
async def test_an_edit_withdraws_the_open_approval_and_the_call_does_not_run(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    scripted.scenes.append(calls(DELETE))
    await wait_for_rest(runtime, turn)
    await answer(runtime, edit(turn, "Never mind"), "Fine.")

    call = await get_only_call(turn)
    assert (call.state, call.approval.state) == ("withdrawn", Approval.State.WITHDRAWN)
    assert call.sent_at is None
    assert await page(turn) == ["Never mind 2/2", "Fine."]


async def test_one_button_does_not_cancel_an_open_approval(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    await answer(runtime, turn, "First answer")
    scripted.scenes.append(calls(DELETE))
    waiting = await wait_for_rest(runtime, await send(turn, "Delete it"))
    for act in (answer_again(turn), show(turn, turn.answer_id)):
        with pytest.raises(Refused, match="open request") as refused:
            await act
        assert refused.value.status == 409
    assert await in_database(lambda: versions.has_open_request(find(turn)))
    call = await get_only_call(waiting)
    assert call.approval.state == Approval.State.OPEN
    await answer(runtime, edit(turn, "Never mind"), "Fine.")
    assert await in_database(read_notices, waiting) == [
        "You edited a message, so the open request was cancelled."
    ]


async def test_the_form_says_how_many_calls_have_run_and_a_hidden_call_is_found(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    scripted.scenes += [calls(("notebook_list_notes", "{}")), text("Listed.")]
    await wait_for_rest(runtime, turn)
    assert await in_database(lambda: versions.count_sent_calls(find(turn))) == 1
    await answer(runtime, edit(turn, "Never mind"), "Fine.")
    assert await in_database(lambda: versions.count_sent_calls(find(turn))) == 0

    def open_call() -> str:
        call = ToolCall.objects.get(turn=turn)
        address = build_call_address(call)
        assert f"?version={turn.answer_id}#" in address
        return signed_in(turn.conversation.owner).get(address).content.decode()

    html = await in_database(open_call)
    assert "Listed." in html
    assert "Fine." not in html
    assert parse(html).button("Switch to this version")["value"] == str(turn.answer_id)
    assert "Edit message" not in html


async def test_a_version_opens_for_its_person_and_in_its_chat_only(
    runtime: EngineRuntime, turn: Turn, stranger: Member
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")

    def status(person: Member, chat: uuid.UUID, message: object) -> int:
        return signed_in(person).get(f"/c/{chat}/?version={message}").status_code

    def check() -> None:
        owner, chat, hidden = turn.conversation.owner, turn.conversation_id, turn.answer_id
        other = rows.turn(owner, Turn.State.DONE)
        shown = Message.objects.get(conversation=chat, is_shown=True, role="assistant")
        assert status(owner, chat, hidden) == 200
        assert status(stranger, chat, hidden) == 404
        assert status(owner, other.conversation_id, hidden) == 404
        assert status(owner, chat, uuid.uuid4()) == 404
        assert status(owner, chat, "no-id") == 404
        assert status(owner, chat, shown.pk) == 302  # it is on the page of the chat
        switched = signed_in(owner).post(f"/c/{chat}/version", {"message": str(hidden)})
        assert (switched.status_code, switched["location"]) == (302, f"/c/{chat}/")

    await in_database(check)


async def test_parts_of_a_long_chat_are_counted_on_the_branch_that_is_shown(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")

    def hide_many() -> None:
        for number in range(PART_LENGTH):
            hidden = rows.turn(turn.conversation.owner, Turn.State.DONE, text=f"Hidden {number}")
            for message in (hidden.question, hidden.answer):
                seq = 1_000 + number
                Message.objects.filter(pk=message.pk).update(
                    conversation=turn.conversation, is_shown=False, created_seq=seq
                )
        first = Message.objects.get(pk=turn.question_id)
        assert find_part(first) is None
        assert find_later_part(turn.conversation, first.created_seq) is None

    await in_database(hide_many)


# --- what reads a chat -----------------------------------------------------------------------
async def test_a_plan_of_another_version_is_not_ticked(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes += [calls(asked_for("make-plan", steps=["Dig", "Plant"])), text("Planned.")]
    await wait_for_rest(runtime, turn)
    scripted.scenes += [calls(asked_for("make-plan", done=[1])), text("No plan.")]
    await wait_for_rest(runtime, await edit(turn, "Tidy the garden"))
    plan = await in_database(Plan.objects.get)
    assert [step["state"] for step in plan.steps] == ["open", "open"]
    assert "no plan yet" in read_last_outcome()


async def test_tools_and_links_find_what_is_shown(runtime: EngineRuntime, turn: Turn) -> None:
    await answer(runtime, turn, "An orange bicycle")
    await answer(runtime, edit(turn, "Tidy the garden"), "A green bicycle")

    def read() -> None:
        here = rows.turn(turn.conversation.owner, Turn.State.DONE)
        context = Context(person=turn.conversation.owner, catalogue=Catalogue(), turn=here)
        asked = read_conversation.Input(conversation=str(turn.conversation_id))
        said = [each.text for each in read_conversation.read(context, asked).messages]
        assert said == ["Tidy the garden", "A green bicycle"]
        for words, count in (("orange", 0), ("green", 1)):
            asked_words = search_conversations.Input(words=words)
            assert len(search_conversations.read(context, asked_words).found) == count
            found = search_chats(turn.conversation.owner, Search(text=words))
            assert len(found.chats) == 1  # the person finds both

    await in_database(read)


async def test_an_undone_summary_stays_undone_for_another_answer(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    chat = turn.conversation

    def undo() -> None:
        notice = rows.said(turn, "A summary is used.", kind="notice", notice_kind="summary")
        Summary.objects.create(
            conversation=chat, part=notice, turns=1, text="Notes", model="m", is_used=False
        )

    await in_database(undo)
    await answer(runtime, answer_again(turn), "Second answer")
    assert await in_database(summaries.was_undone, chat)


async def test_what_an_app_of_a_hidden_version_asks_is_refused(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    scripted.scenes += [calls(("notebook_list_notes", "{}")), text("Listed.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    await answer(runtime, edit(turn, "Never mind"), "Fine.")

    def ask() -> None:
        shown = ToolCall.objects.select_related("turn__conversation").get(pk=call.pk)
        definition = ToolDefinition.objects.get(name="list_notes")
        apps._accept(turn.conversation.owner, shown, definition, "{}")

    with pytest.raises(Refused, match="another version"):
        await in_database(ask)
    assert await in_database(ToolCall.objects.count) == 1


async def test_what_begins_without_a_model_follows_the_version_that_is_shown(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")
    await show(turn, turn.question_id)

    def begin() -> ToolCall:
        with transaction.atomic():
            return direct_calls.begin_turn(
                turn.conversation,
                words="An app asks.",
                turn={"model": scripted.MODEL},
                call={"tool_id": "current-time", "tool_name": "current-time", "arguments": "{}"},
            )

    call = await in_database(begin)
    assert call.turn.question.parent_id == turn.answer_id
    await in_database(assert_one_branch, turn.conversation_id)


async def test_a_late_frame_of_another_branch_makes_pages_load_the_state(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """Another process renders the event when the answer on the branch has begun again."""
    await answer(runtime, turn, "First answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")
    tab = gone(await in_database(whole_page, turn.conversation))
    feed, _tab = await watched(turn, tab)
    try:
        await show(turn, turn.answer_id)
        await in_database(Turn.objects.filter(pk=turn.pk).update, state=Turn.State.RUNNING)
        await told(feed, turn)
        async with asyncio.timeout(60):
            while not tab.drops:
                tab.moved.clear()
                await tab.moved.wait()
        await feed.join(tab, tab.last)
        await assert_as_reloaded(tab, turn.conversation)
    finally:
        feed.close()


# --- at the same moment ----------------------------------------------------------------------
async def test_a_message_and_a_switch_at_the_same_moment_leave_one_branch(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")

    def race(number: int) -> None:
        shown = Message.objects.filter(
            conversation=turn.conversation_id, parent=None, is_shown=True
        )
        other = Message.objects.filter(conversation=turn.conversation_id, parent=None).exclude(
            pk__in=shown.values("pk")
        )
        together = Barrier(2)

        def switch() -> None:
            together.wait(60)
            with contextlib.suppress(Refused):  # the message was first
                versions.show_version(turn.conversation, other.get().pk)

        def write() -> None:
            together.wait(60)
            owner, chat = turn.conversation.owner, turn.conversation
            intake.receive(owner, chat, text=f"Words {number}", model=scripted.MODEL)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(_close_after, act) for act in (switch, write)]:
                done.result(60)

    for number in range(20):
        await in_database(race, number)
        await in_database(assert_one_branch, turn.conversation_id)
        made = await in_database(Turn.objects.order_by("-created_at").first)
        assert made is not None
        await answer(runtime, made, f"Answer {number}")


def _close_after(act: Callable[[], None]) -> None:
    try:
        act()
    finally:
        connection.close()


# --- what is refused -------------------------------------------------------------------------
@pytest.mark.parametrize("words", ["", "  ", "x" * 200_001, "a\x00b"])
async def test_a_bad_text_changes_nothing(
    runtime: EngineRuntime, turn: Turn, words: str, settings: Any
) -> None:
    settings.MESSAGE_MAX_CHARACTERS = 200_000
    await answer(runtime, turn, "First answer")
    with pytest.raises(Refused):
        await edit(turn, words)
    assert await page(turn) == [FIRST, "First answer"]
    assert await in_database(Message.objects.count) == 2


async def test_nothing_is_changed_while_the_assistant_works(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    pause = Pause()
    scripted.scenes.append([pause, *text("Second answer")])
    second = await send(turn, "And then?")
    running = asyncio.create_task(wait_for_rest(runtime, second))
    await pause.reached.wait()
    for act in (edit(turn, "Stop"), answer_again(turn), show(turn, turn.question_id)):
        with pytest.raises(Refused) as refused:
            await act
        assert refused.value.status == 409
    pause.ended.set()
    await running
    assert await page(turn) == [FIRST, "First answer", "And then?", "Second answer"]


async def test_a_message_that_another_tab_has_edited_is_not_edited_again(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await answer(runtime, turn, "First answer")
    await answer(runtime, edit(turn, "Tidy the garden"), "Garden answer")
    for act in (edit(turn, "Tidy the shed"), answer_again(turn)):
        with pytest.raises(Refused, match="reload the page") as refused:
            await act
        assert refused.value.status == 409
    assert await page(turn) == ["Tidy the garden 2/2", "Garden answer"]


async def test_the_same_edit_sent_twice_is_one_version(runtime: EngineRuntime, turn: Turn) -> None:
    await answer(runtime, turn, "First answer")
    client_id = uuid.uuid4()
    first = await answer(
        runtime, edit(turn, "Tidy the garden", client_id=client_id), "Garden answer"
    )
    assert await edit(turn, "Tidy the garden", client_id=client_id) == first
    assert await page(turn) == ["Tidy the garden 2/2", "Garden answer"]


def test_messages_of_others_and_of_programs_cannot_be_edited(
    turn: Turn, stranger: Member, owner: Member
) -> None:
    other = intake.receive(owner, None, text="Another chat", model=scripted.MODEL)
    for person, chat, message in (
        (stranger, turn.conversation_id, turn.question_id),
        (owner, other.conversation_id, turn.question_id),
        (owner, turn.conversation_id, turn.answer_id),
        (owner, turn.conversation_id, uuid.uuid4()),
    ):
        with pytest.raises(Http404):
            versions.find_message(person, chat, message)
    token, _text = access_tokens.create(owner, name="Job", scopes=("chat",), days=7)
    Turn.objects.filter(pk=turn.pk).update(token=token)
    with pytest.raises(Http404):
        find(turn)


def test_a_version_of_another_chat_is_not_found(turn: Turn, owner: Member) -> None:
    Turn.objects.update(state=Turn.State.DONE)
    other = intake.receive(owner, None, text="Another chat", model=scripted.MODEL)
    for message_id in (other.question_id, uuid.uuid4()):
        with pytest.raises(Http404):
            versions.show_version(turn.conversation, message_id)


# --- pages -----------------------------------------------------------------------------------
def test_the_form_works_without_a_script_and_keeps_what_was_typed(
    turn: Turn, owner: Member
) -> None:
    client, address = signed_in(owner), f"/c/{turn.conversation_id}/messages/{turn.question_id}/"
    form = parse(client.get(f"{address}edit").content.decode())
    assert form.one("textarea").text == FIRST

    sent = {"text": "Tidy the garden", "client_id": str(uuid.uuid4())}
    refused = client.post(f"{address}edit", sent)
    assert refused.status_code == 409  # the turn runs
    page = parse(refused.content.decode())
    assert page.one("textarea").text == "Tidy the garden"
    assert "still working" in page.one("p", role="alert").text

    Turn.objects.update(state=Turn.State.DONE)
    accepted = client.post(f"{address}edit", sent)
    assert (accepted.status_code, accepted["location"]) == (302, f"/c/{turn.conversation_id}/")
    assert "Tidy the garden" in client.get(accepted["location"]).content.decode()


def test_a_page_without_a_place_for_the_new_messages_is_left(turn: Turn, owner: Member) -> None:
    Turn.objects.update(state=Turn.State.DONE)
    chat = f"/c/{turn.conversation_id}/"
    address, sent = f"{chat}messages/{turn.question_id}/edit", {"text": "Tidy the garden"}
    older = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{chat}?before=9"}
    accepted = signed_in(owner).post(address, sent, headers=older)
    assert (accepted.status_code, accepted["HX-Redirect"]) == (200, chat)
    form = parse(signed_in(owner).get(address).content.decode()).one("form", class_="edit")
    assert not [name for name in form.attributes if name.startswith("hx-")]


def test_a_closed_form_shows_the_message_again(turn: Turn, owner: Member) -> None:
    address = f"/c/{turn.conversation_id}/messages/{turn.question_id}/edit?show"
    html = signed_in(owner).get(address, headers={"HX-Request": "true"}).content.decode()
    assert FIRST in html
    assert "<textarea" not in html


def test_a_summary_counts_on_its_branch_only(turn: Turn) -> None:
    chat = turn.conversation
    notice = rows.said(turn, "A summary is used.", kind="notice", notice_kind="summary")
    made = Summary.objects.create(
        conversation=chat, part=notice, turns=1, text="Notes", model=scripted.MODEL
    )
    assert summaries.load_summary(chat) == made
    Message.objects.filter(pk=turn.answer_id).update(is_shown=False)
    assert summaries.load_summary(chat) is None
    assert Summary.find_widest(chat.pk) is None
