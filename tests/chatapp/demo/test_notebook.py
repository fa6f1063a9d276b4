"""The demo service's tools, called by a real client over real HTTP in both eras of the protocol."""

import asyncio
import threading

import pytest
from django.db import connection

from chatapp.demo.archive import VOLUMES
from chatapp.demo.listener import Listener
from chatapp.demo.notebook import TOOLS, list_notes
from chatapp.models import Note

from .peer import ERAS, connected, text_of

WRITES = {"create_note", "append_to_note", "delete_note"}


@pytest.mark.parametrize("mode", ERAS)
async def test_both_eras_list_every_tool_with_words_for_people(
    service: Listener, mode: str
) -> None:
    async with connected(service.url, mode) as client:
        tools = (await client.list_tools()).tools
        assert client.protocol_version == ERAS[mode]
        assert client.server_info is not None
        assert client.server_info.title == "Demo notebook"
    assert [tool.name for tool in tools] == [tool.__name__ for tool, _, _ in TOOLS]
    assert all(tool.title and tool.description for tool in tools)


async def test_hints_tell_reading_adding_and_deleting_apart(service: Listener) -> None:
    async with connected(service.url) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    for name, hint in hints.items():
        assert hint is not None
        assert hint.read_only_hint is (name not in WRITES)
        assert bool(hint.destructive_hint) is (name == "delete_note")
        assert hint.open_world_hint is False


@pytest.mark.parametrize("mode", ERAS)
async def test_a_note_lives_from_creation_to_deletion(
    service: Listener, notes: None, mode: str
) -> None:
    async with connected(service.url, mode) as client:
        await client.call_tool("create_note", {"title": "Plans", "text": "a boat"})
        await client.call_tool("append_to_note", {"title": "plans", "text": "a bridge"})
        read = await client.call_tool("read_note", {"title": "PLANS"})
        assert read.structured_content is not None
        assert read.structured_content["title"] == "Plans"
        assert read.structured_content["text"] == "a boat\na bridge"
        deleted = await client.call_tool("delete_note", {"title": "Plans"})
        assert deleted.structured_content == {
            "title": "Plans",
            "deleted_text": "a boat\na bridge",
        }
    assert not await Note.objects.filter(title="Plans").aexists()
    assert await Note.objects.acount() == 2


async def test_listing_shows_each_note_with_its_first_line(service: Listener, notes: None) -> None:
    async with connected(service.url) as client:
        result = await client.call_tool("list_notes", {})
    assert result.structured_content is not None
    lines = [(note["title"], note["excerpt"]) for note in result.structured_content["notes"]]
    assert lines == [("Groceries", "bread"), ("Ideas", "a paper boat")]


async def test_a_search_needs_every_word_and_quotes_the_line(
    service: Listener, notes: None
) -> None:
    async with connected(service.url) as client:
        found = await client.call_tool("search_notes", {"query": "MILK bread"})
        none = await client.call_tool("search_notes", {"query": "milk boat"})
        blank = await client.call_tool("search_notes", {"query": "   "})
    assert found.structured_content is not None and none.structured_content is not None
    assert [note["title"] for note in found.structured_content["notes"]] == ["Groceries"]
    assert none.structured_content["notes"] == []
    assert blank.is_error and "query" in text_of(blank)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read_note", {"title": "Nowhere"}, "title: no note is called “Nowhere”"),
        ("delete_note", {"title": "Nowhere"}, "title: no note is called “Nowhere”"),
        ("append_to_note", {"title": "Nowhere", "text": "x"}, "title: no note is called"),
        ("create_note", {"title": "groceries"}, "title: a note called “groceries” exists"),
        ("create_note", {"title": "   "}, "title: must not be blank"),
        ("create_note", {"title": "x" * 121}, "title"),
        ("create_note", {"text": "no title"}, "title"),
        ("append_to_note", {"title": "Ideas", "text": ""}, "text"),
        ("search_archive", {"query": "  "}, "query"),
        ("read_locked_note", {}, "locked"),
    ],
)
async def test_an_error_names_the_field_at_fault_and_changes_nothing(
    service: Listener, notes: None, tool: str, arguments: dict[str, str], said: str
) -> None:
    before = [note async for note in Note.objects.values_list("title", "text")]
    async with connected(service.url) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert said in text_of(result)
    assert [note async for note in Note.objects.values_list("title", "text")] == before


