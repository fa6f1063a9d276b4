"""Searching and reading earlier chats: one's own only, within bounds, and honestly ranked."""

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.models import Conversation, Member, Part, ToolCall, Turn
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import Context, ToolError
from chatapp.tools.core import core_tool, read_conversation, search_conversations
from mcpconfig.models import Service

from .core_calls import chat, ran, run, told

pytestmark = pytest.mark.django_db
INVOICES = ("Which invoice of March is open?", "Number 17, over 80 euros, is open.")


def search(person: Member, words: str, **more: Any) -> list[str]:
    return [
        found["title"]
        for found in run("search-conversations", person, words=words, **more)["found"]
    ]


def turn_in(conversation: Conversation) -> Turn:
    first, second = conversation.messages.order_by("created_seq")[:2]
    return Turn.objects.create(
        conversation=conversation, question=first, answer=second, state=Turn.State.DONE
    )


def tainted(conversation: Conversation, **service: Any) -> ToolCall:
    """A call in this chat that brought words of a service that strangers write to."""
    mail = Service.objects.create(
        name="mail", url="https://mail.example/mcp", is_open=True, visibility="everyone"
    )
    return ToolCall.objects.create(
        turn=turn_in(conversation),
        step=1,
        position=0,
        tool_id="mail_read",
        service=mail,
        result={"content": []},
    )


def test_a_word_is_found_in_titles_and_in_what_both_sides_said(owner: Member) -> None:
    chat(owner, "Open invoices", "Hello")
    chat(owner, "Money", INVOICES[0])
    chat(owner, "More money", "Hello", "An invoice came.")
    chat(owner, "Tea", "Which tea?")
    assert set(search(owner, "Invoice")) == {"Open invoices", "Money", "More money"}


def test_a_chat_with_more_of_the_words_comes_first_and_then_the_newer_one(owner: Member) -> None:
    for days, (title, words) in enumerate(
        [("new", "an invoice"), ("newer by words", "the invoice of march"), ("old", "march")]
    ):
        made = chat(owner, title, words)
        at = timezone.now() - timedelta(days=days)
        Conversation.objects.filter(pk=made.pk).update(active_at=at)
    assert search(owner, "invoice march") == ["newer by words", "new", "old"]
    found = run("search-conversations", owner, words="invoice march", limit=1)
    assert (found["found"][0]["words"], found["more"]) == (["invoice", "march"], 2)


@pytest.mark.parametrize("words", ["ärger", "Ärger", "ÄRGER"])
def test_letters_beyond_ascii_are_found_however_they_are_written(owner: Member, words: str) -> None:
    chat(owner, "Trouble", "Viel Ärger um nichts, sagt er.")
    assert search(owner, words) == ["Trouble"]


@pytest.mark.parametrize("words", ["100%", "a_b"])
def test_signs_that_mean_something_to_a_database_mean_nothing_here(
    owner: Member, words: str
) -> None:
    chat(owner, "Plain", "abc 100 of them, axb")
    assert search(owner, words) == (["Plain"] if words == "100%" else [])


def test_the_excerpt_shows_the_surroundings_of_the_word(owner: Member) -> None:
    chat(owner, "Long", "x" * 500 + " the invoice " + "y" * 500)
    excerpt = run("search-conversations", owner, words="invoice")["found"][0]["excerpt"]
    assert " the invoice " in excerpt
    assert len(excerpt) <= search_conversations.EXCERPT + 2
    assert excerpt.startswith("…") and excerpt.endswith("…")


def test_the_chat_in_which_it_is_asked_is_not_found(owner: Member) -> None:
    here, there = chat(owner, "Here", *INVOICES), chat(owner, "There", *INVOICES)
    context = Context(person=owner, catalogue=Catalogue(), turn=turn_in(here))
    found = ran("search-conversations", context, {"words": "invoice"})[1]["found"]
    assert [each["conversation"] for each in found] == [str(there.pk)]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("search-conversations", {"words": "invoice"}),
        ("read-conversation", {"conversation": ""}),
        ("find-tools", {"query": "notes"}),
    ],
)
def test_what_scans_reads_nothing_in_the_transaction_of_its_outcome(
    owner: Member, django_assert_num_queries: Any, name: str, asked: dict[str, str]
) -> None:
    """Nobody else can write on SQLite meanwhile. Loading what was found is one statement."""
    here = chat(owner, "Here", *INVOICES)
    asked = {key: value or str(here.pk) for key, value in asked.items()}
    tool, context = core_tool(name), Context(person=owner, catalogue=Catalogue())
    assert tool is not None and tool.read is not None
    ready = replace(context, turn=turn_in(here), prepared=tool.read(context, tool.validate(asked)))
    with django_assert_num_queries(1 if name == "find-tools" else 0):
        tool.run(ready, asked)
    if name != "find-tools":
        with pytest.raises(ToolError, match="Nothing was read"):
            tool.run(context, asked)


def test_many_chats_are_bounded(owner: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_conversations, "MESSAGES", 5)
    for number in range(8):
        chat(owner, f"Chat {number}", "an invoice")
    found = run("search-conversations", owner, words="invoice", limit=10)
    assert len(found["found"]) == 5


@pytest.mark.parametrize("words", ["?!", " "])
def test_without_a_word_nothing_is_searched(owner: Member, words: str) -> None:
    with pytest.raises(ToolError, match="at least one word") as refused:
        run("search-conversations", owner, words=words)
    assert refused.value.field == "words"


