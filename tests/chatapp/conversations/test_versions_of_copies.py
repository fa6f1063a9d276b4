"""Versions of copied messages: those of forks, of imported chats and of continued shared chats have
no turns, and are edited and answered again like all others."""

import random
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.http import Http404
from django.test import Client

from chatapp.conversations import exports, feedback, forks, intake, message_queue, versions
from chatapp.conversations.search import Search, search_chats
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.feed import Feed
from chatapp.models import (
    Attachment,
    Consent,
    Conversation,
    Member,
    Message,
    QueuedMessage,
    ToolCall,
    Turn,
)
from chatapp.people.refused import Refused
from chatapp.policy.stored_policy import find_taint_before
from chatapp.providers.request import AskedTool, AssistantMessage, ToolOutcome
from chatapp.rendering.exports.values import ToolDetail
from chatapp.server.database import in_database
from chatapp.sharing import copies
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.imports.acts import import_chat
from tests.chatapp.imports.samples import CHATGPT, CLAUDE, gpt_chat, gpt_node, to_json
from tests.chatapp.sharing.acts import share
from tests.dom_tree import parse
from tests.scripted import calls, text
from tests.turns import rows
from tests.turns.acts import DELETE, wait_for_rest
from tests.turns.tabs import assert_as_reloaded, caught_up, latest, loaded, whole_page

from .test_versions import _close_after, assert_one_branch, read_history

pytestmark = pytest.mark.django_db(transaction=True)
KINDS = ("fork", "import", "share")
PLAIN = to_json(
    gpt_chat(
        gpt_node("q0", None, "user", "Question 0."),
        gpt_node("a0", "q0", "assistant", "Answer 0."),
        gpt_node("q1", "a0", "user", "Question 1."),
        gpt_node("a1", "q1", "assistant", "Answer 1."),
    )
)
UNANSWERED = to_json(
    gpt_chat(
        gpt_node("q0", None, "user", "Question 0."),
        gpt_node("a0", "q0", "assistant", "Answer 0."),
        gpt_node("q1", "a0", "user", "Question 1."),
    )
)
ANSWER = "Answer this message"


# --- acts ------------------------------------------------------------------------------------
def make(kind: str, owner: Member) -> Conversation:
    """Return a chat of the owner with two copied questions and answers."""
    if kind == "import":
        return import_chat(owner, PLAIN)
    if kind == "fork":
        return forks.fork_chat(rows.turns_of_chat(owner, 2)[1].answer)
    author = Member.objects.create_user("author", password="author-password")
    return copies.continue_chat(share(rows.turns_of_chat(author, 2)[0].conversation), owner)


def list_copies(chat: Conversation) -> list[Message]:
    return list(chat.messages.filter(is_shown=True).order_by("created_seq"))


async def find(chat: Conversation, place: int) -> Message:
    """Find the message at this place of the branch that is shown, as its person does."""

    def load() -> Message:
        return versions.find_message(chat.owner, chat.pk, list_copies(chat)[place].pk)

    return await in_database(load)


def edit(message: Message, words: str, **more: Any) -> Turn:
    options = {"text": words, "model": scripted.MODEL} | more
    return versions.edit_message(message.conversation.owner, message, **options)


def answer_again(message: Message, model: str = scripted.MODEL) -> Turn:
    return versions.answer_again(message.conversation.owner, message, model)


def send(chat: Conversation, words: str) -> Turn:
    return intake.receive(chat.owner, chat, text=words, model=scripted.MODEL)


async def let_answer(
    runtime: EngineRuntime, words: str, act: Callable[..., Turn], *given: Any
) -> Turn:
    """Let the model answer what an act asks with these words."""
    scripted.scenes.append(text(words))
    return await wait_for_rest(runtime, await in_database(act, *given))


def read_page(chat: Conversation) -> list[str]:
    """Return the text of each message that a page shows, with its place among its versions."""
    read = []
    for message in whole_page(Conversation.objects.get(pk=chat.pk)).soup.select("li.turn"):
        words = message.select_one(".bubble, .prose")
        place = message.select_one(".versions .num [aria-hidden]")
        read.append(" ".join(each.get_text(strip=True) for each in (words, place) if each))
    return read


