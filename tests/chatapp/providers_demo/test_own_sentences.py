"""The demo assistant calls the application's own tools, as they are described to it."""

import json
from typing import Any

import pytest

from chatapp.providers.demo_own_sentences import own_wish
from chatapp.providers.demo_script import next_step
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    ModelRequest,
    ToolOutcome,
    ToolSpec,
    UserMessage,
)
from chatapp.tools.core import core_tool, core_tools

SENTENCES: list[tuple[str, str, dict[str, Any]]] = [
    ("What time is it in Tokyo?", "current-time", {"zone": "Tokyo"}),
    ("what's the time", "current-time", {"zone": "UTC"}),
    ("Please remember that I like tea.", "remember", {"text": "I like tea"}),
    ("remember: reports go out on Mondays", "remember", {"text": "reports go out on Mondays"}),
    ("What do you remember?", "recall", {"words": ""}),
    ("what do you know about me", "recall", {"words": ""}),
    ("what do you remember about tea?", "recall", {"words": "tea"}),
    ("search my chats for milk", "search-conversations", {"words": "milk"}),
    ("Which services are there?", "list-services", {}),
    ("make a plan: collect and report", "make-plan", {"steps": ["collect", "report"], "doing": 1}),
]


@pytest.mark.parametrize(("said", "tool", "arguments"), SENTENCES)
def test_a_sentence_becomes_the_call_that_it_needs(
    said: str, tool: str, arguments: dict[str, Any]
) -> None:
    wish = own_wish(said)
    assert wish is not None
    call = wish.rounds[0][0]
    assert (call.tool_id, json.loads(call.arguments)) == (tool, arguments)


@pytest.mark.parametrize("said", [*(said for said, _, _ in SENTENCES), "ask me something"])
def test_what_it_asks_for_is_what_the_tool_takes(said: str) -> None:
    wish = own_wish(said)
    assert wish is not None
    for (call,) in wish.rounds:
        tool = core_tool(call.tool_id)
        assert tool is not None
        tool.validated(json.loads(call.arguments))


@pytest.mark.parametrize(
    "said", ["read Groceries", "what notes are there", "ask them", "plan", "x" * 3_000]
)
def test_other_sentences_are_left_to_the_notebook(said: str) -> None:
    assert own_wish(said) is None


def request(*history: Any, tools: bool = True) -> ModelRequest:
    specs = tuple(
        ToolSpec(name=tool.name, description=tool.description, input_schema=tool.input_schema)
        for tool in core_tools()
    )
    return ModelRequest(
        model="assistant",
        system="",
        history=(UserMessage(text="make a plan: collect and report"), *history),
        tools=specs if tools else (),
    )


def done(number: int, text: str) -> tuple[AssistantMessage, ToolOutcome]:
    call_id = f"demo_{number}"
    asked = AskedTool(call_id=call_id, name="make-plan", arguments="{}")
    outcome = ToolOutcome(call_id=call_id, name="make-plan", text=text, is_error=False)
    return AssistantMessage(parts=(asked,)), outcome


def test_a_plan_is_ticked_step_by_step_and_told_once() -> None:
    first = next_step(request())
    assert [call.tool_id for call in first.calls] == ["make-plan"]
    second = next_step(request(*done(0, "0 of 2 steps are done.")))
    assert json.loads(second.calls[0].arguments) == {"done": [1], "doing": 2}
    rounds = [*done(0, "0 of 2."), *done(1, "1 of 2."), *done(2, "2 of 2.")]
    last = next_step(request(*rounds))
    assert last.calls == ()
    assert "> 2 of 2." in last.text
    assert "0 of 2." not in last.text


def test_without_the_tool_it_says_so() -> None:
    step = next_step(request(tools=False))
    assert step.calls == ()
    assert "No tool with the id `make-plan` is offered here." in step.text