def test_thoughts_and_notices_are_not_searched(owner: Member) -> None:
    made = chat(owner, "Quiet", "Hello")
    message = made.messages.get()
    for position, kind in enumerate((Part.Kind.REASONING, Part.Kind.NOTICE), start=1):
        Part.objects.create(message=message, position=position, kind=kind, text="invoice")
    assert search(owner, "invoice") == []
    assert told("search-conversations", owner, words="invoice").startswith("No other chat")


def test_another_persons_chats_are_not_found(owner: Member, stranger: Member) -> None:
    chat(owner, "Secret invoice", *INVOICES)
    assert search(stranger, "invoice") == []
    assert search(owner, "invoice") == ["Secret invoice"]


# --- reading


def test_a_chat_is_read_from_its_beginning(owner: Member) -> None:
    made = chat(owner, "Open invoices", *INVOICES)
    read = run("read-conversation", owner, conversation=str(made.pk))
    assert read["title"] == "Open invoices"
    assert [(each["by"], each["text"]) for each in read["messages"]] == [
        ("person", INVOICES[0]),
        ("assistant", INVOICES[1]),
    ]
    assert read["next"] is None
    assert "2. assistant: Number 17" in told("read-conversation", owner, conversation=str(made.pk))


def test_a_long_chat_is_read_piece_by_piece_and_nothing_is_left_out(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_conversation, "MESSAGES", 3)
    made = chat(owner, "Long", *(f"Message {number}" for number in range(1, 8)))
    seen, first = [], 1
    while first is not None:
        read = run("read-conversation", owner, conversation=str(made.pk), first=first)
        assert 0 < len(read["messages"]) <= 3
        seen += [each["text"] for each in read["messages"]]
        first = read["next"]
    assert seen == [f"Message {number}" for number in range(1, 8)]


def test_long_messages_are_cut_and_say_so(owner: Member) -> None:
    most = read_conversation.MESSAGE_CHARACTERS
    made = chat(owner, "Long", *("x" * (most + 1) for _ in range(10)))
    read = run("read-conversation", owner, conversation=str(made.pk))
    assert all(each["is_cut"] and len(each["text"]) == most for each in read["messages"])
    assert len(read["messages"]) * most <= read_conversation.CHARACTERS
    assert read["next"] == len(read["messages"]) + 1


def test_the_tools_of_a_message_are_named_and_their_results_are_not(owner: Member) -> None:
    made = chat(owner, "Mail", *INVOICES)
    call = tainted(made)
    Part.objects.create(
        message=call.turn.answer, position=1, kind=Part.Kind.TOOL_CALL, tool_call=call
    )
    read = run("read-conversation", owner, conversation=str(made.pk))
    assert read["messages"][1]["tools"] == ["mail_read"]
    assert "content" not in str(read)


def test_beyond_the_end_there_is_nothing(owner: Member) -> None:
    made = chat(owner, "Short", "Hello")
    read = run("read-conversation", owner, conversation=str(made.pk), first=9)
    assert (read["messages"], read["next"]) == ([], None)


@pytest.mark.parametrize("guess", ["1", "' or 1=1", str(uuid.UUID(int=0)), "x" * 64])
def test_an_id_of_nothing_is_refused_in_words(owner: Member, guess: str) -> None:
    with pytest.raises(ToolError, match="no chat of this id"):
        run("read-conversation", owner, conversation=guess)


def test_another_persons_chat_is_refused_in_the_same_words(owner: Member, stranger: Member) -> None:
    made = chat(owner, "Secret", *INVOICES)
    with pytest.raises(ToolError) as refused:
        run("read-conversation", stranger, conversation=str(made.pk))
    with pytest.raises(ToolError) as unknown:
        run("read-conversation", stranger, conversation=str(uuid.uuid4()))
    assert str(refused.value) == str(unknown.value)


# --- strangers' words


def test_a_chat_that_read_strangers_words_is_marked(owner: Member) -> None:
    made = chat(owner, "Mail", *INVOICES)
    clean = run("read-conversation", owner, conversation=str(made.pk))
    call = tainted(made)
    marked = run("read-conversation", owner, conversation=str(made.pk))
    found = run("search-conversations", owner, words="invoice")
    assert (clean["tainted_by"], marked["tainted_by"], found["tainted_by"]) == ("", "mail", "mail")
    ToolCall.objects.filter(pk=call.pk).update(result=None)
    assert run("read-conversation", owner, conversation=str(made.pk))["tainted_by"] == ""


def test_the_mark_outlives_the_service(owner: Member) -> None:
    """Content of a removed service stays untrusted."""
    made = chat(owner, "Mail", *INVOICES)
    call = tainted(made)
    ToolCall.objects.filter(pk=call.pk).update(tainted_by="mail")
    Service.objects.all().delete()
    assert run("read-conversation", owner, conversation=str(made.pk))["tainted_by"] == "mail"


def test_the_mark_is_passed_on_from_chat_to_chat(owner: Member) -> None:
    made = chat(owner, "Told of it", *INVOICES)
    ToolCall.objects.create(
        turn=turn_in(made),
        step=1,
        position=0,
        tool_id="read-conversation",
        tool_name="read-conversation",
        result={"content": []},
        tainted_by="mail",
    )
    assert run("read-conversation", owner, conversation=str(made.pk))["tainted_by"] == "mail"