# --- what the person and the model see -------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
async def test_a_copied_message_is_edited_and_its_first_version_stays(
    runtime: EngineRuntime, owner: Member, kind: str
) -> None:
    chat = await in_database(make, kind, owner)
    first = await find(chat, 0)
    await let_answer(runtime, "Garden answer", edit, first, "Tidy the garden")
    assert read_history() == ["Tidy the garden"]
    assert await in_database(read_page, chat) == ["Tidy the garden 2/2", "Garden answer"]

    await in_database(versions.show_version, chat, first.pk)
    shown = ["Question 0. 1/2", "Answer 0.", "Question 1.", "Answer 1."]
    assert await in_database(read_page, chat) == shown
    await let_answer(runtime, "Done", send, chat, "And then?")
    assert read_history() == ["Question 0.", "Answer 0.", "Question 1.", "Answer 1.", "And then?"]
    await in_database(assert_one_branch, chat.pk)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_copied_answer_is_answered_again_by_another_model(
    runtime: EngineRuntime, owner: Member, kind: str
) -> None:
    chat = await in_database(make, kind, owner)
    second = await find(chat, 2)
    other = await let_answer(runtime, "Better", answer_again, second, "scripted:other")
    assert (other.question_id, other.services) == (second.pk, None)
    assert scripted.requests[-1].model == "other"
    assert read_history() == ["Question 0.", "Answer 0.", "Question 1."]
    shown = ["Question 0.", "Answer 0.", "Question 1.", "Better 2/2"]
    assert await in_database(read_page, chat) == shown

    # The copied answer is a version like any other, and can itself be answered again.
    copied = await in_database(chat.messages.get, parent=second.pk, turn_answered=None)
    await in_database(versions.show_version, chat, copied.pk)
    assert (await in_database(read_page, chat))[3] == "Answer 1. 1/2"
    await let_answer(runtime, "Best", answer_again, second)
    assert (await in_database(read_page, chat))[3] == "Best 3/3"
    await let_answer(runtime, "Edited", edit, second, "Question 2.")
    assert read_history() == ["Question 0.", "Answer 0.", "Question 2."]
    await in_database(assert_one_branch, chat.pk)


async def test_copied_calls_stay_texts_and_are_not_run_again(
    runtime: EngineRuntime, owner: Member
) -> None:
    chat = await in_database(import_chat, owner, to_json(CHATGPT))
    await let_answer(runtime, "Fine.", answer_again, await find(chat, 2))
    history = scripted.requests[-1].history
    asked = [p for h in history if isinstance(h, AssistantMessage) for p in h.parts]
    assert [p.name for p in asked if isinstance(p, AskedTool)] == ["python"]
    assert [h.text for h in history if isinstance(h, ToolOutcome)] == ["4"]
    await let_answer(runtime, "Fine.", edit, await find(chat, 0), "How deep?")
    assert not await in_database(ToolCall.objects.exists)
    assert await in_database(versions.count_sent_calls, await find(chat, 0)) == 0


async def test_attachments_are_copied_along_with_their_mark(
    runtime: EngineRuntime, owner: Member
) -> None:
    chat = await in_database(import_chat, owner, to_json(CLAUDE))
    first = await find(chat, 0)
    asked = await let_answer(runtime, "Forty.", edit, first, "How many?")
    assert "Forty herons in March" in read_history()[0]
    marks = Attachment.objects.values_list("part__message", "tainted_by", "name")
    found = {message: rest for message, *rest in await in_database(list, marks)}
    expected = ["chat imported from Claude", "herons.txt"]
    assert found == {first.pk: expected, asked.question_id: expected}
    await in_database(versions.show_version, chat, first.pk)
    await let_answer(runtime, "Forty.", answer_again, first)
    assert "Forty herons in March" in read_history()[0]


async def test_a_copied_message_without_an_answer_is_answered(
    runtime: EngineRuntime, owner: Member
) -> None:
    chat = await in_database(import_chat, owner, UNANSWERED)

    def find_button() -> list[str]:
        page = whole_page(Conversation.objects.get(pk=chat.pk)).soup
        buttons = page.select(".again button")
        assert all(each.get_text() == ANSWER for each in buttons)
        return [str(each["formaction"]) for each in buttons]

    last = await find(chat, 2)
    assert await in_database(find_button) == [f"/c/{chat.pk}/messages/{last.pk}/answer"]
    await let_answer(runtime, "Better late", answer_again, last)
    assert read_history() == ["Question 0.", "Answer 0.", "Question 1."]
    assert await in_database(find_button) == []
    assert (await in_database(read_page, chat))[2:] == ["Question 1.", "Better late"]


