"""Forks: what a copy of a chat has, what models read of it, and what it must not have."""

import json
import uuid
from typing import Any

import pytest
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from chatapp.admin.activity.conversations import describe_part
from chatapp.context import attachments
from chatapp.context.unsupported_media import _was_told_before
from chatapp.conversations import chat_list, forks, intake, uploads, versions
from chatapp.conversations.forks import list_messages_up_to
from chatapp.conversations.search import Search, search_chats
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_view import open_conversation
from chatapp.models import (
    Attachment,
    Consent,
    Conversation,
    LogEntry,
    Member,
    Memory,
    Message,
    Part,
    Review,
    Step,
    ToolCall,
    ToolSwitch,
    Turn,
)
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.people.refused import Refused
from chatapp.policy.stored_policy import find_taint_before
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    ToolOutcome,
    UserMessage,
)
from chatapp.server.database import in_database
from chatapp.sharing import copies
from chatapp.tools.taint import find_taint_of_chats
from mcpconfig.models import Service
from mcpconfig.values.results import ResourceContents, ResourcePart
from tests import scripted
from tests.chatapp.imports.acts import import_chat
from tests.chatapp.imports.samples import CHATGPT, to_json
from tests.chatapp.sharing.acts import share
from tests.chatapp.tools.core import core_calls
from tests.conftest import signed_in
from tests.scripted import calls, text
from tests.turns import rows
from tests.turns.acts import READ, get_only_call, wait_for_rest
from tests.turns.tabs import whole_page

pytestmark = pytest.mark.django_db(transaction=True)
RESULT = {"content": [{"type": "text", "text": "Sell the boat."}]}


def fork(turn: Turn) -> Conversation:
    owner = turn.conversation.owner
    return forks.fork_chat(forks.find_answer(owner, turn.conversation_id, turn.answer_id))


def read_copies(chat: Conversation) -> list[str]:
    """Return the words of each message in order, and check that each follows the one before."""
    messages = list(chat.messages.order_by("created_seq"))
    for before, message in zip([None, *messages], messages, strict=False):
        assert message.parent == before
    return [
        " ".join(part.text for part in message.parts.filter(kind="text")) for message in messages
    ]


async def ask(runtime: EngineRuntime, chat: Conversation, words: str) -> Turn:
    """Send a message in this chat and wait for the answer “Fine.”"""

    def receive() -> Turn:
        return intake.receive(chat.owner, chat, text=words, model=scripted.MODEL)

    scripted.scenes.append(text("Fine."))
    return await wait_for_rest(runtime, await in_database(receive))


# --- what is copied --------------------------------------------------------------------------
def test_a_fork_has_the_messages_up_to_the_answer_and_the_old_chat_stays(owner: Member) -> None:
    turns = rows.turns_of_chat(owner, 3)
    source = turns[0].conversation
    made = fork(turns[1])

    words = ["Question 0.", "Answer 0.", "Question 1.", "Answer 1."]
    assert read_copies(made) == words
    assert read_copies(source) == [*words, "Question 2.", "Answer 2."]
    assert (made.forked_from, made.title) == (turns[1].answer_id, "Fork of Long")
    assert not made.title_is_draft
    times = made.messages.order_by("created_seq").values_list("created_at", flat=True)
    first = source.messages.order_by("created_seq").values_list("created_at", flat=True)
    assert list(times) == list(first)[:4]


def test_a_fork_follows_the_branch_of_its_answer(owner: Member) -> None:
    turns = rows.turns_of_chat(owner, 2)
    chat, first = turns[0].conversation, turns[0]
    other = Message.objects.create(
        conversation=chat, parent=first.question, role="assistant", created_seq=9, is_shown=False
    )
    hidden = Turn.objects.create(
        conversation=chat, question=first.question, answer=other, model=rows.MODEL, state="done"
    )
    rows.said(hidden, "Another answer.")
    assert read_copies(fork(hidden)) == ["Question 0.", "Another answer."]


