"""Search finds what was said in a person's own chats, on both databases."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chatapp.conversations import chat_list, search
from chatapp.conversations.search import Search, search_chats
from chatapp.models import Conversation, Member, Message, Part, Turn
from chatapp.models.conversations import search_index
from chatapp.rendering.highlights import mark_words
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)


def add_chat(person: Member, title: str, answer: str) -> Turn:
    turn = rows.turn(person, Turn.State.DONE, title)
    rows.said(turn, answer)
    return turn


def find(person: Member, text: str, **filters: Any) -> dict[str, list[str]]:
    """The titles of the chats that are found, each with its excerpts."""
    found = search_chats(person, Search(text=text, **filters))
    return {chat.conversation.title: [each.text for each in chat.excerpts] for chat in found.chats}


def test_a_chat_is_found_by_all_words_of_one_message_or_by_their_beginnings(owner: Member) -> None:
    add_chat(owner, "Checkout", "The pool size went from 20 to 10.")
    add_chat(owner, "Swimming", "The pool is closed.")
    assert find(owner, "size POOL") == {"Checkout": ["The pool size went from 20 to 10."]}
    assert find(owner, "clos") == {"Swimming": ["The pool is closed."]}
    assert set(find(owner, "pool")) == {"Checkout", "Swimming"}
    assert find(owner, "pool elephant") == {}


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Set foo_bar.baz first.", ["bar", "baz", "foo_bar", "foo_bar.baz", "bar.ba"]),
        ("Mail user@example.com today.", ["user", "example", "com", "user@example.com"]),
        ("It needs read/write here.", ["read", "write", "read/write"]),
        (
            "See https://e.example/docs/v2.4?x=abc-def now.",
            ["docs", "v2", "abc", "def", "docs/v2.4"],
        ),
        ("Run it with --dry-run=yes.", ["dry", "run", "yes", "--dry-run"]),
        ("Look at <b>bold</b> and `code`s.", ["bold", "code", "b"]),
        ("It is 99.5% of C:\\temp\\log.txt, don't.", ["99.5%", "temp", "txt", "don", "don't"]),
        ("Ihr Fuß/Bein: Übergröße_XL.", ["fuß", "bein", "übergröße", "xl"]),
    ],
)
def test_messages_are_split_at_punctuation_on_both_databases(
    owner: Member, said: str, asked: list[str]
) -> None:
    add_chat(owner, "Chat", said)
    for text in asked:
        found = search_chats(owner, Search(text=text))
        (excerpt,) = found.chats[0].excerpts
        marked = mark_words(excerpt.text, found.words)
        assert marked.count("<mark>") >= len(found.words), text


def test_an_index_of_an_earlier_version_is_built_again_and_used(owner: Member) -> None:
    """SQLite has split words at punctuation from the beginning, so it builds nothing again."""
    add_chat(owner, "Chat", "Set foo_bar.baz first.")
    if connection.vendor == "postgresql":
        build_earlier_index_again()
    else:
        search_index.rebuild(connection)
    assert find(owner, "baz") == {"Chat": ["Set foo_bar.baz first."]}


def build_earlier_index_again() -> None:
    with connection.cursor() as cursor:
        search_index.remove(connection)
        earlier = "to_tsvector('simple', left(chatapp_part.text, 200000))"
        name = "chatapp_part_words"
        cursor.execute(f"CREATE INDEX {name} ON chatapp_part USING gin ({earlier})")
        search_index.rebuild(connection)
        cursor.execute("SET enable_seqscan = off")
        plan = Part.objects.filter(search_index.match_words(["baz"])).explain()
        cursor.execute("RESET enable_seqscan")
    assert name in plan


def test_a_title_is_found_without_a_message(owner: Member) -> None:
    turn = add_chat(owner, "Hello", "Nothing.")
    Conversation.objects.filter(pk=turn.conversation_id).update(title="Überblick Kasse")
    assert find(owner, "überblick kasse") == {"Überblick Kasse": []}


@pytest.mark.parametrize(
    "text", ["", "  ", '"', "* OR *", "NEAR(", "'; DROP TABLE chatapp_part; --", "a:b", "()", "\\"]
)
def test_signs_of_a_query_language_are_no_query(owner: Member, text: str) -> None:
    add_chat(owner, "Checkout", "Hello.")
    find(owner, text)
    assert Part.objects.exists()


def test_chats_of_others_and_deleted_chats_are_not_found(owner: Member, stranger: Member) -> None:
    add_chat(stranger, "Theirs", "The pool.")
    deleted = add_chat(owner, "Deleted", "The pool.")
    chat_list.delete(deleted.conversation)
    assert find(owner, "pool") == {}
    assert find(stranger, "theirs") == {"Theirs": []} | find(stranger, "theirs")


def test_filters_narrow_what_is_found(owner: Member) -> None:
    old, archived = (add_chat(owner, title, "The pool.") for title in ("Old pool", "Archived pool"))
    add_chat(owner, "New", "The pool.")
    long_ago = timezone.now() - timedelta(days=40)
    Message.objects.filter(conversation=old.conversation).update(created_at=long_ago)
    Conversation.objects.filter(pk=old.conversation_id).update(active_at=long_ago)
    chat_list.archive(archived.conversation, is_on=True)
    assert set(find(owner, "pool", days=30)) == {"Archived pool", "New"}
    assert set(find(owner, "pool", is_archived=True)) == {"Archived pool"}
    assert set(find(owner, "pool", is_archived=False)) == {"Old pool", "New"}
    assert set(find(owner, "pool", role="user")) == {"Old pool", "Archived pool"}
    assert set(find(owner, "pool", role="assistant")) == {"Old pool", "Archived pool", "New"}


def test_the_index_follows_what_is_added_changed_and_deleted(owner: Member) -> None:
    turn = add_chat(owner, "Checkout", "Before.")
    part = Part.objects.get(text="Before.")
    Part.objects.filter(pk=part.pk).update(text="Afterwards.")
    assert (find(owner, "before"), find(owner, "afterwards")) == ({}, {"Checkout": ["Afterwards."]})
    part.delete()
    assert find(owner, "afterwards") == {}
    rows.said(turn, "Reasons are not searched.", kind="reasoning")
    assert find(owner, "searched") == {}


def test_an_index_that_is_made_later_has_what_was_said_before(owner: Member) -> None:
    search_index.remove(connection)
    try:
        add_chat(owner, "Checkout", "The pool.")
    finally:
        search_index.install(connection)
    assert find(owner, "pool") == {"Checkout": ["The pool."]}


def test_a_long_message_is_indexed_and_shown_around_its_word(owner: Member) -> None:
    add_chat(owner, "Long", "word " * 20_000 + "elephant " + "word " * 20_000)
    (excerpt,) = find(owner, "elephant")["Long"]
    assert excerpt.startswith("…") and excerpt.endswith("…") and "elephant" in excerpt
    assert len(excerpt) <= search.EXCERPT_CHARACTERS + 2


def test_many_different_words_do_not_keep_a_message_from_being_stored(owner: Member) -> None:
    text = " ".join(f"w{number:x}{'y' * 40}" for number in range(60_000))
    add_chat(owner, "Words", text)
    assert set(find(owner, "w1y")) == {"Words"}


@pytest.mark.parametrize("word", ["pool", "chat"], ids=["in messages", "in titles"])
def test_the_limits_are_told(owner: Member, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr(search, "MOST_CHATS", 2)
    for number in range(3):
        add_chat(owner, f"Chat {number}", "The pool.")
    found = search_chats(owner, Search(text=word))
    assert (len(found.chats), found.has_more) == (2, True)


def test_a_search_takes_few_statements(owner: Member, django_assert_max_num_queries: Any) -> None:
    for number in range(10):
        add_chat(owner, f"Chat {number}", "The pool.")
    with django_assert_max_num_queries(3):
        assert len(search_chats(owner, Search(text="pool")).chats) == 10