def test_an_answer_to_nothing_is_not_asked_for_again_but_forked(
    owner: Member, owner_client: Client
) -> None:
    chat = import_chat(
        owner,
        to_json(
            gpt_chat(
                gpt_node("a", None, "assistant", "Welcome."),
                gpt_node("q", "a", "user", "Hello"),
                gpt_node("b", "q", "assistant", "Hello!"),
            )
        ),
    )
    page = whole_page(chat).soup
    assert len(page.select(".regenerate")) == 1
    assert len(page.select(".fork")) == 2
    welcome = list_copies(chat)[0]
    answer = owner_client.post(f"/c/{chat.pk}/messages/{welcome.pk}/answer", {"model": rows.MODEL})
    assert answer.status_code == 404
    fork = forks.fork_chat(forks.find_answer(owner, chat.pk, welcome.pk))
    assert read_page(fork) == ["Welcome."]


# --- rights ----------------------------------------------------------------------------------
@pytest.mark.parametrize("act", ["edit", "again", "fork"])
@pytest.mark.parametrize("kind", ["import", "share"])
async def test_a_tool_allowed_in_advance_still_asks(
    runtime: EngineRuntime, owner: Member, notebook: Service, kind: str, act: str
) -> None:
    """Others wrote the past of the chat, whichever version of it the model reads."""

    def build() -> Turn:
        definition = notebook.definitions.get(name="delete_note")
        Consent.objects.create(
            person=owner,
            service=notebook,
            endpoint=notebook.endpoint,
            scope=Consent.Scope.TOOL,
            definitions={"delete_note": definition.hash},
        )
        chat = make(kind, owner)
        first, answer, *_ = list_copies(chat)
        if act == "fork":
            return send(forks.fork_chat(forks.find_answer(owner, chat.pk, answer.pk)), "Delete it")
        found = versions.find_message(owner, chat.pk, first.pk)
        return edit(found, "Delete it") if act == "edit" else answer_again(found)

    scripted.scenes.append(calls(DELETE))
    turn = await wait_for_rest(runtime, await in_database(build))
    call = await in_database(lambda: ToolCall.objects.get(turn=turn))
    assert call.state == ToolCall.State.AWAITING_APPROVAL
    assert "untrusted content from “chat " in call.why


@pytest.mark.parametrize("kind", KINDS)
def test_the_marks_of_a_chat_stay_after_each_act(owner: Member, kind: str) -> None:
    chat = make(kind, owner)
    if kind == "fork":  # as after a result of a service that is open to strangers
        Conversation.objects.filter(pk=chat.pk).update(tainted_by="wiki")
    names = ("is_shared_copy", "tainted_by", "imported_from", "forked_from", "owner_id")
    before = Conversation.objects.values(*names).get(pk=chat.pk)
    assert before["tainted_by"]
    first, _answer, second, *_ = list_copies(chat)
    acts: list[Callable[[], Turn]] = [
        lambda: answer_again(versions.find_message(owner, chat.pk, second.pk), rows.MODEL),
        lambda: edit(versions.find_message(owner, chat.pk, first.pk), "New", model=rows.MODEL),
    ]
    for act in acts:
        turn = act()
        call = rows.call(turn, {}, "proposed")
        turn.conversation.refresh_from_db()
        assert find_taint_before(turn, call, in_whole_chat=True) == before["tainted_by"]
        assert Conversation.objects.values(*names).get(pk=chat.pk) == before
        Turn.objects.filter(pk=turn.pk).update(state="done")


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_else_and_no_other_chat_reaches_a_copied_message(
    owner: Member, stranger: Member, stranger_client: Client, owner_client: Client, kind: str
) -> None:
    chat = make(kind, owner)
    question, answer, *_ = list_copies(chat)
    elsewhere = rows.turn(owner, "done")
    place, other_place = f"/c/{chat.pk}/messages/", f"/c/{elsewhere.conversation_id}/messages/"
    for client, start in ((stranger_client, place), (owner_client, other_place)):
        sent = {"text": "New", "model": rows.MODEL}
        assert client.get(f"{start}{question.pk}/edit").status_code == 404
        assert client.post(f"{start}{question.pk}/edit", sent).status_code == 404
        assert client.post(f"{start}{question.pk}/answer", sent).status_code == 404
        assert client.post(f"{start}{answer.pk}/fork").status_code == 404
    # Each act is for one side's messages.
    assert owner_client.get(f"{place}{answer.pk}/edit").status_code == 404
    assert owner_client.post(f"{place}{question.pk}/fork").status_code == 404
    assert not Turn.objects.filter(conversation=chat).exists()


