"""Each program's file becomes messages, versions, thinking, calls as text and files."""

import json
from datetime import UTC, datetime

import pytest
from django.test import Client

from chatapp.models import Conversation, Member, Part
from chatapp.models.conversations.copied_call import CopiedCall

from . import samples
from .acts import describe, import_chat, read, run

pytestmark = pytest.mark.django_db


def get_call(conversation: Conversation) -> CopiedCall:
    part = Part.objects.get(message__conversation=conversation, kind="copied_call")
    return CopiedCall.read(part.copied_call)


def test_a_chat_of_chatgpt_keeps_versions_thinking_calls_and_dates(owner: Member) -> None:
    chat = import_chat(
        owner, samples.to_zip({"conversations.json": samples.to_json(samples.CHATGPT)})
    )
    picture = ("text", "[Picture, not imported]")
    assert describe(chat) == [
        ("user", None, True, [picture, ("text", "How deep is this pond?")]),
        ("assistant", 0, False, [("text", "About a metre.")]),
        (
            "assistant",
            0,
            True,
            [
                ("reasoning", "**Depth**\n\nMeasure it."),
                ("copied_call", ""),
                ("text", "It is **four** metres deep."),
            ],
        ),
        ("user", 2, True, [("text", "Thanks")]),
        ("assistant", 3, True, [("text", "With pleasure.")]),
    ]
    call = get_call(chat)
    assert (call.tool_id, call.arguments, call.outcome) == (
        "python",
        '{"input": "print(2 + 2)"}',
        "4",
    )
    assert chat.title == "Ponds"
    assert chat.created_at == datetime.fromtimestamp(samples.BEGUN, UTC)
    assert chat.active_at == datetime.fromtimestamp(samples.BEGUN + 500, UTC)
    first = chat.messages.order_by("created_seq").first()
    assert first is not None
    assert first.created_at == datetime.fromtimestamp(samples.BEGUN + 10, UTC)


def test_a_split_export_of_chatgpt_is_read_as_a_whole(owner: Member) -> None:
    second = samples.CHATGPT | {"conversation_id": "second", "title": "Second"}
    files = {
        "Export/conversations-001.json": samples.to_json(second),
        "Export/conversations-000.json": samples.to_json(samples.CHATGPT),
        "Export/user.json": b"{}",
        "Export/file-AbCd.png": b"not read",
    }
    ready = read(owner, samples.to_zip(files))
    assert [each.title for each in ready.chats.all()] == ["Ponds", "Second"]
    assert ready.source == "ChatGPT"


def test_a_chat_of_claude_keeps_the_text_of_its_files(owner: Member) -> None:
    chat = import_chat(owner, samples.to_json(samples.CLAUDE))
    assert describe(chat) == [
        (
            "user",
            None,
            True,
            [
                ("text", "Summarise the report."),
                ("file", ""),
                ("text", "[Picture, not imported: map.png]"),
            ],
        ),
        (
            "assistant",
            0,
            True,
            [("reasoning", "Count them."), ("copied_call", ""), ("text", "There were forty.")],
        ),
    ]
    attached = Part.objects.get(message__conversation=chat, kind="file").attachment
    assert (attached.name, attached.file.words) == ("herons.txt", "Forty herons in March")
    assert attached.owner == owner
    call = get_call(chat)
    assert (call.title, call.arguments, call.outcome, call.is_error) == (
        "web_search",
        '{"query": "herons"}',
        "Found: herons",
        False,
    )


@pytest.mark.parametrize("source", [samples.LIBRECHAT, samples.LIBRECHAT_TREE])
def test_a_chat_of_librechat_is_read_as_a_list_and_as_a_tree(
    owner: Member, source: dict[str, object]
) -> None:
    chat = import_chat(owner, json.dumps(source).encode())
    assert describe(chat) == [
        ("user", None, True, [("text", "Name a bird.")]),
        ("assistant", 0, False, [("text", "A heron.")]),
        (
            "assistant",
            0,
            True,
            [("reasoning", "Another one."), ("copied_call", ""), ("text", "A crane.")],
        ),
    ]
    assert get_call(chat).outcome == "crane"
    assert (chat.title, chat.imported_from) == ("Birds", "LibreChat")


def test_a_chat_of_open_webui_has_thinking_and_calls_out_of_its_html(owner: Member) -> None:
    chat = import_chat(owner, samples.to_json(samples.OPEN_WEBUI))
    assert describe(chat) == [
        ("user", None, True, [("text", "Which frogs?"), ("text", "[Picture, not imported]")]),
        (
            "assistant",
            0,
            True,
            [
                ("reasoning", "Is it a frog?\nYes."),
                ("copied_call", ""),
                ("text", "There are two frogs."),
            ],
        ),
        ("assistant", 0, False, [("text", "None.")]),
    ]
    call = get_call(chat)
    assert (call.tool_id, call.arguments, call.outcome) == (
        "find_frogs",
        '{"pond": 1}',
        "two frogs",
    )


def test_an_own_export_comes_back(owner: Member, owner_client: Client) -> None:
    first = import_chat(owner, samples.to_json(samples.CHATGPT))
    exported = owner_client.get(f"/c/{first.pk}/export", {"format": "json", "tools": "full"})
    data = b"".join(exported) if exported.streaming else exported.content
    ready = read(owner, data)
    assert ready.source == "Countersign"
    listed = ready.chats.get()
    assert (listed.twin, listed.is_selected) == (first, False)
    ready.chats.update(is_selected=True)
    run(ready)
    again = ready.chats.get().conversation
    assert again is not None
    assert again != first
    assert describe(again) == describe(first)
    assert get_call(again).outcome == get_call(first).outcome


def test_a_newer_version_of_the_own_format_is_refused(owner: Member) -> None:
    ready = read(owner, b'{"format": "countersign-chat", "version": 2, "chat": {}, "messages": []}')
    assert ready.chats.get().problem == "It is of a newer version of Countersign."
