"""Which plain sentences the demo assistant understands, and which calls they become."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.demo.assistant.scenes import (
    MAX_TITLES,
    OTHERWISE,
    SCENES,
    SENTENCE_MAX_CHARACTERS,
    split_titles,
    understand,
)
from chatapp.demo.assistant.texts import HELP, TOOLS, TOUR
from chatapp.tools.core import core_tool


def notes(tool: str, *titles: str) -> list[tuple[str, dict[str, Any]]]:
    return [(f"notebook_{tool}", {"title": title}) for title in titles]


SENTENCES: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("what notes are there", [("notebook_list_notes", {})]),
    ("Which notes do I have?", [("notebook_list_notes", {})]),
    ("Show me all my notes, please.", [("notebook_list_notes", {})]),
    ("@notebook what notes are there", [("notebook_list_notes", {})]),
    ("Could you please read the note called Groceries?", notes("read_note", "Groceries")),
    ("open A, B, and the note C.", notes("read_note", "A", "B", "C")),
    ('read "Salt and pepper" and Ideas', notes("read_note", "Salt and pepper", "Ideas")),
    ("search my notes for oat milk", [("notebook_search_notes", {"query": "oat milk"})]),
    ("Find notes about milk and read them", [("notebook_search_notes", {"query": "milk"})]),
    (
        "Create a note called Empty",
        [("notebook_create_note", {"title": "Empty", "text": ""})],
    ),
    (
        'make a note called "Trip: Rome": pack light!',
        [("notebook_create_note", {"title": "Trip: Rome", "text": "pack light!"})],
    ),
    (
        "create a note called L:\n- a\n- b",
        [("notebook_create_note", {"title": "L", "text": "- a\n- b"})],
    ),
    (
        "add a letter to Ada to the note Ideas.",
        [("notebook_append_to_note", {"title": "Ideas", "text": "a letter to Ada"})],
    ),
    ("delete Old ideas and Groceries", notes("delete_note", "Old ideas", "Groceries")),
    ("search the archive for lighthouse", [("notebook_search_archive", {"query": "lighthouse"})]),
    ("read the locked note", [("notebook_read_locked_note", {})]),
    ("think hard about deleting Groceries", [("notebook_search_notes", {"query": "Groceries"})]),
]
CORE_SENTENCES: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("What time is it in Tokyo?", [("current-time", {"zone": "Tokyo"})]),
    ("what's the time", [("current-time", {"zone": "UTC"})]),
    ("Please remember that I like tea.", [("remember", {"text": "I like tea"})]),
    ("remember: reports go out on Mondays", [("remember", {"text": "reports go out on Mondays"})]),
    ("What do you remember?", [("recall", {"words": ""})]),
    ("what do you know about me", [("recall", {"words": ""})]),
    ("what do you remember about tea?", [("recall", {"words": "tea"})]),
    ("search my chats for milk", [("search-conversations", {"words": "milk"})]),
    ("Which services are there?", [("list-services", {})]),
    ("make a plan: a and b", [("make-plan", {"steps": ["a", "b"], "doing": 1})]),
]
Calls = list[tuple[str, str]]


def rounds_of(text: str) -> list[Calls]:
    _, rounds = understand(text)
    return [[(call.name, call.arguments) for call in calls] for calls in rounds]


def first_round(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(tool_id, json.loads(arguments)) for tool_id, arguments in rounds_of(text)[0]]


@pytest.mark.parametrize(("text", "calls"), [*SENTENCES, *CORE_SENTENCES])
def test_a_sentence_becomes_the_calls_that_it_needs(
    text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    assert first_round(text) == calls


@pytest.mark.parametrize("text", [*(text for text, _ in CORE_SENTENCES), "ask me something"])
def test_a_core_tool_takes_its_arguments(text: str) -> None:
    for tool_id, arguments in first_round(text):
        tool = core_tool(tool_id)
        assert tool is not None
        tool.validate(arguments)


@pytest.mark.parametrize("text", ["read all my notes", "find notes about milk and read them"])
def test_a_sentence_may_ask_to_read_what_is_found(text: str) -> None:
    assert understand(text)[0].reads_found
    assert not understand("find notes about milk")[0].reads_found


@pytest.mark.parametrize(
    ("text", "page"), [("Show me everything you can do", TOUR), ("What tools do you have?", TOOLS)]
)
def test_some_sentences_ask_for_a_page(text: str, page: str) -> None:
    scene, rounds = understand(text)
    assert (scene.page, rounds) == (page, ())


@pytest.mark.parametrize("text", ["remove milk from Groceries", "use your head", "help", ""])
def test_any_other_sentence_asks_for_help(text: str) -> None:
    assert understand(text) == (OTHERWISE, ())


@pytest.mark.parametrize("text", re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", HELP))
def test_each_example_of_the_help_is_understood(text: str) -> None:
    scene, rounds = understand(text)
    assert rounds or scene.page != HELP


def test_tools_are_used_by_id_with_the_arguments_as_they_were_written() -> None:
    text = 'use everything_echo {"message":  "hi @ada, then and", "n": 1.0}'
    arguments = '{"message":  "hi @ada, then and", "n": 1.0}'
    assert rounds_of(text) == [[("everything_echo", arguments)]]


def test_and_uses_tools_together_and_then_one_after_another() -> None:
    text = 'call a_b {"x": {"y": 1}} and c_d then use e-f_g.h {"z": 2}'
    together = [("a_b", '{"x": {"y": 1}}'), ("c_d", "{}")]
    assert rounds_of(text) == [together, [("e-f_g.h", '{"z": 2}')]]


@pytest.mark.parametrize("arguments", ["{broken", "{" * 90_000, '{"text": "' + "x" * 50_000 + '"}'])
def test_unreadable_and_long_arguments_are_passed_on_as_they_are(arguments: str) -> None:
    assert rounds_of(f"use the tool a_b with {arguments}") == [[("a_b", arguments)]]


def test_a_longer_text_than_any_sentence_is_compared_with_no_pattern() -> None:
    """Some patterns take quadratic time, so that a long text would stop the event loop."""
    longest = "delete " + "x" * (SENTENCE_MAX_CHARACTERS - len("delete "))
    assert understand(longest) != (OTHERWISE, ())
    assert understand(longest + "x") == (OTHERWISE, ())


@given(st.text(alphabet=st.sampled_from("aB \"“”',&.and "), max_size=60))
def test_titles_are_never_empty_doubled_or_too_many(text: str) -> None:
    titles = split_titles(text)
    assert all(titles)
    assert len(set(titles)) == len(titles) <= MAX_TITLES


@given(st.text(max_size=200))
def test_any_text_is_understood_as_something(text: str) -> None:
    assert understand(text)[0] in (*SCENES, OTHERWISE)