def test_a_copied_answer_is_never_rated(owner: Member, owner_client: Client) -> None:
    chat = make("fork", owner)
    answer = list_copies(chat)[1]
    with pytest.raises(Http404):
        feedback.find_rateable(owner, chat.pk, answer.pk)
    page = owner_client.get(f"/c/{chat.pk}/").content.decode()
    assert "Good answer" not in page


def test_messages_of_programs_stay_as_they_are(owner: Member, owner_client: Client) -> None:
    """Also in a chat with copies, and the history that a program sent to one without."""
    chat = make("import", owner)
    source = rows.turn(owner, "done")
    asked = send(chat, "And then?")
    values = {"state": "done", "app_of": rows.call(source, {})}
    Turn.objects.filter(pk=asked.pk).update(**values)
    with pytest.raises(Http404):
        versions.find_message(owner, chat.pk, asked.question_id)
    with pytest.raises(Http404):
        forks.find_answer(owner, chat.pk, asked.answer_id)
    assert len(whole_page(chat).soup.select(".of-program")) == 1

    of_program = rows.turns_of_chat(owner, 2)[1]
    Turn.objects.filter(conversation=of_program.conversation).exclude(pk=of_program.pk).delete()
    question, answer, *_ = list_copies(of_program.conversation)
    with pytest.raises(Http404):
        versions.find_message(owner, of_program.conversation_id, question.pk)
    with pytest.raises(Http404):
        forks.find_answer(owner, of_program.conversation_id, answer.pk)
    page = parse(owner_client.get(f"/c/{of_program.conversation_id}/").content.decode())
    assert len(page.all("a", aria_label="Edit message")) == 1


# --- at the same moment ----------------------------------------------------------------------
def race(*acts: Callable[[], object]) -> list[str]:
    """Begin these acts at the same moment. Return the sentences of those that were refused."""
    together = Barrier(len(acts))
    refused: list[str] = []

    def begin(act: Callable[[], object]) -> None:
        together.wait(60)
        try:
            act()
        except Refused as problem:
            assert problem.status == 409
            refused.append(problem.sentence)

    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(_close_after, partial(begin, act)) for act in acts]:
            done.result(60)
    return refused


@pytest.mark.parametrize("other", ["edit", "again", "send", "show"])
def test_of_two_acts_at_the_same_moment_one_is_refused(owner: Member, other: str) -> None:
    """No turn exists that they could lock."""
    for number in range(6):
        nodes = CHATGPT["mapping"].values()
        chat = import_chat(owner, to_json(gpt_chat(*nodes, conversation_id=f"chat {number}")))
        # Storing another model would lock the chat.
        Conversation.objects.filter(pk=chat.pk).update(model=scripted.MODEL)
        chat.refresh_from_db()
        refused = race_with_edit(chat, other)
        # The switch may come first, and then both are done.
        assert len(refused) == 1 or (other == "show" and not refused)
        assert_one_branch(chat.pk)
        assert Turn.objects.filter(conversation=chat, state__in=Turn.LIVE).count() == 1


def race_with_edit(chat: Conversation, other: str) -> list[str]:
    first, hidden = list_copies(chat)[0], chat.messages.get(parts__text="About a metre.")

    def find_first() -> Message:
        return versions.find_message(chat.owner, chat.pk, first.pk)

    acts: dict[str, Callable[[], object]] = {
        "edit": lambda: edit(find_first(), "One"),
        "again": lambda: answer_again(find_first()),
        "send": lambda: send(chat, "Two"),
        "show": lambda: versions.show_version(chat, hidden.pk),
    }
    return race(lambda: edit(find_first(), "Three"), acts[other])


def test_a_message_that_meets_an_edit_is_queued(owner: Member) -> None:
    chat = make("import", owner)
    first = list_copies(chat)[0]
    turn = edit(versions.find_message(owner, chat.pk, first.pk), "Tidy the garden")
    sent = message_queue.send_or_queue(owner, chat, text="And then?", model=scripted.MODEL)
    assert isinstance(sent, QueuedMessage)
    found = versions.find_message(owner, chat.pk, first.pk)
    acts: list[Callable[[], object]] = [
        lambda: edit(found, "Again"),
        lambda: answer_again(found),
        lambda: versions.show_version(chat, first.pk),
    ]
    for act in acts:
        with pytest.raises(Refused, match="still working") as refused:
            act()
        assert refused.value.status == 409
    assert [each.pk for each in list_copies(chat)] == [turn.question_id, turn.answer_id]
    assert QueuedMessage.objects.count() == 1