def test_the_model_the_mode_the_effort_and_the_switches_are_those_of_the_chat(
    owner: Member,
) -> None:
    turn = rows.turn(owner, "done")
    values = {"mode": "plan", "uses_tools": False, "effort": "high", "model": "demo:other"}
    values |= {"instructions": "Be brief.", "is_temporary": True}
    Conversation.objects.filter(pk=turn.conversation_id).update(**values)
    ToolSwitch.objects.create(
        person=owner, conversation=turn.conversation, service=rows.service(), is_on=False
    )
    made = fork(turn)

    assert {name: getattr(made, name) for name in values} == values
    switch = ToolSwitch.objects.get(conversation=made)
    assert (switch.service, switch.is_on, switch.person) == (rows.service(), False, owner)
    assert ToolSwitch.objects.filter(conversation=turn.conversation_id).count() == 1
    entry = LogEntry.objects.get(kind=LogEntry.Kind.MODE, conversation_id=made.pk)
    assert json.loads(entry.data)["mode"] == "plan"


def test_a_consent_of_one_chat_does_not_count_in_its_fork(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    Consent.objects.create(
        person=owner,
        service=rows.service(),
        scope=Consent.Scope.CONVERSATION,
        conversation=turn.conversation,
        definitions={},
    )
    made = fork(turn)
    assert not Consent.objects.filter(conversation=made).exists()


def test_attachments_are_copied_with_their_bytes(owner: Member) -> None:
    part = ResourcePart(uri="notes://1", mime_type="text/plain", text="Dear reader.")
    resource = attachments.store_draft(
        owner, rows.service(), "notes://1", "Letter", ResourceContents(parts=(part,))
    )
    file = uploads.keep_file(owner, uploads.Upload(name="plan.txt", size=11, data=b"Dig a pond."))
    turn = rows.turn(owner, "done")
    attachments.attach_to_message(turn.question, [resource, file])
    made = fork(turn)

    copies = Attachment.objects.filter(part__message__conversation=made).order_by("name")
    assert [each.name for each in copies] == ["Letter", "plan.txt"]
    assert bytes(copies[1].file.data) == b"Dig a pond."
    assert not {each.pk for each in copies} & {resource.pk, file.pk}
    chat_list.delete(turn.conversation)
    turn.conversation.delete()
    answer = signed_in(owner).get(reverse("attachment", args=[copies[1].pk]))
    assert "Dig a pond." in answer.content.decode()


def test_notices_and_steps_that_were_repeated_are_left_out(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    rows.said(turn, "Half an ans")
    rows.said(turn, "The service was down.", "notice")
    Step.objects.filter(turn=turn).update(state=Step.State.INTERRUPTED)
    Step.objects.create(turn=turn, number=2, state="done")
    Part.objects.create(message=turn.answer, step=2, position=0, kind="text", text="An answer.")
    assert read_copies(fork(turn)) == ["Hello", "An answer."]


def test_the_title_of_a_fork_is_never_too_long_and_is_kept_by_its_own_forks(owner: Member) -> None:
    turn = rows.turn(owner, "done", text="x" * 80)
    made = fork(turn)
    assert made.title == f"Fork of {'x' * 72}"
    asked = intake.receive(owner, made, text="Go on", model=rows.MODEL)
    Turn.objects.filter(pk=asked.pk).update(state="done")
    again = fork(asked)
    assert again.title == made.title
    assert read_copies(again) == ["x" * 80, "", "Go on", ""]


# --- forks of copies -------------------------------------------------------------------------
def fork_copy(chat: Conversation, place: int) -> Conversation:
    """Fork a chat at the copied answer at this place of the branch that is shown."""
    answer = chat.messages.filter(is_shown=True).order_by("created_seq")[place]
    assert not Turn.objects.filter(answer=answer).exists()
    return forks.fork_chat(forks.find_answer(chat.owner, chat.pk, answer.pk))


def test_a_fork_of_a_fork_has_the_copies_up_to_its_answer(owner: Member) -> None:
    turns = rows.turns_of_chat(owner, 3, calls=1)
    values = {"tainted_by": "wiki", "model": "demo:other", "mode": "plan"}
    first = fork(turns[2])
    Conversation.objects.filter(pk=first.pk).update(**values)
    first.refresh_from_db()
    again = fork_copy(first, 3)

    assert read_copies(again) == ["Question 0.", "Answer 0.", "Question 1.", "Answer 1."]
    assert {name: getattr(again, name) for name in values} == values
    answer = first.messages.get(parts__text="Answer 1.")
    assert (again.forked_from, again.title) == (answer.pk, "Fork of Long")
    calls = Part.objects.filter(message__conversation=again, kind="copied_call")
    kept = Part.objects.filter(message__in=list_messages_up_to(answer), kind="copied_call")
    of_fork, of_first = (
        sorted(map(json.dumps, each))
        for each in (
            calls.values_list("copied_call", flat=True),
            kept.values_list("copied_call", flat=True),
        )
    )
    assert of_fork == of_first and len(of_fork) == 2
    assert ToolCall.objects.count() == 3
    assert not Turn.objects.filter(conversation__in=[first, again]).exists()
    page = whole_page(again).soup
    [link] = page.select(".fork-source a")
    assert (link.get_text(), link["href"]) == (
        "Fork of Long",
        reverse("open-message", args=[answer.pk]),
    )


def test_a_fork_of_an_imported_chat_keeps_where_it_is_from_and_its_mark(owner: Member) -> None:
    chat = import_chat(owner, to_json(CHATGPT))
    made = fork_copy(chat, 1)
    assert (made.title, made.imported_from, made.is_shared_copy) == (
        "Fork of Ponds",
        "ChatGPT",
        True,
    )
    assert made.tainted_by == find_taint_of_chats([made.pk]) == "chat imported from ChatGPT"
    assert read_copies(made)[1] == "It is **four** metres deep."
    assert "Forked from" in whole_page(made).soup.get_text()
    chat_list.delete(chat)
    assert "Imported from ChatGPT" in whole_page(made).soup.get_text()
    again = fork_copy(made, 1)
    assert (again.title, again.imported_from, again.is_shared_copy, again.tainted_by) == (
        *("Fork of Ponds", "ChatGPT", True),
        made.tainted_by,
    )


def test_a_hidden_copied_answer_is_forked_on_its_own_branch(owner: Member) -> None:
    chat = import_chat(owner, to_json(CHATGPT))
    hidden = chat.messages.get(parts__text="About a metre.")
    made = forks.fork_chat(forks.find_answer(owner, chat.pk, hidden.pk))
    assert read_copies(made)[1:] == ["About a metre."]


def test_a_fork_of_a_continued_shared_chat_keeps_its_mark(owner: Member, stranger: Member) -> None:
    turns = rows.turns_of_chat(stranger, 2)
    copy = copies.continue_chat(share(turns[0].conversation), owner)
    made = fork_copy(copy, 1)
    assert (made.owner, made.title, made.is_shared_copy) == (owner, "Fork of Long", True)
    assert made.tainted_by == copy.tainted_by == "chat shared by stranger"
    assert read_copies(made) == ["Question 0.", "Answer 0."]


async def test_a_fork_follows_an_edited_copy(runtime: EngineRuntime, owner: Member) -> None:
    def begin() -> Turn:
        first = fork(rows.turns_of_chat(owner, 2)[1])
        second = first.messages.get(parts__text="Question 1.")
        found = versions.find_message(owner, first.pk, second.pk)
        return versions.edit_message(owner, found, text="And then?", model=scripted.MODEL)

    scripted.scenes.append(text("Fine."))
    turn = await wait_for_rest(runtime, await in_database(begin))

    def check() -> None:
        words = ["Question 0.", "Answer 0.", "And then?", "Fine."]
        assert read_copies(fork(turn)) == words
        assert read_copies(fork_copy(turn.conversation, 1)) == words[:2]

    await in_database(check)


def test_a_renamed_fork_gives_its_name_to_its_own_forks(owner: Member) -> None:
    made = fork(rows.turns_of_chat(owner, 1)[0])
    Conversation.objects.filter(pk=made.pk).update(title="Boats")
    made.refresh_from_db()
    assert fork_copy(made, 1).title == "Fork of Boats"


def test_search_finds_what_was_copied(owner: Member) -> None:
    made = fork(rows.turns_of_chat(owner, 2)[0])
    found = search_chats(owner, Search(text="Question")).chats
    assert made.pk in {each.conversation.pk for each in found}


# --- calls -----------------------------------------------------------------------------------
def test_a_call_is_copied_as_text_and_is_no_call_of_the_fork(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    call = rows.call(turn, {"title": "Old ideas"}, result=RESULT)
    before = LogEntry.objects.count()
    made = fork(turn)

    assert ToolCall.objects.count() == 1
    assert not Turn.objects.filter(conversation=made).exists()
    assert LogEntry.objects.count() == before
    part = Part.objects.get(message__conversation=made, kind="copied_call")
    assert CopiedCall.read(part.copied_call) == CopiedCall(
        call_id=call.provider_call_id,
        tool_id="notebook_delete_note",
        arguments='{"title": "Old ideas"}',
        changed_arguments="",
        outcome="Sell the boat.",
        is_error=False,
        title="Delete note",
        service="Demo notebook",
        state="succeeded",
        result_of=rows.service().pk,
    )
    assert describe_part(part) == "notebook_delete_note: done"


async def test_a_model_reads_in_a_fork_what_it_read_in_the_chat(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    scripted.scenes.extend([calls(READ), text("It says so.")])
    await wait_for_rest(runtime, turn)
    await ask(runtime, turn.conversation, "And now?")
    there = scripted.requests[-1]
    made = await in_database(fork, turn)
    await ask(runtime, made, "And now?")
    here = scripted.requests[-1]

    assert here.history == there.history
    kinds = [type(each) for each in here.history]
    assert kinds == [
        UserMessage,
        AssistantMessage,
        ToolOutcome,
        AssistantMessage,
        UserMessage,
    ]


async def test_no_id_of_a_call_stands_twice_in_the_history_of_a_fork(
    runtime: EngineRuntime, owner: Member, notebook: Service
) -> None:
    def build() -> Turn:
        turn = rows.turn(owner, "done")
        rows.call(turn, {"title": "Old ideas"}, provider_call_id="call_0_0")
        return intake.receive(owner, fork(turn), text="Read it", model=scripted.MODEL)

    asked = await in_database(build)
    scripted.scenes.extend([calls(READ), text("Done.")])
    await wait_for_rest(runtime, asked)
    ids = [each.call_id for each in scripted.requests[-1].history if isinstance(each, ToolOutcome)]
    assert len(ids) == len(set(ids)) == 2


def test_the_tools_of_copied_answers_are_named_to_a_model_that_reads_the_chat(
    owner: Member,
) -> None:
    turn = rows.turn(owner, "done")
    rows.call(turn, {})
    messages = core_calls.run("read-conversation", owner, conversation=str(fork(turn).pk))
    assert [each["tools"] for each in messages["messages"]] == [[], ["notebook_delete_note"]]


async def test_a_model_without_pictures_says_that_it_does_not_see_the_copied_ones(
    owner: Member,
) -> None:
    def build() -> tuple[bool, bool]:
        turn = rows.turn(owner, "done")
        first = intake.receive(owner, None, text="New", model=rows.MODEL)
        asked = intake.receive(owner, fork(turn), text="Go on", model=rows.MODEL)
        return _was_told_before(first), _was_told_before(asked)

    assert await in_database(build) == (True, False)


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"state": "denied"}, "Denied by the person."),
        ({"state": "unknown"}, "The outcome is unknown."),
        (
            {"asked_arguments": '{"title": "New ideas"}', "result": RESULT},
            '[The person changed the values before it ran, to: {"title": "Old ideas"}]\n'
            "Sell the boat.",
        ),
    ],
)
async def test_a_model_reads_each_outcome(
    runtime: EngineRuntime, owner: Member, values: dict[str, Any], outcome: str
) -> None:
    def build() -> Conversation:
        turn = rows.turn(owner, "done")
        rows.call(turn, {"title": "Old ideas"}, **values)
        return fork(turn)

    await ask(runtime, await in_database(build), "And now?")
    history = scripted.requests[-1].history
    asked = next(each for each in history if isinstance(each, AssistantMessage)).parts[0]
    told = next(each for each in history if isinstance(each, ToolOutcome))
    assert isinstance(asked, AskedTool)
    assert asked.arguments == values.get("asked_arguments", '{"title": "Old ideas"}')
    assert told.text.startswith(outcome)
    assert asked.call_id == told.call_id


