"""A reader's own copy of a shared chat: what it has, what a model reads of it, and what it must not
be able to do."""

from typing import Any

import pytest
from django.http import Http404
from django.test import Client
from django.urls import reverse

from chatapp.context import attachments
from chatapp.conversations import forks, intake, uploads
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import (
    Attachment,
    Consent,
    Conversation,
    LogEntry,
    Member,
    Part,
    SharedLink,
    Step,
    ToolCall,
    Turn,
)
from chatapp.policy.stored_policy import annotate_before, find_before, find_taint_before
from chatapp.providers.request import AskedTool, AssistantMessage, ToolOutcome, UserMessage
from chatapp.server.database import in_database
from chatapp.sharing import copies, links
from chatapp.tools.taint import find_taint_of_chats
from mcpconfig.models import Service
from tests import scripted
from tests.scripted import calls, text
from tests.turns import rows
from tests.turns.acts import DELETE, wait_for_rest

from .acts import Tools, get_path, share

pytestmark = pytest.mark.django_db(transaction=True)
TOOL = "notebook_delete_note"
NOT_SHARED = "[The call ended as: done. Its arguments and its result were not shared.]"
RESULT = {"content": [{"type": "text", "text": "Sell the boat."}]}


@pytest.fixture
def source(owner: Member) -> Turn:
    turn = rows.turn(owner, "done", text="What is in the note?")
    rows.call(turn, {"title": "Ideas"}, result=RESULT)
    rows.said(turn, "It says to sell the boat.")
    return turn


def continue_in_browser(client: Client, link: SharedLink) -> Conversation:
    answer = client.post(get_path(link) + "continue")
    assert answer.status_code == 302
    made = Conversation.objects.latest("created_at")
    assert answer["Location"] == reverse("conversation", args=[made.pk])
    return made


# --- what it has ---------------------------------------------------------------------------------
def test_a_copy_belongs_to_its_reader_and_has_what_the_link_shows(
    source: Turn, stranger: Member, stranger_client: Client
) -> None:
    values = {"mode": "plan", "uses_tools": False, "instructions": "Be brief.", "effort": "high"}
    Conversation.objects.filter(pk=source.conversation_id).update(**values)
    made = continue_in_browser(stranger_client, share(source.conversation))

    assert (made.owner, made.title, made.is_shared_copy) == (stranger, "What is in the note?", True)
    assert (made.mode, made.uses_tools, made.instructions, made.effort) == ("act", True, "", "")
    assert [each.role for each in made.messages.order_by("created_seq")] == ["user", "assistant"]
    page = stranger_client.get(f"/c/{made.pk}/").content.decode()
    assert "It says to sell the boat." in page
    assert "Copied from a chat that another person shared" in page
    assert "Sell the boat." not in page.replace("sell the boat", "")


def test_a_copy_is_made_up_to_where_the_link_goes(owner: Member, stranger: Member) -> None:
    turns = rows.turns_of_chat(owner, 1)
    link = share(turns[0].conversation)
    rows.said(turns[0], "Later.")
    made = copies.continue_chat(link, stranger)
    texts = Part.objects.filter(message__conversation=made).values_list("text", flat=True)
    assert sorted(texts) == ["Answer 0.", "Question 0."]


def test_a_copy_has_no_text_of_an_attempt_that_was_repeated(
    owner: Member, stranger: Member
) -> None:
    turn = rows.turn(owner, "failed")
    rows.said(turn, "It is the")
    Step.objects.filter(turn=turn).update(state="interrupted")

    def list_answer(link: SharedLink) -> list[str]:
        made = copies.continue_chat(link, stranger)
        texts = Part.objects.filter(message__conversation=made, message__role="assistant")
        return [each.text for each in texts.order_by("position")]

    first = share(turn.conversation)
    expected = ["It is the", "[This answer was interrupted.]"]
    assert list_answer(first) == expected

    Turn.objects.filter(pk=turn.pk).update(state="done")
    Step.objects.create(turn=turn, number=2, state="done")
    Part.objects.create(message=turn.answer, step=2, position=0, kind="text", text="The Elbe.")
    assert list_answer(first) == expected
    assert list_answer(share(turn.conversation)) == ["The Elbe."]


