"""What the demo assistant does next, given a conversation."""

import json

import pytest

from chatapp.demo.assistant.script import MAX_READ_AT_ONCE, choose_step
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    ModelRequest,
    ToolOutcome,
    UserMessage,
)

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


def test_what_was_found_is_read_next_and_quoted_at_last() -> None:
    first = asked("find notes about milk and read them")
    search = choose_step(first)
    second = answered(first, search, NOTES)
    reading = choose_step(second)
    assert [json.loads(call.arguments)["title"] for call in reading.calls] == [
        "Groceries",
        "Ideas",
    ]
    ideas = json.dumps({"title": "Ideas", "text": "milk bottles", "changed_at": "x"})
    last = choose_step(answered(second, reading, GROCERIES, ideas))
    assert not last.calls
    assert "> - oat milk\n> - bread" in last.text
    assert "> milk bottles" in last.text


def test_of_many_notes_found_only_some_are_read_at_once() -> None:
    first = asked("read all my notes")
    notes = {"notes": [{"title": f"Note {n}", "excerpt": ""} for n in range(50)]}
    reading = choose_step(answered(first, choose_step(first), json.dumps(notes)))
    assert len(reading.calls) == MAX_READ_AT_ONCE


def test_nothing_found_ends_the_turn_and_says_so() -> None:
    first = asked("find notes about tea and read them")
    step = choose_step(answered(first, choose_step(first), '{"notes": []}'))
    assert not step.calls
    assert step.text.endswith("None.")


def test_call_ids_never_repeat_in_a_conversation() -> None:
    first = asked("read Groceries and Ideas")
    step = choose_step(first)
    done = answered(first, step, GROCERIES, GROCERIES)
    again = request(*done.history, said(choose_step(done)), UserMessage(text="read Groceries"))
    ids = [call.call_id for call in (*step.calls, *choose_step(again).calls)]
    assert len(set(ids)) == 3


def test_outcomes_of_an_earlier_turn_are_not_taken_for_this_one() -> None:
    first = asked("what notes are there")
    done = answered(first, choose_step(first), NOTES)
    again = request(*done.history, said(choose_step(done)), UserMessage(text="list my notes"))
    assert [call.name for call in choose_step(again).calls] == ["notebook_list_notes"]


@pytest.mark.parametrize(
    "outcome",
    [
        "Denied by the person. They said: keep it for Ada",
        "The outcome is unknown: the call was sent, but no answer came back.",
        "Refused by policy: nobody may delete.",
        "Not run: nobody answered the approval in time.",
        "Error executing tool delete_note: title: no note",
    ],
)
def test_a_call_that_did_not_succeed_is_not_repeated_and_its_outcome_is_quoted(
    outcome: str,
) -> None:
    first = asked("delete the note Old ideas")
    step = choose_step(answered(first, choose_step(first), outcome, is_error=True))
    assert not step.calls
    assert "for **Old ideas** **did not succeed**" in step.text
    assert f"> {outcome}" in step.text


def test_of_two_calls_each_outcome_is_told() -> None:
    first = asked("delete Old ideas and Groceries")
    asking = choose_step(first)
    gone = json.dumps({"title": "Old ideas", "deleted_text": "a clock"})
    ids = [call.call_id for call in asking.calls]
    step = choose_step(
        request(
            *first.history,
            said(asking),
            ToolOutcome(call_id=ids[0], name="notebook_delete_note", text=gone),
            ToolOutcome(call_id=ids[1], name="notebook_delete_note", text=DENIED, is_error=True),
        )
    )
    assert "**Old ideas** is deleted" in step.text and "> a clock" in step.text
    assert f"**Groceries** **did not succeed**. I received:\n\n> {DENIED}" in step.text


def test_a_call_without_an_outcome_counts_as_unknown() -> None:
    first = asked("delete the note Old ideas")
    step = choose_step(request(*first.history, said(choose_step(first))))
    assert not step.calls
    assert "> The outcome is unknown" in step.text


