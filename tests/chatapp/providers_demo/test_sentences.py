"""Which plain sentences the demo assistant understands, and as what."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.providers.demo_sentences import TITLES_AT_ONCE, titles_of, understand
from chatapp.providers.demo_wishes import (
    AppendToNote,
    AskForHelp,
    CreateNote,
    DeleteNotes,
    ListNotes,
    ListTools,
    ReadLockedNote,
    ReadNotes,
    SearchArchive,
    SearchNotes,
    ShowEverything,
    ThinkAbout,
    Use,
    UseTools,
    Wish,
)

SENTENCES: list[tuple[str, Wish]] = [
    ("what notes are there", ListNotes()),
    ("Which notes do I have?", ListNotes()),
    ("list my notes", ListNotes()),
    ("Show me all my notes, please.", ListNotes()),
    ("what is in my notebook?", ListNotes()),
    ("@notebook what notes are there", ListNotes()),
    ("Read all my notes", ListNotes(reads_all=True)),
    ("read the note Groceries", ReadNotes(titles=("Groceries",))),
    ("Could you please read the note called Groceries?", ReadNotes(titles=("Groceries",))),
    ("read Groceries and Ideas", ReadNotes(titles=("Groceries", "Ideas"))),
    ("open A, B, and the note C.", ReadNotes(titles=("A", "B", "C"))),
    ('read "Salt and pepper" and Ideas', ReadNotes(titles=("Salt and pepper", "Ideas"))),
    ("show me the note Ideas", ReadNotes(titles=("Ideas",))),
    ("what's in Groceries?", ReadNotes(titles=("Groceries",))),
    ("search my notes for oat milk", SearchNotes(words="oat milk")),
    ("find notes about milk", SearchNotes(words="milk")),
    ("Which notes mention milk?", SearchNotes(words="milk")),
    ("find notes about milk and read them", SearchNotes(words="milk", reads_found=True)),
    ("search the notebook for milk, then open those", SearchNotes(words="milk", reads_found=True)),
    ("read my notes about milk", SearchNotes(words="milk", reads_found=True)),
    ("create a note called X: text", CreateNote(title="X", text="text")),
    ("Create a note called Empty", CreateNote(title="Empty", text="")),
    (
        'make a note called "Trip: Rome": pack light!',
        CreateNote(title="Trip: Rome", text="pack light!"),
    ),
    ("write a new note Plans with the text buy wood", CreateNote(title="Plans", text="buy wood")),
    ("add a note called Shopping: eggs", CreateNote(title="Shopping", text="eggs")),
    ("create a note called L:\n- a\n- b", CreateNote(title="L", text="- a\n- b")),
    ("add milk to Groceries", AppendToNote(title="Groceries", text="milk")),
    ("add a letter to Ada to my Ideas note.", AppendToNote(title="Ideas", text="a letter to Ada")),
    ("put eggs on Groceries", AppendToNote(title="Groceries", text="eggs")),
    ("delete the note Old ideas", DeleteNotes(titles=("Old ideas",))),
    ("delete Old ideas and Groceries", DeleteNotes(titles=("Old ideas", "Groceries"))),
    ("search the archive for lighthouse", SearchArchive(words="lighthouse")),
    ("read the locked note", ReadLockedNote()),
    ("show me everything you can do", ShowEverything()),
    ("What tools do you have?", ListTools()),
    ("think about dinner", ThinkAbout(subject="dinner")),
    ("think hard about deleting Groceries", ThinkAbout(subject="deleting Groceries")),
    ("remove milk from Groceries", AskForHelp()),
    ("use your head", AskForHelp()),
    ("help", AskForHelp()),
    ("", AskForHelp()),
]


@pytest.mark.parametrize(("text", "wish"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_a_plain_sentence_is_understood(text: str, wish: Wish) -> None:
    assert understand(text) == wish


def test_tools_are_used_by_id_with_the_arguments_as_they_were_written() -> None:
    text = 'use everything_echo {"message":  "hi @ada, then and", "n": 1.0}'
    arguments = '{"message":  "hi @ada, then and", "n": 1.0}'
    assert understand(text) == UseTools(
        rounds=((Use(tool_id="everything_echo", arguments=arguments),),)
    )


def test_and_uses_tools_together_and_then_one_after_another() -> None:
    wish = understand('call a_b {"x": {"y": 1}} and c_d then use e-f_g.h {"z": 2}')
    assert wish == UseTools(
        rounds=(
            (Use(tool_id="a_b", arguments='{"x": {"y": 1}}'), Use(tool_id="c_d", arguments="{}")),
            (Use(tool_id="e-f_g.h", arguments='{"z": 2}'),),
        )
    )


def test_unreadable_arguments_are_passed_on_as_they_are() -> None:
    wish = understand("use the tool a_b with {broken")
    assert wish == UseTools(rounds=((Use(tool_id="a_b", arguments="{broken"),),))


def test_long_arguments_reach_the_tool_whole() -> None:
    arguments = '{"text": "' + "x" * 50_000 + '"}'
    wish = understand(f"use a_b {arguments}")
    assert wish == UseTools(rounds=((Use(tool_id="a_b", arguments=arguments),),))


@pytest.mark.parametrize(
    "text",
    [
        "add " + "x to " * 20_000,
        "find notes about " + "x and read " * 9_000,
        "create a note " + "with text " * 10_000,
        "read " + "." * 100_000,
        "read " + "a, and " * 14_000,
        "@a " * 30_000,
        "please " * 14_000 + "!",
        "use a_b " + "{" * 90_000,
        "use " + "a_" * 50_000 + "!",
        "add " + "x to " * 399,
        "find notes about " + "x and read " * 180,
    ],
)
def test_no_text_keeps_the_loop_busy(text: str) -> None:
    started = time.process_time()
    understand(text)
    assert time.process_time() - started < 0.5


@given(st.text(alphabet=st.sampled_from("aB \"“”',&.and "), max_size=60))
def test_titles_are_never_empty_doubled_or_too_many(text: str) -> None:
    titles = titles_of(text)
    assert all(titles)
    assert len(set(titles)) == len(titles) <= TITLES_AT_ONCE


@given(st.text(max_size=200))
def test_whatever_is_said_is_understood_as_something(text: str) -> None:
    assert isinstance(understand(text), Wish)