def test_a_copy_stays_when_the_chat_and_its_link_are_gone(
    source: Turn, stranger_client: Client
) -> None:
    made = continue_in_browser(stranger_client, share(source.conversation))
    source.conversation.delete()
    assert "sell the boat" in stranger_client.get(f"/c/{made.pk}/").content.decode()


def test_the_calls_of_a_copy_are_texts_without_power(
    source: Turn, stranger: Member, stranger_client: Client
) -> None:
    Consent.objects.create(
        person=source.conversation.owner, service=rows.service(), scope="service", definitions={}
    )
    before = LogEntry.objects.exclude(kind=LogEntry.Kind.SHARE_OPENED).count()
    link = share(source.conversation, Tools.FULL)
    made = continue_in_browser(stranger_client, link)
    assert ToolCall.objects.count() == 1
    assert not Turn.objects.filter(conversation=made).exists()
    assert not Consent.objects.filter(person=stranger).exists()
    logged = LogEntry.objects.exclude(kind=LogEntry.Kind.SHARE_OPENED).count()
    assert logged == before + 1  # the link
    assert LogEntry.objects.get(kind=LogEntry.Kind.SHARE_OPENED).actor_name == stranger.username


def test_files_are_copied_only_if_the_link_includes_them(source: Turn, stranger: Member) -> None:
    owner = source.conversation.owner
    upload = uploads.Upload(name="plan.txt", size=11, data=b"Dig a pond.")
    attachments.attach_to_message(source.question, [uploads.keep_file(owner, upload)])
    without = copies.continue_chat(share(source.conversation), stranger)
    assert not Attachment.objects.filter(owner=stranger).exists()
    texts = Part.objects.filter(message__conversation=without, message__role="user")
    assert texts.filter(text="[Attached file, not shared: plan.txt]").exists()

    made = copies.continue_chat(share(source.conversation, includes_files=True), stranger)
    copied = Attachment.objects.get(owner=stranger)
    assert copied.part is not None and copied.part.message.conversation == made
    assert bytes(copied.file.data) == b"Dig a pond."
    assert Attachment.objects.filter(owner=owner).count() == 1


def test_who_is_not_signed_in_is_asked_to_and_comes_back(source: Turn) -> None:
    path = get_path(share(source.conversation)) + "continue"
    answer = Client().get(path)
    assert answer.status_code == 302 and answer["Location"] == f"/sign-in/?next={path}"
    assert Client().post(path).status_code == 302
    assert Conversation.objects.count() == 1


def test_a_reader_makes_so_many_copies_a_minute(
    source: Turn, stranger_client: Client, settings: Any
) -> None:
    settings.SHARED_COPIES_PER_MINUTE = 1
    link = share(source.conversation)
    continue_in_browser(stranger_client, link)
    answer = stranger_client.post(get_path(link) + "continue")
    assert answer.status_code == 429 and "Try again in" in answer.content.decode()
    assert Conversation.objects.count() == 2


@pytest.mark.parametrize("tools", [Tools.OUTCOMES, Tools.FULL])
def test_the_owner_gets_an_ordinary_fork(source: Turn, tools: SharedLink.Tools) -> None:
    made = copies.continue_chat(share(source.conversation, tools), source.conversation.owner)
    assert (made.is_shared_copy, made.tainted_by) == (False, "")
    fork = forks.fork_chat(source.answer)
    assert find_taint_of_chats([made.pk]) == find_taint_of_chats([fork.pk]) == ""
    Service.objects.update(is_open=True)
    assert find_taint_of_chats([made.pk]) == find_taint_of_chats([fork.pk]) == "notebook"


