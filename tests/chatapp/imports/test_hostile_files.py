"""Broken, huge and hostile files: a sentence that says what to do, and nothing half imported."""

import json
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chatapp.imports import archive, chat_tree
from chatapp.models import ChatImport, Conversation, ImportPiece, Member
from chatapp.models.conversations.copied_call import CopiedCall

from . import samples
from .acts import describe, import_chat, read, run
from .samples import CHATGPT, gpt_chat, gpt_node, to_json, to_zip

pytestmark = pytest.mark.django_db
ENCRYPTED = bytearray(to_zip({"conversations.json": to_json(CHATGPT)}))
for _signature, _offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
    ENCRYPTED[ENCRYPTED.index(_signature) + _offset] |= 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"   \n", "This file is empty."),
        (b"hello", "not valid JSON"),
        (b'{"a": ', "cut off or damaged"),
        (b"[" * 300_000, "nested too deeply"),
        (b'{"messagesTree": [' + b'{"children": [' * 600 + b"]}" * 601, "the option “Recursive”"),
        (b'[{"mapping": {}, "n": ' + b"9" * 5_000 + b"}]", "not valid JSON"),
        ('[{"title": "Käfer"}]'.encode("utf-16"), "not UTF-8 text"),
        ('[{"title": "Käfer"}]'.encode("latin-1"), "not UTF-8 text"),
        (b"[1, 2, null]", "no chats that Countersign knows"),
        (b'[{"name": "x"}]', "no chats that Countersign knows"),
        (b"PK\x03\x04 and no archive", "This ZIP file is damaged."),
        (to_zip({"conversations.json": to_json(CHATGPT)})[:-200], "This ZIP file is damaged."),
        (to_zip({"photo.png": b"x"}), "no chats in JSON"),
        (bytes(ENCRYPTED), "cannot be unpacked here"),
    ],
)
def test_a_file_that_cannot_be_read_says_so_and_is_forgotten(
    owner: Member, data: bytes, words: str
) -> None:
    refused = read(owner, data)
    assert (refused.state, words in refused.problem) == ("refused", True), refused.problem
    assert not ImportPiece.objects.exists()
    assert not refused.chats.exists()


def test_a_file_that_breaks_off_offers_the_chats_before_the_break(owner: Member) -> None:
    second = gpt_chat(gpt_node("a", None, "user", "Hi"), id="2", conversation_id="2")
    ready = read(owner, to_json(CHATGPT, second)[:-40])
    assert ready.state == "ready"
    assert "cut off or damaged" in ready.problem
    assert [each.title for each in ready.chats.all()] == ["Ponds"]
    assert run(ready).state == "done"
    assert Conversation.objects.get().messages.count() == 5


def test_a_zip_bomb_ends_at_the_limit(owner: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 3_000_000)
    bomb = to_zip({"conversations.json": b"[" + b" " * 20_000_000})
    assert len(bomb) < 100_000
    assert "more than 500 MB of text" in read(owner, bomb).problem