async def test_of_notes_made_at_once_with_one_title_only_the_first_is_kept(
    service: Listener, notes: None
) -> None:
    async with connected(service.url) as client:
        made = [
            client.call_tool("create_note", {"title": "Same", "text": str(n)}) for n in range(6)
        ]
        results = await asyncio.gather(*made)
    refused = [result for result in results if result.is_error]
    assert len(refused) == 5
    assert all("title: a note called “Same”" in text_of(result) for result in refused)
    assert await Note.objects.filter(title="Same").acount() == 1


async def test_a_full_notebook_takes_no_more_notes(
    service: Listener, notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Note, "NOTES_MAX", 2)
    async with connected(service.url) as client:
        result = await client.call_tool("create_note", {"title": "One more"})
    assert result.is_error and "full" in text_of(result)
    assert await Note.objects.acount() == 2


async def test_a_note_that_is_full_keeps_its_text(service: Listener, notes: None) -> None:
    await Note.objects.filter(title="Ideas").aupdate(text="x" * Note.TEXT_MAX)
    async with connected(service.url) as client:
        result = await client.call_tool("append_to_note", {"title": "Ideas", "text": "y"})
    assert result.is_error and "text" in text_of(result)
    assert (await Note.objects.aget(title="Ideas")).text == "x" * Note.TEXT_MAX


async def test_a_line_added_to_a_list_becomes_its_next_item(service: Listener, notes: None) -> None:
    await Note.objects.filter(title="Ideas").aupdate(text="Ideas:\n- one")
    async with connected(service.url) as client:
        for text in ("two", "- three"):
            await client.call_tool("append_to_note", {"title": "Ideas", "text": text})
    assert (await Note.objects.aget(title="Ideas")).text == "Ideas:\n- one\n- two\n- three"


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("", ""),
        ("\n\n  plain", "plain"),
        ("- item", "item"),
        ("## Head", "Head"),
        ("> 1. quoted item", "quoted item"),
        ("**bold** word", "**bold** word"),
        ("x" * 130, "x" * 119 + "…"),
    ],
)
def test_an_excerpt_is_one_short_line_without_list_marks(text: str, excerpt: str) -> None:
    assert Note(title="t", text=text).excerpt() == excerpt


async def test_lines_added_at_the_same_time_are_all_kept(service: Listener, notes: None) -> None:
    async with connected(service.url) as client:
        added = [
            client.call_tool("append_to_note", {"title": "Ideas", "text": f"idea {n}"})
            for n in range(8)
        ]
        results = await asyncio.gather(*added)
    assert not any(result.is_error for result in results)
    lines = (await Note.objects.aget(title="Ideas")).text.splitlines()
    assert sorted(lines[1:]) == [f"idea {n}" for n in range(8)]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_slow_tool_reports_each_volume_and_then_answers(
    service: Listener, mode: str
) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with connected(service.url, mode) as client:
        result = await client.call_tool(
            "search_archive", {"query": "lighthouse"}, progress_callback=hear
        )
    assert result.structured_content is not None
    volumes = [line["volume"] for line in result.structured_content["found"]]
    assert volumes == ["Volume 3, The harbour", "Volume 5, Letters"]
    # The last report may be overtaken by the answer; those of the volumes may not.
    assert [message for _, _, message in heard][: len(VOLUMES)] == [
        f"Reading {volume.name}" for volume in VOLUMES
    ]
    assert all(total == len(VOLUMES) for _, total, _ in heard)


def test_a_tool_leaves_no_connection_open_in_its_thread(notes: None) -> None:
    left_open: list[bool] = []

    def work() -> None:
        assert list_notes().notes
        left_open.append(connection.connection is not None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=10)
    assert left_open == [False]