def test_tools_used_one_after_another_stop_at_the_first_that_fails() -> None:
    tools = (spec("a_b"), spec("c_d"))
    first = asked("use a_b then c_d", tools=tools)
    step = choose_step(first)
    assert [call.name for call in step.calls] == ["a_b"]
    went_on = choose_step(answered(first, step, "fine"))
    assert [call.name for call in went_on.calls] == ["c_d"]
    stopped = choose_step(answered(first, step, "broken", is_error=True))
    assert not stopped.calls
    assert "The tool `a_b` **did not succeed**" in stopped.text


def test_another_services_result_is_shown_as_it_is_and_cannot_leave_its_block() -> None:
    first = asked("use a_b {}", tools=(spec("a_b"),))
    step = choose_step(answered(first, choose_step(first), "```\n\n# Not a heading"))
    assert step.text == "The tool `a_b` answered:\n\n    ```\n    \n    # Not a heading"


def test_a_result_that_is_not_what_the_notebook_says_is_shown_as_it_is() -> None:
    first = asked("read Groceries")
    checked = "A person checked: it worked. The result itself was lost."
    assert checked in choose_step(answered(first, choose_step(first), checked)).text
    assert '"notes": 5' in choose_step(answered(first, choose_step(first), '{"notes": 5}')).text


def test_an_unknown_tool_id_is_named_with_what_is_offered() -> None:
    step = choose_step(asked("use a_b {}"))
    assert not step.calls
    assert "`a_b`" in step.text
    assert "`notebook_list_notes`" in step.text


def test_without_the_notebook_it_says_so_instead_of_calling() -> None:
    step = choose_step(asked("read Groceries", tools=(spec("files_list"),)))
    assert not step.calls
    assert "not offered in this chat" in step.text
    assert "demo assistant" in step.text


@pytest.mark.parametrize("text", ["help", "what is the meaning of life", "hello"])
def test_anything_else_gets_a_plain_word_that_this_is_a_demo(text: str) -> None:
    step = choose_step(asked(text))
    assert not step.calls
    assert "not a language model" in step.text
    assert "*read Groceries and Ideas*" in step.text
    assert "`OPENAI_API_KEY`" in step.text


def test_the_tour_has_every_kind_of_markdown_and_the_real_tools() -> None:
    text = choose_step(asked("show me everything you can do")).text
    for kind in (
        "# Everything",
        "\n   - ",
        "\n1. ",
        "| --- |",
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
    step = choose_step(first)
    assert "“dinner”" in step.reasoning
    last = choose_step(answered(first, step, '{"notes": []}'))
    assert not last.reasoning
    assert "scripted" in last.text


def test_an_empty_conversation_gets_help() -> None:
    assert "demo assistant" in choose_step(request()).text


def planning(*history: AssistantMessage | ToolOutcome) -> ModelRequest:
    asked_for = UserMessage(text="make a plan: collect and report")
    return request(asked_for, *history, tools=(spec("make-plan"),))


def done(number: int, text: str) -> tuple[AssistantMessage, ToolOutcome]:
    call_id = f"demo_{number}"
    asked = AskedTool(call_id=call_id, name="make-plan", arguments="{}")
    outcome = ToolOutcome(call_id=call_id, name="make-plan", text=text, is_error=False)
    return AssistantMessage(parts=(asked,)), outcome


def test_a_plan_is_ticked_step_by_step_and_told_once() -> None:
    first = choose_step(planning())
    assert [call.name for call in first.calls] == ["make-plan"]
    second = choose_step(planning(*done(0, "0 of 2 steps are done.")))
    assert json.loads(second.calls[0].arguments) == {"done": [1], "doing": 2}
    rounds: list[AssistantMessage | ToolOutcome] = [
        *done(0, "0 of 2."),
        *done(1, "1 of 2."),
        *done(2, "2 of 2."),
    ]
    last = choose_step(planning(*rounds))
    assert last.calls == ()
    assert "> 2 of 2." in last.text
    assert "0 of 2." not in last.text
