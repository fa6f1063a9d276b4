"""The assistant and the service together: each sentence to its end, by the real tools over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from mcp import Client

from chatapp.demo import notebook
from chatapp.demo.assistant.script import choose_step
from chatapp.demo.listener import Listener
from chatapp.models import Note
from chatapp.providers.request import AskedTool, ModelRequest, ToolOutcome, ToolSpec, UserMessage
from tests.chatapp.demo.peer import connected, text_of

from .conversation import request, said


@pytest.fixture(scope="module")
def service() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.stop()


@pytest.fixture(autouse=True)
def notes(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "ARCHIVE_VOLUME_SECONDS", 0)
    Note.objects.create(title="Groceries", text="- bread\n- oat milk")
    Note.objects.create(title="Ideas", text="milk bottles as lanterns")
    Note.objects.create(title="Old ideas", text="a clock that runs backwards")


async def offered(client: Client) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(
            name=f"notebook_{tool.name}",
            description=tool.description or "",
            input_schema=tool.input_schema,
        )
        for tool in (await client.list_tools()).tools
    )


async def call(client: Client, asked: AskedTool) -> ToolOutcome:
    result: Any = await client.call_tool(
        asked.name.removeprefix("notebook_"), json.loads(asked.arguments)
    )
    return ToolOutcome(
        call_id=asked.call_id, name=asked.name, text=text_of(result), is_error=result.is_error
    )


def check_arguments(asked: AskedTool, tools: tuple[ToolSpec, ...]) -> None:
    schema = next(tool.input_schema for tool in tools if tool.name == asked.name)
    jsonschema.validate(json.loads(asked.arguments), schema)


async def whole_turn(service: Listener, text: str) -> tuple[str, int]:
    """The last answer, and how many rounds of calls it took."""
    async with connected(service.url) as client:
        tools = await offered(client)
        asking: ModelRequest = request(UserMessage(text=text), tools=tools)
        for rounds in range(5):
            step = choose_step(asking)
            if not step.calls:
                return step.text, rounds
            for asked in step.calls:
                check_arguments(asked, tools)
            outcomes = [await call(client, asked) for asked in step.calls]
            asking = request(*asking.history, said(step), *outcomes, tools=tools)
    raise AssertionError("The script did not come to an end.")


TURNS = [
    ("what notes are there", 1, ["**3**", "| Groceries | bread", "| Ideas |"]),
    ("read the note groceries", 1, ["### Groceries", "> - oat milk"]),
    ("read Groceries and Ideas", 1, ["### Groceries", "### Ideas", "> milk bottles"]),
    ("read all my notes", 2, ["> - bread", "> milk bottles", "> a clock"]),
    ("search my notes for clock", 1, ["**1**", "| Old ideas | a clock"]),
    ("find notes about milk and read them", 2, ["**2**", "> - bread", "> milk bottles"]),
    ("create a note called Plans: a boat", 1, ["### Plans", "> a boat"]),
    ("create a note called Groceries: x", 1, ["**did not succeed**", "title: a note called"]),
    ("add lemons to Groceries", 1, ["### Groceries", "> - lemons"]),
    ("delete the note Old ideas", 1, ["**Old ideas** is deleted", "> a clock"]),
    ("delete Old ideas and Nothing", 1, ["is deleted", "**Nothing** **did not succeed**"]),
    ("search the archive for lighthouse", 1, ["| Volume 3, The harbour |", "searched: 5"]),
    ("search the archive for dragons", 1, ["None."]),
    (
        "read the locked note",
        1,
        ["`notebook_read_locked_note` **did not succeed**", "The note “Diary”"],
    ),
    ("think about milk", 1, ["**2**", "scripted"]),
    ('use notebook_read_note {"title": "Ideas"}', 1, ["### Ideas"]),
    ("use notebook_list_notes then notebook_read_locked_note", 2, ["**3**", "**did not succeed**"]),
    ("help", 0, ["not a language model"]),
]


@pytest.mark.parametrize(("text", "rounds", "told"), TURNS, ids=[text for text, _, _ in TURNS])
async def test_a_sentence_is_carried_out_and_answered_from_the_results(
    service: Listener, text: str, rounds: int, told: list[str]
) -> None:
    answer, took = await whole_turn(service, text)
    assert took == rounds
    for words in told:
        assert words in answer


async def test_what_the_assistant_changed_is_in_the_rows(service: Listener) -> None:
    await whole_turn(service, "add lemons to Groceries")
    await whole_turn(service, "delete the note Old ideas")
    await whole_turn(service, 'create a note called "Salt and pepper": grind | both')
    rows = {note.title: note.text async for note in Note.objects.all()}
    assert rows == {
        "Groceries": "- bread\n- oat milk\n- lemons",
        "Ideas": "milk bottles as lanterns",
        "Salt and pepper": "grind | both",
    }
