"""What the demo assistant does next, given a conversation."""

import json

import pytest

from chatapp.models import ToolCall
from chatapp.providers.demo_outcomes import done_of
from chatapp.providers.demo_script import READ_AT_ONCE, next_step
from chatapp.providers.request import AskedTool, ToolOutcome, UserMessage
from chatapp.turns.history import outcome_of

from .conversation import TOOLS, answered, asked, request, said, spec

NOTES = json.dumps(
    {
        "notes": [
            {"title": "Groceries", "excerpt": "oat milk", "changed_at": "2026-01-01T00:00:00Z"},
            {"title": "Ideas", "excerpt": "milk bottles", "changed_at": "2026-01-01T00:00:00Z"},
        ]
    }
)
GROCERIES = json.dumps({"title": "Groceries", "text": "- oat milk\n- bread", "changed_at": "x"})
DENIED = "Denied by the person."
UNKNOWN = "The outcome is unknown: the call was sent, but no answer came back."

CALLS = [
    ("what notes are there", [("list_notes", {})]),
    ("read Groceries", [("read_note", {"title": "Groceries"})]),
    (
        "read Groceries and Ideas",
        [("read_note", {"title": "Groceries"}), ("read_note", {"title": "Ideas"})],
    ),
    ("search my notes for milk", [("search_notes", {"query": "milk"})]),
    ("find notes about milk and read them", [("search_notes", {"query": "milk"})]),
    ("create a note called X: y", [("create_note", {"title": "X", "text": "y"})]),
    ("add milk to Groceries", [("append_to_note", {"title": "Groceries", "text": "milk"})]),
    (
        "delete Old ideas and Groceries",
        [("delete_note", {"title": "Old ideas"}), ("delete_note", {"title": "Groceries"})],
    ),
    ("search the archive for lighthouse", [("search_archive", {"query": "lighthouse"})]),
    ("read the locked note", [("read_locked_note", {})]),
    ("think about a long dinner", [("search_notes", {"query": "dinner"})]),
]


@pytest.mark.parametrize(("text", "calls"), CALLS, ids=[text for text, _ in CALLS])
def test_a_wish_becomes_its_calls_in_one_step(
    text: str, calls: list[tuple[str, dict[str, str]]]
) -> None:
    step = next_step(asked(text))
    made = [(call.tool_id, json.loads(call.arguments)) for call in step.calls]
    assert made == [(f"notebook_{tool}", arguments) for tool, arguments in calls]


def test_what_was_found_is_read_next_and_quoted_at_last() -> None:
    first = asked("find notes about milk and read them")
    search = next_step(first)
    second = answered(first, search, NOTES)
    reading = next_step(second)
    assert [json.loads(call.arguments)["title"] for call in reading.calls] == [
        "Groceries",
        "Ideas",
    ]
    ideas = json.dumps({"title": "Ideas", "text": "milk bottles", "changed_at": "x"})
    last = next_step(answered(second, reading, GROCERIES, ideas))
    assert not last.calls
    assert "> - oat milk\n> - bread" in last.text
    assert "> milk bottles" in last.text


def test_of_many_notes_found_only_some_are_read_at_once() -> None:
    first = asked("read all my notes")
    notes = {"notes": [{"title": f"Note {n}", "excerpt": ""} for n in range(50)]}
    reading = next_step(answered(first, next_step(first), json.dumps(notes)))
    assert len(reading.calls) == READ_AT_ONCE


def test_nothing_found_ends_the_turn_and_says_so() -> None:
    first = asked("find notes about tea and read them")
    step = next_step(answered(first, next_step(first), '{"notes": []}'))
    assert not step.calls
    assert step.text == "No note mentions *tea*."


def test_call_ids_never_repeat_in_a_conversation() -> None:
    first = asked("read Groceries and Ideas")
    step = next_step(first)
    done = answered(first, step, GROCERIES, GROCERIES)
    again = request(*done.history, said(next_step(done)), UserMessage(text="read Groceries"))
    ids = [call.call_id for call in (*step.calls, *next_step(again).calls)]
    assert len(set(ids)) == 3


def test_outcomes_of_an_earlier_turn_are_not_taken_for_this_one() -> None:
    first = asked("what notes are there")
    done = answered(first, next_step(first), NOTES)
    again = request(*done.history, said(next_step(done)), UserMessage(text="list my notes"))
    assert [call.tool_id for call in next_step(again).calls] == ["notebook_list_notes"]


def test_a_denial_is_acknowledged_with_the_persons_word_and_not_repeated() -> None:
    first = asked("delete the note Old ideas")
    word = f"{DENIED} They said: keep it for Ada"
    step = next_step(answered(first, next_step(first), word, is_error=True))
    assert not step.calls
    assert "Deleting **Old ideas** was denied" in step.text
    assert "> keep it for Ada" in step.text