async def test_a_copied_message_that_another_tab_has_edited_is_not_edited_again(
    runtime: EngineRuntime, owner: Member
) -> None:
    chat = await in_database(make, "fork", owner)
    first = await find(chat, 0)
    await let_answer(runtime, "Garden answer", edit, first, "Tidy the garden")
    acts: list[Callable[[], Turn]] = [
        lambda: edit(first, "Tidy the shed"),
        lambda: answer_again(first),
    ]
    for act in acts:
        with pytest.raises(Refused, match="reload the page"):
            await in_database(act)
    assert await in_database(read_page, chat) == ["Tidy the garden 2/2", "Garden answer"]


# --- open pages ------------------------------------------------------------------------------
@pytest.mark.parametrize("data", [PLAIN, UNANSWERED])
async def test_open_pages_show_what_a_reload_shows(
    runtime: EngineRuntime, owner: Member, data: bytes
) -> None:
    chat = await in_database(import_chat, owner, data)
    late, feed, tab = await loaded(chat), Feed(chat.pk), await loaded(chat)
    await feed.join(tab, tab.last)

    async def assert_current() -> None:
        feed.nudge(await latest(chat))
        await caught_up(tab, chat)
        await assert_as_reloaded(tab, chat)

    try:
        first, second = await find(chat, 0), await find(chat, 2)
        await let_answer(runtime, "New", answer_again, second)
        await assert_current()
        await let_answer(runtime, "Garden answer", edit, first, "Tidy the garden")
        await assert_current()
        await in_database(versions.show_version, chat, second.pk)
        await assert_current()
        await let_answer(runtime, "Done", send, chat, "And then?")
        await assert_current()
    finally:
        feed.close()
    feed = Feed(chat.pk)
    await feed.join(late, late.last)
    await caught_up(late, chat)
    feed.close()
    await assert_as_reloaded(late, chat)