# --- what a model reads --------------------------------------------------------------------------
async def test_a_model_reads_what_the_link_shows(
    runtime: EngineRuntime, source: Turn, stranger: Member
) -> None:
    def build(tools: SharedLink.Tools) -> Turn:
        made = copies.continue_chat(share(source.conversation, tools), stranger)
        scripted.scenes.append(text("Fine."))
        return intake.receive(stranger, made, text="And now?", model=scripted.MODEL)

    histories = []
    for tools in (Tools.NONE, Tools.OUTCOMES, Tools.FULL):
        await wait_for_rest(runtime, await in_database(build, tools))
        histories.append(scripted.requests[-1].history)
    none, outcomes, full = histories
    assert [type(each) for each in none] == [UserMessage, AssistantMessage, UserMessage]
    kinds = [UserMessage, AssistantMessage, ToolOutcome, AssistantMessage, UserMessage]
    assert [type(each) for each in full] == [type(each) for each in outcomes] == kinds
    for history, arguments, outcome in (
        (outcomes, "{}", NOT_SHARED),
        (full, '{"title": "Ideas"}', "Sell the boat."),
    ):
        asked = AskedTool(call_id="call-0", name=TOOL, arguments=arguments, opaque=None)
        assert history[1] == AssistantMessage(parts=(asked,))
        assert history[2] == ToolOutcome(call_id="call-0", name=TOOL, text=outcome, is_error=False)


# --- trust ---------------------------------------------------------------------------------------
def begin_turn(copy: Conversation) -> tuple[Turn, ToolCall]:
    asked = intake.receive(copy.owner, copy, text="Go on", model=rows.MODEL)
    return asked, rows.call(asked, {}, "proposed")


def test_all_of_a_strangers_text_counts_as_untrusted_in_each_turn(
    source: Turn, stranger: Member
) -> None:
    made = copies.continue_chat(share(source.conversation), stranger)
    mark = f"chat shared by {source.conversation.owner.display_name}"
    asked, call = begin_turn(made)
    assert find_taint_before(asked, call) == find_taint_of_chats([made.pk]) == mark
    row = annotate_before(ToolCall.objects.filter(pk=call.pk)).get()
    assert find_before(asked, row, is_as_read=True).tainted_by == mark


def test_a_fork_and_a_link_of_a_copy_stay_untrusted(source: Turn, stranger: Member) -> None:
    made = copies.continue_chat(share(source.conversation), stranger)
    asked, _call = begin_turn(made)
    Turn.objects.filter(pk=asked.pk).update(state="done")
    fork = forks.fork_chat(forks.find_answer(stranger, made.pk, asked.answer_id))
    again = copies.continue_chat(share(fork), stranger)
    for each in (fork, again):
        assert each.is_shared_copy and each.tainted_by == made.tainted_by


async def test_a_tool_allowed_in_advance_asks_in_a_copy(
    runtime: EngineRuntime, source: Turn, stranger: Member, notebook: Service
) -> None:
    """What another person wrote must not use the permissions of its reader."""

    def build(is_copy: bool) -> Turn:
        definition = notebook.definitions.get(name="delete_note")
        Consent.objects.get_or_create(
            person=stranger,
            service=notebook,
            endpoint=notebook.endpoint,
            scope=Consent.Scope.TOOL,
            definitions={"delete_note": definition.hash},
        )
        made = copies.continue_chat(share(source.conversation), stranger) if is_copy else None
        return intake.receive(stranger, made, text="Delete it", model=scripted.MODEL)

    scripted.scenes.append(calls(DELETE))
    turn = await wait_for_rest(runtime, await in_database(build, True))
    call = await in_database(lambda: ToolCall.objects.get(turn=turn))
    assert call.state == ToolCall.State.AWAITING_APPROVAL
    assert "untrusted content from “chat shared by" in call.why


def test_a_revoked_link_makes_no_copy(source: Turn, stranger_client: Client) -> None:
    link = share(source.conversation)
    links.revoke(link)
    for method in (stranger_client.get, stranger_client.post):
        assert method(get_path(link) + "continue").status_code == 404


def test_a_link_that_ended_after_it_was_read_makes_no_copy(source: Turn, stranger: Member) -> None:
    revoked, purged = share(source.conversation), share(source.conversation)
    links.revoke(revoked)
    with pytest.raises(Http404):
        copies.continue_chat(revoked, stranger)
    Conversation.objects.all().delete()
    with pytest.raises(Http404):
        copies.continue_chat(purged, stranger)
    assert not Conversation.objects.exists()