def test_one_huge_chat_is_not_held_in_memory(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_CHAT_CHARACTERS", 2_000_000)
    assert "64 million characters" in read(owner, b'[{"title": "' + b"x" * 9_000_000).problem


def test_an_archive_with_a_huge_list_of_contents_is_refused(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_CONTENTS_BYTES", 1_000)
    refused = read(owner, to_zip({f"{number}.json": b"" for number in range(100)}))
    assert "too many files" in refused.problem


def test_a_list_of_contents_that_hides_its_length_is_refused(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of ZIP64 has the length that counts, and the end of the archive another one."""
    monkeypatch.setattr(archive, "MAX_CONTENTS_BYTES", 70_000)
    packed = to_zip({f"{number}.json": b"" for number in range(2_000)})
    end = packed.rindex(b"PK\x05\x06")
    length, offset = struct.unpack_from("<LL", packed, end + 12)
    assert length > 70_000
    record = struct.pack("<LQHHLLQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 2_000, 2_000, length, offset)
    locator = struct.pack("<LLQL", 0x07064B50, 0, end, 1)
    small = bytearray(packed[end:])
    struct.pack_into("<L", small, 12, 46)
    refused = read(owner, packed[:end] + record + locator + bytes(small))
    assert "too many files" in refused.problem


def test_a_chat_of_millions_of_tiny_values_is_not_built(owner: Member) -> None:
    bomb = b'[{"mapping": {"a": [' + b"[]," * 2_100_000 + b"1]}}]"
    assert "too many parts" in read(owner, bomb).problem


def test_a_file_of_very_many_tiny_values_ends_at_the_limit(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_VALUES", 1_000)
    assert "too many entries" in read(owner, b"[" + b"1," * 1_001 + b"1]").problem


def test_a_chat_with_too_many_messages_is_listed_but_not_imported(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_tree, "MAX_MESSAGES", 4)
    ready = read(owner, to_json(CHATGPT, samples.CLAUDE))
    large, small = ready.chats.all()
    assert (large.problem, large.is_selected) == ("It has more than 10,000 messages.", False)
    assert small.is_selected
    run(ready)
    assert Conversation.objects.get().title == "Heron report"


def test_circles_gaps_and_doubles_of_a_tree_lose_no_message(owner: Member) -> None:
    nodes = [
        gpt_node("a", "c", "user", "one"),
        gpt_node("b", "a", "assistant", "two"),
        gpt_node("c", "b", "user", "three"),
        gpt_node("d", "nowhere", "user", "four"),
        gpt_node("e", "e", "user", "five"),
    ]
    ready = read(owner, to_json(gpt_chat(*nodes, current="b")))
    assert ready.chats.get().losses["links"] == 3
    done = run(ready)
    chat = done.chats.get().conversation
    assert chat is not None
    found = describe(chat)
    assert sorted(parts[0][1] for *_, parts in found) == ["five", "four", "one", "three", "two"]
    shown = [parts[0][1] for _role, _parent, is_shown, parts in found if is_shown]
    assert shown == ["one", "two", "three"]


def test_a_long_chat_is_read_without_recursion(owner: Member) -> None:
    nodes = [gpt_node("0", None, "user", "0")]
    for number in range(1, 3_000):
        role = "assistant" if number % 2 else "user"
        nodes.append(gpt_node(str(number), str(number - 1), role, str(number)))
    chat = import_chat(owner, to_json(gpt_chat(*nodes)))
    assert chat.messages.filter(is_shown=True).count() == 3_000


def test_titles_lose_what_nobody_sees_and_what_is_too_long(owner: Member) -> None:
    nasty = gpt_chat(gpt_node("a", None, "user", "Hi"), title="a\x00b\u202etxt\ufeff" + "x" * 500)
    title = import_chat(owner, to_json(nasty)).title
    assert len(title) == 80
    assert title.startswith("a b txt") and title.endswith("…")


def test_a_chat_without_a_title_has_its_first_words(owner: Member) -> None:
    untitled = gpt_chat(gpt_node("a", None, "user", "Where is\nthe pond?"), title=None)
    assert import_chat(owner, to_json(untitled)).title == "Where is the pond?"


def test_texts_with_characters_that_no_database_stores_are_kept(owner: Member) -> None:
    call = gpt_node("c", "a", "assistant", '{"x": "\ud800\x00"}', recipient="to ol\x00!")
    nodes = [gpt_node("a", None, "user", "\x00 \ud800 \u202e right"), call]
    chat = import_chat(owner, to_json(gpt_chat(*nodes)))
    first, last = chat.messages.order_by("created_seq")
    assert first.parts.get().text == "\ufffd ? \u202e right"
    copied = CopiedCall.read(last.parts.get().copied_call)
    assert copied.tool_id == "to_ol"
    json.loads(copied.arguments)


def test_dates_in_the_future_or_missing_are_replaced(owner: Member) -> None:
    far = 1e999
    nodes = [
        gpt_node("a", None, "user", "one", seconds=10),
        gpt_node("b", "a", "assistant", "two", seconds=9e9),
        gpt_node("c", "b", "user", "three", seconds=far),
    ]
    before = datetime.now(UTC)
    chat = gpt_chat(*nodes, create_time=far, update_time="yesterday")
    ready = read(owner, to_json(chat))
    assert ready.chats.get().losses["dates"] == 2
    made = run(ready).chats.get().conversation
    assert made is not None
    times = set(made.messages.values_list("created_at", flat=True))
    assert times == {datetime.fromtimestamp(samples.BEGUN + 10, UTC)}
    assert made.active_at < before


def test_a_chat_without_any_date_has_that_of_the_import(owner: Member) -> None:
    message = samples.libre_message("l", samples.NO_PARENT, is_user=True, text="Hi", createdAt=None)
    chat = import_chat(owner, json.dumps(samples.LIBRECHAT | {"messages": [message]}).encode())
    assert datetime.now(UTC) - chat.active_at < timedelta(minutes=5)


def test_unknown_roles_and_types_are_counted_and_what_follows_stays(owner: Member) -> None:
    odd: list[Any] = [
        gpt_node("a", None, "user", "one"),
        gpt_node("b", "a", "critic", "?"),
        gpt_node("c", "b", "assistant", "two", {"content_type": "hologram"}, 7),
        {"id": "d", "message": "text", "parent": ["c"], "children": None},
        None,
    ]
    chat = gpt_chat(*odd[:4])
    chat["mapping"]["e"] = odd[4]
    ready = read(owner, to_json(chat))
    assert ready.chats.get().losses["unknown"] == 3
    made = run(ready).chats.get().conversation
    assert made is not None
    assert [(role, parts[0][1]) for role, _, _, parts in describe(made)] == [
        ("user", "one"),
        ("assistant", "two"),
    ]


@pytest.mark.parametrize(
    "chat",
    [
        {"mapping": {"a": {"message": {"author": 5, "content": [], "metadata": 1}}}},
        {"chat_messages": [None, 5, {"sender": "human", "content": {"a": 1}, "files": "x"}]},
        {"messages": [{"isCreatedByUser": "yes", "content": [5], "children": 5}]},
        {"chat": {"history": {"messages": {"a": {"role": ["user"], "files": {}}}}}},
        {"format": "countersign-chat", "version": 1, "chat": [], "messages": {"a": 1}},
    ],
)
def test_a_chat_of_wrong_types_has_no_messages(owner: Member, chat: dict[str, Any]) -> None:
    ready = read(owner, to_json(chat))
    assert ready.chats.get().problem == "It has no messages."


def test_details_without_an_end_stay_text(owner: Member) -> None:
    content = '<details type="reasoning" done="false">\n<summary>Thinking'
    source = json.loads(to_json(samples.OPEN_WEBUI))
    source[0]["chat"]["history"]["messages"]["w2"]["content"] = content
    chat = import_chat(owner, json.dumps(source).encode())
    assert describe(chat)[1][3] == [("text", content)]


def test_a_person_has_one_open_import(owner: Member, stranger: Member) -> None:
    read(owner, to_json(CHATGPT))
    with pytest.raises(Exception, match="Another import is open"):
        read(owner, to_json(CHATGPT))
    assert read(stranger, to_json(CHATGPT)).state == "ready"
    assert ChatImport.objects.filter(person=owner).count() == 1