async def test_a_message_after_an_unanswered_one_leaves_pages_alike(
    runtime: EngineRuntime, owner: Member
) -> None:
    chat = await in_database(import_chat, owner, UNANSWERED)
    feed, tab = Feed(chat.pk), await loaded(chat)
    await feed.join(tab, tab.last)
    try:
        await let_answer(runtime, "Done", send, chat, "And then?")
        feed.nudge(await latest(chat))
        await caught_up(tab, chat)
        await assert_as_reloaded(tab, chat)
    finally:
        feed.close()


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(3))
async def test_any_order_of_acts_leaves_one_branch_and_the_same_on_every_page(
    runtime: EngineRuntime, owner: Member, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same acts for each seed
    chat = await in_database(import_chat, owner, to_json(CHATGPT))
    feed, tab = Feed(chat.pk), await loaded(chat)
    await feed.join(tab, tab.last)
    try:
        for number in range(1, 13):
            everything = await in_database(lambda: list(chat.messages.all()))
            shown = await in_database(list_copies, chat)
            about = chance.choice([m for m in shown if m.role == "user"])
            found = await in_database(versions.find_message, owner, chat.pk, about.pk)
            match chance.choice(["edit", "again", "send", "show", "show"]):
                case "edit":
                    await let_answer(runtime, f"Answer {number}", edit, found, f"Words {number}")
                case "again":
                    await let_answer(runtime, f"Answer {number}", answer_again, found)
                case "send":
                    await let_answer(runtime, f"Answer {number}", send, chat, f"Words {number}")
                case _:
                    other = chance.choice(everything)
                    await in_database(versions.show_version, chat, other.pk)
            await in_database(assert_one_branch, chat.pk)
            feed.nudge(await latest(chat))
            await caught_up(tab, chat)
            await assert_as_reloaded(tab, chat)
    finally:
        feed.close()


# --- pages -----------------------------------------------------------------------------------
def build_long_chat(owner: Member) -> Conversation:
    nodes, before = [], None
    for number in range(50):
        question, answer = f"q{number}", f"a{number}"
        nodes.append(gpt_node(question, before, "user", f"Question {number}.", seconds=number))
        nodes.append(gpt_node(answer, question, "assistant", f"Answer {number}.", seconds=number))
        before = answer
    return import_chat(owner, to_json(gpt_chat(*nodes)))


def test_a_message_in_an_older_part_is_edited(
    owner: Member, owner_client: Client, settings: Any
) -> None:
    settings.DEFAULT_MODEL = scripted.MODEL
    chat = build_long_chat(owner)
    place = f"/c/{chat.pk}/"
    older = parse(owner_client.get(f"{place}?before=40").content.decode())
    assert len(older.all("a", aria_label="Edit message")) == 20
    early = chat.messages.get(parts__text="Question 5.")
    address = f"{place}messages/{early.pk}/edit"
    form = owner_client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert parse(form).one("textarea").text == "Question 5."
    closed = owner_client.get(f"{address}?show", headers={"HX-Request": "true"}).content.decode()
    assert parse(closed).one("a", aria_label="Edit message")["href"] == address

    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{place}?before=40"}
    sent = {"text": "Another question", "client_id": str(uuid.uuid4())}
    answer = owner_client.post(address, sent, headers=headers)
    assert (answer.status_code, answer["HX-Redirect"]) == (200, place)
    # An imported chat has no model before its person goes on.
    assert Turn.objects.get().model == scripted.MODEL
    page = owner_client.get(place).content.decode()
    assert "Another question" in page
    assert "Question 6." not in page
    assert "Answer 4." in page
    assert "Imported from ChatGPT" in page


def test_the_form_works_without_a_script_and_keeps_what_was_typed(
    owner: Member, owner_client: Client
) -> None:
    chat = make("import", owner)
    first = list_copies(chat)[0]
    address = f"/c/{chat.pk}/messages/{first.pk}/edit"
    assert parse(owner_client.get(address).content.decode()).one("textarea").text == "Question 0."
    refused = owner_client.post(address, {"text": "New words", "model": "nobody:nothing"})
    assert refused.status_code == 422
    assert parse(refused.content.decode()).one("textarea").text == "New words"
    assert not Turn.objects.exists()
    sent = {"text": "New words", "client_id": str(uuid.uuid4()), "model": scripted.MODEL}
    accepted = owner_client.post(address, sent)
    assert (accepted.status_code, accepted["location"]) == (302, f"/c/{chat.pk}/")
    assert read_page(chat)[0] == "New words 2/2"
    refused = owner_client.post(address, sent | {"client_id": str(uuid.uuid4())})
    assert refused.status_code == 409
    # The same form again finds its message.
    assert owner_client.post(address, sent).status_code == 302
    assert Turn.objects.count() == 1


def test_a_copied_answer_has_the_buttons_of_any_other(owner: Member, owner_client: Client) -> None:
    chat = make("import", owner)
    question, answer, *_ = list_copies(chat)
    page = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    place = f"/c/{chat.pk}/messages/"
    again = page.all("button", aria_label="Regenerate answer")
    fork = page.all("button", aria_label="Fork into a new chat")
    assert again[0]["formaction"] == f"{place}{question.pk}/answer"
    assert fork[0]["formaction"] == f"{place}{answer.pk}/fork"
    assert len(again) == len(fork) == 2
    answered = owner_client.post(
        str(again[0]["formaction"]), {"model": scripted.MODEL, "text": "A draft", "client_id": ""}
    )
    assert "A draft" in answered.content.decode()
    assert Turn.objects.get().question_id == question.pk


# --- what reads a chat -----------------------------------------------------------------------
async def test_exports_links_and_searches_follow_the_branches(
    runtime: EngineRuntime, owner: Member
) -> None:
    chat = await in_database(make, "import", owner)
    await let_answer(runtime, "A green bicycle", answer_again, await find(chat, 2))
    await let_answer(runtime, "A red bicycle", edit, await find(chat, 2), "Which bicycle?")

    def read(*, is_whole: bool) -> list[tuple[str, bool]]:
        with exports.open_export(owner, chat.pk, ToolDetail.FULL, "", is_whole=is_whole) as found:
            return [
                (" ".join(getattr(part, "text", "") for part in each.parts), each.is_of_program)
                for each in found.messages
            ]

    def check() -> None:
        shown = ["Question 0.", "Answer 0.", "Which bicycle?", "A red bicycle"]
        assert [words for words, _ in read(is_whole=False)] == shown
        whole = read(is_whole=True)
        assert not any(is_of_program for _, is_of_program in whole)
        hidden = {"Question 1.", "Answer 1.", "A green bicycle"}
        assert {words for words, _ in whole} == {*shown, *hidden}
        for words in ("green", "red", "question"):
            assert len(search_chats(owner, Search(text=words)).chats) == 1
        again = copies.continue_chat(share(chat), owner)
        assert read_page(again) == shown
        assert again.is_shared_copy and again.tainted_by == "chat imported from ChatGPT"

    await in_database(check)