def test_a_result_that_a_person_withheld_is_not_in_the_fork(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    call = rows.call(turn, {}, result=RESULT)
    Review.objects.create(
        tool_call=call, binding="x", expires_at=timezone.now(), state=Review.State.HELD_BACK
    )
    made = fork(turn)
    part = Part.objects.get(message__conversation=made, kind="copied_call")
    assert "boat" not in json.dumps(part.copied_call)
    assert "withheld" in CopiedCall.read(part.copied_call).outcome


# --- untrusted content -----------------------------------------------------------------------
def test_a_fork_stays_marked_by_untrusted_content(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    rows.call(turn, {}, result=RESULT, tainted_by="wiki")
    made = fork(turn)
    assert made.tainted_by == "wiki"
    asked = intake.receive(owner, made, text="Go on", model=rows.MODEL)
    call = rows.call(asked, {}, "proposed")
    assert find_taint_before(asked, call, in_whole_chat=True) == "wiki"
    Turn.objects.filter(pk=asked.pk).update(state="done")
    assert fork(asked).tainted_by == "wiki"


def test_a_mark_of_an_attachment_is_kept(owner: Member) -> None:
    part = ResourcePart(uri="wiki://1", mime_type="text/plain", text="Dear reader.")
    letter = attachments.store_draft(
        owner,
        rows.service("wiki", is_open=True),
        "wiki://1",
        "Page",
        ResourceContents(parts=(part,)),
    )
    turn = rows.turn(owner, "done")
    attachments.attach_to_message(turn.question, [letter])
    assert fork(turn).tainted_by == "wiki"


def test_results_of_a_service_that_is_opened_later_mark_the_fork(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    rows.call(turn, {}, result=RESULT)
    made = fork(turn)
    assert find_taint_of_chats([made.pk]) == ""
    Service.objects.update(is_open=True)
    assert find_taint_of_chats([made.pk]) == "notebook"
    asked = intake.receive(owner, made, text="Go on", model=rows.MODEL)
    call = rows.call(asked, {}, "proposed")
    assert find_taint_before(asked, call, in_whole_chat=True) == "notebook"


def test_a_fork_of_a_chat_without_untrusted_content_has_no_mark(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    rows.call(turn, {}, result=RESULT)
    assert fork(turn).tainted_by == ""


async def test_what_is_remembered_in_a_fork_keeps_the_mark(
    runtime: EngineRuntime, owner: Member
) -> None:
    def build() -> Turn:
        turn = rows.turn(owner, "done")
        rows.call(turn, {}, result=RESULT, tainted_by="wiki")
        return intake.receive(owner, fork(turn), text="Remember it", model=scripted.MODEL)

    asked = await in_database(build)
    scripted.scenes.extend([calls(("remember", '{"text": "Ada sells boats."}')), text("Done.")])
    await wait_for_rest(runtime, asked)
    call = await get_only_call(asked)
    # It asks despite its low risk, because of what the first chat read.
    assert call.state == "awaiting_approval"
    assert "wiki" in json.dumps([call.reasons, call.why])
    assert await in_database(Memory.objects.count) == 0


# --- who may fork what -----------------------------------------------------------------------
def test_only_answers_of_ones_own_chats_are_found(owner: Member, ada: Member) -> None:
    turn = rows.turn(owner, "done")
    chat = turn.conversation_id
    of_program = rows.turn(owner, "done", app_of=rows.call(turn, {}))
    for person, place, answer in [
        (ada, chat, turn.answer_id),
        (owner, chat, turn.question_id),
        (owner, uuid.uuid4(), turn.answer_id),
        (owner, of_program.conversation_id, of_program.answer_id),
    ]:
        with pytest.raises(Http404):
            forks.find_answer(person, place, answer)
    chat_list.delete(turn.conversation)
    with pytest.raises(Http404):
        forks.find_answer(owner, chat, turn.answer_id)


@pytest.mark.parametrize("state", Turn.LIVE)
def test_a_chat_is_not_forked_while_the_assistant_works_or_waits(owner: Member, state: str) -> None:
    turn = rows.turn(owner, state)
    with pytest.raises(Refused) as refused:
        fork(turn)
    assert refused.value.status == 409
    assert Conversation.objects.count() == 1


def test_a_chat_with_messages_of_a_program_is_not_forked(owner: Member) -> None:
    turn = rows.turns_of_chat(owner, 2)[1]
    Turn.objects.exclude(pk=turn.pk).delete()  # as a history that a program sent
    with pytest.raises(Refused, match="from a program or an app"):
        fork(turn)
    assert Conversation.objects.count() == 1


# --- pages -----------------------------------------------------------------------------------
def test_the_page_of_a_fork_shows_the_copies_and_where_they_come_from(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    rows.call(turn, {"title": "Old ideas", "password": "hunter2"}, result=RESULT)
    rows.said(turn, "All *done*.")
    made = fork(turn)
    page = whole_page(made).soup

    [em] = page.select("em")
    assert em.get_text() == "done"
    [row] = page.select("details.tool.copied")
    assert "Sell the boat." in row.get_text()
    assert "Demo notebook" in row.get_text()
    assert "hunter2" not in str(page)
    assert page.select_one(".of-program") is None
    labels = [each["aria-label"] for each in page.select(".acts [aria-label]")]
    assert labels == [
        *("Copy message", "Edit message"),
        *("Copy answer", "Regenerate answer", "Fork into a new chat"),
    ]
    [link] = page.select(".fork-source a")
    assert (link.get_text(), link["href"]) == (
        "Hello",
        reverse("open-message", args=[turn.answer_id]),
    )
    opened = signed_in(owner).get(reverse("conversation", args=[made.pk]))
    assert "Sell the boat." in opened.content.decode()


def test_hostile_names_and_results_stay_text(owner: Member) -> None:
    evil = "<script>alert(1)</script>\u202e"
    turn = rows.turn(owner, "done")
    result = {"content": [{"type": "text", "text": evil}]}
    rows.call(turn, {"title": evil}, result=result, tool_id=evil[:100], tool_name=evil[:100])
    page = whole_page(fork(turn)).soup
    assert page.select("script") == []
    assert "\u202e" not in str(page)


def test_a_fork_stays_when_the_first_chat_is_gone(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    made = fork(turn)
    chat_list.delete(turn.conversation)
    page = whole_page(made).soup
    assert "Forked from a chat that was deleted" in page.get_text()
    turn.conversation.delete()
    assert read_copies(made) == ["Hello", ""]


def test_only_the_part_with_the_first_message_says_where_it_comes_from(owner: Member) -> None:
    made = fork(rows.turns_of_chat(owner, 25)[-1])
    newest = open_conversation(owner, made.pk)
    assert newest.source is None
    assert newest.earlier is not None
    assert open_conversation(owner, made.pk, newest.earlier).source is not None


def test_the_button_opens_the_fork(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    address = reverse("fork-chat", args=[turn.conversation_id, turn.answer_id])
    client = signed_in(owner)
    page = client.get(reverse("conversation", args=[turn.conversation_id])).content.decode()
    assert address in page

    quick = client.post(address, headers={"HX-Request": "true"})
    made = Conversation.objects.latest("created_at")
    assert quick["HX-Redirect"] == reverse("conversation", args=[made.pk])
    plain = client.post(address)
    made = Conversation.objects.latest("created_at")
    assert (plain.status_code, plain["Location"]) == (302, reverse("conversation", args=[made.pk]))


def test_without_javascript_the_message_box_goes_along(owner: Member) -> None:
    turn = rows.turn(owner, "done")
    address = reverse("fork-chat", args=[turn.conversation_id, turn.answer_id])
    page = signed_in(owner).post(address, {"text": "Not sent yet", "client_id": uuid.uuid4()})
    made = Conversation.objects.latest("created_at")
    shown = page.content.decode()
    assert "Not sent yet" in shown
    assert reverse("send", args=[made.pk]) in shown


def test_a_refusal_keeps_the_message_box(owner: Member) -> None:
    turn = rows.turn(owner, "running")
    address = reverse("fork-chat", args=[turn.conversation_id, turn.answer_id])
    page = signed_in(owner).post(address, {"text": "Not sent yet", "client_id": uuid.uuid4()})
    assert page.status_code == 409
    assert "still working" in page.content.decode()
    assert "Not sent yet" in page.content.decode()
