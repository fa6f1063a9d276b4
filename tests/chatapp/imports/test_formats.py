"""Each program's file becomes messages, versions, thinking, calls as text and files."""

import json
from datetime import UTC, datetime

import pytest
from django.test import Client

from chatapp.imports.citations import write_sources
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
    picture = ("text", "[Picture, not imported (not in the export)]")
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
                ("text", "[Picture, not imported: map.png (not in the export)]"),
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
        ("user", None, True, [("text", "Which frogs?"), ("file", "")]),
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


# --- what real files have as well --------------------------------------------------------------
def list_texts(conversation: Conversation) -> list[str]:
    parts = Part.objects.filter(message__conversation=conversation, kind="text")
    order = ("message__created_seq", "position")
    return list(parts.order_by(*order).values_list("text", flat=True))


def test_citations_of_chatgpt_become_links_and_other_marks_go(owner: Member) -> None:
    page = {"title": "Heron [bird]", "url": "https://birds.example/heron"}
    with_items, with_alt = "\ue200cite\ue202turn0search1\ue201", "\ue200cite\ue202turn0news2\ue201"
    unknown, thing = "\ue200i\ue202turn0image0\ue201", '\ue200entity\ue202["bird","Crane"]\ue201'
    about = {
        "content_references": [
            {"matched_text": with_items, "type": "grouped_webpages", "alt": None, "items": [page]},
            {"matched_text": with_alt, "alt": "([Ponds](https://ponds.example/))"},
            {"matched_text": " ", "type": "sources_footnote", "sources": [page]},
        ]
    }
    said = f"A heron {with_items} at a pond {with_alt} beside a {thing}.\ue203{unknown}\ue204"
    old = "It is large 【3†source】, as is 【4†source】."
    place = old.index("【3")
    cited = {"start_ix": place, "end_ix": place + 10, "metadata": page | {"type": "webpage"}}
    nodes = [
        samples.gpt_node("q", None, "user", "Which 【bird】?"),
        samples.gpt_node("a", "q", "assistant", said, metadata=about),
        samples.gpt_node("b", "a", "assistant", old, metadata={"citations": [cited]}),
    ]
    link = "[Heron \\[bird\\]](<https://birds.example/heron>)"
    assert list_texts(import_chat(owner, samples.to_json(samples.gpt_chat(*nodes)))) == [
        "Which 【bird】?",
        f"A heron ({link}) at a pond ([Ponds](https://ponds.example/)) beside a Crane.",
        f"It is large  ({link}), as is 【4†source】.",
    ]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "https://a.example/> [x](http://b)"])
def test_a_source_is_a_link_only_to_a_page_of_the_web(address: str) -> None:
    assert write_sources([("Title *of* it", address)]) == "- Title \\*of\\* it"


def test_custom_instructions_of_chatgpt_are_counted(owner: Member) -> None:
    given = {
        "content_type": "user_editable_context",
        "user_profile": "SRE",
        "user_instructions": "",
    }
    hidden = {"is_visually_hidden_from_conversation": True}
    nodes = [
        samples.gpt_node("c", None, "user", content=given, metadata=hidden),
        samples.gpt_node("q", "c", "user", "Hi"),
    ]
    listed = read(owner, samples.to_json(samples.gpt_chat(*nodes))).chats.get()
    assert listed.losses == {"instructions": 1}


def test_citations_and_search_results_of_claude_keep_their_addresses(owner: Member) -> None:
    source = json.loads(json.dumps(samples.CLAUDE))
    answer = source["chat_messages"][1]["content"]
    cited = {"details": {"type": "web_search_citation", "url": "https://birds.example/"}}
    answer[-1]["citations"] = [cited | {"title": "Birds"}, cited | {"title": "Birds"}]
    found = {
        "type": "knowledge",
        "title": "Herons",
        "url": "https://birds.example/h",
        "text": "Forty",
    }
    answer[2]["content"] = [found]
    chat = import_chat(owner, samples.to_json(source))
    assert list_texts(chat)[-2:] == ["There were forty.", "- [Birds](<https://birds.example/>)"]
    assert get_call(chat).outcome == "- [Herons](<https://birds.example/h>)\n\nForty"


def test_a_web_search_of_librechat_becomes_a_list_of_sources(owner: Member) -> None:
    found = {"organic": [{"title": "Cranes", "link": "https://birds.example/c"}], "topStories": []}
    attached = {"type": "web_search", "toolCallId": "call_1", "web_search": found}
    said = "A crane \\ue202turn0search0 \ue200\ue202turn0search0\ue201\ue203is\ue204 tall."
    message = samples.libre_message(
        "l", samples.NO_PARENT, is_user=False, text=said, attachments=[attached]
    )
    data = json.dumps(samples.LIBRECHAT | {"messages": [message]}).encode()
    ready = read(owner, data)
    assert ready.chats.get().losses == {"instructions": 1}
    made = run(ready).chats.get().conversation
    assert made is not None
    assert list_texts(made) == ["A crane  is tall.", "- [Cranes](<https://birds.example/c>)"]


def test_a_newer_answer_of_open_webui_has_its_calls_by_name(owner: Member) -> None:
    source = json.loads(json.dumps(samples.OPEN_WEBUI))
    source["updated_at"] = 1_740_000_030_000_000_000
    messages = source["chat"]["history"]["messages"]
    messages["w1"]["content"] = [
        {"type": "text", "text": "Which frogs?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    page = {"name": "frogs.txt", "file": {"data": {"content": "Two frogs"}}, "type": "file"}
    messages["w1"]["files"] = [page]
    messages["w2"] |= {
        "content": '<details type="tool_calls"><summary>Tool Executed</summary>"2"</details>Two.',
        "output": [
            {"type": "reasoning", "content": [{"type": "output_text", "text": "Look."}]},
            {"type": "function_call", "call_id": "c", "name": "count", "arguments": '{"pond": 1}'},
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "2"}],
                "status": "completed",
            },
            {"type": "message", "content": [{"type": "output_text", "text": "Two."}]},
        ],
        "sources": [{"source": {"name": "Ponds", "url": "https://ponds.example/"}, "document": []}],
    }
    chat = import_chat(owner, samples.to_json(source))
    described = describe(chat)
    question = [("text", "Which frogs?"), ("file", ""), ("file", "")]
    assert described[0][3] == question
    assert described[1][3] == [
        ("reasoning", "Look."),
        ("copied_call", ""),
        ("text", "Two."),
        ("text", "- [Ponds](<https://ponds.example/>)"),
    ]
    call = get_call(chat)
    assert (call.tool_id, call.arguments, call.outcome) == ("count", '{"pond": 1}', "2")
    assert chat.active_at == datetime.fromtimestamp(1_740_000_030, UTC)


def test_an_edited_answer_of_open_webui_has_its_edited_text(owner: Member) -> None:
    source = json.loads(json.dumps(samples.OPEN_WEBUI))
    old = {"type": "message", "content": [{"type": "output_text", "text": "Three."}]}
    source["chat"]["history"]["messages"]["w2"] |= {"content": "Two.", "output": [old]}
    assert "Two." in list_texts(import_chat(owner, samples.to_json(source)))


def test_a_chat_of_open_webui_without_its_row_is_read(owner: Member) -> None:
    chat = import_chat(owner, samples.to_json(samples.OPEN_WEBUI["chat"]))
    assert (chat.title, chat.imported_from, chat.messages.count()) == ("Frogs", "Open WebUI", 3)