@pytest.mark.parametrize(
    ("outcome", "said_then"),
    [
        (DENIED, "was denied, so I left it alone"),
        (UNKNOWN, "**unknown outcome**"),
        ("Refused by policy: nobody may delete.", "was not run. Refused by policy: nobody may"),
        ("Not run: nobody answered the approval in time.", "did not happen. Not run: nobody"),
        (
            "Error executing tool delete_note: title: no note",
            "**failed**. The tool said:\n\n> title",
        ),
        ("The service could not be reached.", "**failed**. The tool said:\n\n> The service could"),
    ],
)
def test_a_call_that_did_not_go_well_is_told_honestly(outcome: str, said_then: str) -> None:
    first = asked("delete the note Old ideas")
    step = next_step(answered(first, next_step(first), outcome, is_error=True))
    assert not step.calls
    assert said_then in step.text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "ending"),
    [
        (ToolCall.State.DENIED, "denied"),
        (ToolCall.State.REFUSED, "refused"),
        (ToolCall.State.EXPIRED, "not_run"),
        (ToolCall.State.WITHDRAWN, "not_run"),
        (ToolCall.State.CANCELLED, "not_run"),
        (ToolCall.State.UNKNOWN, "unknown"),
        (ToolCall.State.FAILED, "failed"),
        (ToolCall.State.SUCCEEDED, "succeeded"),
    ],
)
def test_the_words_in_which_the_application_tells_outcomes_are_recognised(
    state: ToolCall.State, ending: str
) -> None:
    call = AskedTool(call_id="1", name="notebook_delete_note", arguments="{}")
    row = ToolCall(provider_call_id="1", tool_id=call.name, state=state, why="Nobody may.")
    assert done_of(call, outcome_of(row)).ending == ending


def test_a_note_that_speaks_of_denials_is_still_read() -> None:
    first = asked("read Diary")
    note = json.dumps({"title": "Diary", "text": "Denied by the person.", "changed_at": "x"})
    assert next_step(answered(first, next_step(first), note)).text.endswith(
        "> Denied by the person."
    )


def test_of_two_calls_each_outcome_is_told() -> None:
    first = asked("delete Old ideas and Groceries")
    asking = next_step(first)
    gone = json.dumps({"title": "Old ideas", "deleted_text": "a clock"})
    ids = [call.call_id for call in asking.calls]
    step = next_step(
        request(
            *first.history,
            said(asking),
            ToolOutcome(call_id=ids[0], name="notebook_delete_note", text=gone),
            ToolOutcome(call_id=ids[1], name="notebook_delete_note", text=DENIED, is_error=True),
        )
    )
    assert "**Old ideas** is deleted" in step.text and "> a clock" in step.text
    assert "Deleting **Groceries** was denied" in step.text


def test_a_call_without_an_outcome_counts_as_unknown() -> None:
    first = asked("delete the note Old ideas")
    step = next_step(request(*first.history, said(next_step(first))))
    assert not step.calls
    assert "**unknown outcome**" in step.text


def test_tools_used_one_after_another_stop_at_the_first_that_fails() -> None:
    tools = (spec("a_b"), spec("c_d"))
    first = asked("use a_b then c_d", tools=tools)
    step = next_step(first)
    assert [call.tool_id for call in step.calls] == ["a_b"]
    went_on = next_step(answered(first, step, "fine"))
    assert [call.tool_id for call in went_on.calls] == ["c_d"]
    stopped = next_step(answered(first, step, "broken", is_error=True))
    assert not stopped.calls
    assert "The tool `a_b` **failed**" in stopped.text


def test_another_services_result_is_shown_as_it_is_and_cannot_leave_its_block() -> None:
    first = asked("use a_b {}", tools=(spec("a_b"),))
    step = next_step(answered(first, next_step(first), "```\n# Not a heading"))
    assert step.text == "The tool `a_b` answered:\n\n````\n```\n# Not a heading\n````"


def test_a_result_that_is_not_what_the_notebook_says_is_shown_as_it_is() -> None:
    first = asked("read Groceries")
    checked = "A person checked: it worked. The result itself was lost."
    assert checked in next_step(answered(first, next_step(first), checked)).text
    assert '"notes": 5' in next_step(answered(first, next_step(first), '{"notes": 5}')).text


def test_an_unknown_tool_id_is_named_with_what_is_offered() -> None:
    step = next_step(asked("use a_b {}"))
    assert not step.calls
    assert "`a_b`" in step.text
    assert "`notebook_list_notes`" in step.text


def test_without_the_notebook_it_says_so_instead_of_calling() -> None:
    step = next_step(asked("read Groceries", tools=(spec("files_list"),)))
    assert not step.calls
    assert "not offered in this chat" in step.text
    assert "demo assistant" in step.text


def test_its_own_notebook_comes_before_another_services_tool() -> None:
    tools = (spec("archive_list_notes"), spec("notebook_list_notes"))
    step = next_step(asked("list my notes", tools=tools))
    assert [call.tool_id for call in step.calls] == ["notebook_list_notes"]


def test_a_tool_that_only_ends_alike_is_not_taken_for_it() -> None:
    step = next_step(asked("read Groceries", tools=(spec("notebook_unread_note"),)))
    assert not step.calls


@pytest.mark.parametrize("text", ["help", "what is the meaning of life", "hello"])
def test_anything_else_gets_a_plain_word_that_this_is_a_demo(text: str) -> None:
    step = next_step(asked(text))
    assert not step.calls
    assert "not a language model" in step.text
    assert "*read Groceries and Ideas*" in step.text
    assert "`OPENAI_API_KEY`" in step.text


def test_the_tour_has_every_kind_of_markdown_and_the_real_tools() -> None:
    text = next_step(asked("show me everything you can do")).text
    for kind in (
        "# Everything",
        "\n   - ",
        "\n1. ",
        "|---|",
        "```python",
        "$$",
        "\n> ",
        "](https://",
    ):
        assert kind in text
    assert all(tool.name in text for tool in TOOLS)
    assert len(text) > 2_000


def test_thinking_comes_before_the_calls_and_admits_that_it_is_scripted() -> None:
    first = asked("think about dinner")
    step = next_step(first)
    assert "“dinner”" in step.reasoning
    last = next_step(answered(first, step, '{"notes": []}'))
    assert not last.reasoning
    assert "scripted" in last.text


def test_an_empty_conversation_gets_help() -> None:
    assert "demo assistant" in next_step(request()).text
