"""What the model is told: every call has exactly one outcome, in words, for every provider."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatapp.context.files import RESULT_MAX_CHARACTERS
from chatapp.context.history import build_history
from chatapp.models import Approval, Conversation, Member, Message, Part, ToolCall, Turn
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    ModelRequest,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    ToolSpec,
    UserMessage,
)
from chatapp.server.database import in_database
from tests.chatapp.providers.accounts import find_provider
from tests.turns import rows
from tests.wire.script import Answer
from tests.wire.server import wire_server

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State
DELETE = "notebook_delete_note"


def result(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": list(blocks), **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# What became of a call, and what the model is told of it.
OUTCOMES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "succeeded": ({"result": result(text("Gone."), text("Bye."))}, "Gone.\n\nBye.", False),
    "succeeded in silence": ({"result": result()}, "Done. The tool returned nothing.", False),
    "succeeded with a value only": (
        {"result": result(structured={"größe": 2})},
        '{"größe": 2}',
        False,
    ),
    "succeeded with a picture": (
        {"result": result({"type": "image", "mimeType": "image/png", "data": "AA=="})},
        "[image, image/png]",
        False,
    ),
    "succeeded with a link": (
        {"result": result({"type": "resource_link", "name": "log", "uri": "file:///l"})},
        "[link log: file:///l]",
        False,
    ),
    "succeeded with a resource": (
        {"result": result({"type": "resource", "resource": {"uri": "n:1", "text": "Note"}})},
        "Note",
        False,
    ),
    "failed by itself": (
        {"state": State.FAILED, "result": result(text("No such note."))},
        "No such note.",
        True,
    ),
    "failed without a word": ({"state": State.FAILED}, "The tool failed without saying why.", True),
    "could not be used": (
        {
            "state": State.FAILED,
            "error": {"kind": "refused", "message": "Nothing answers.", "hint": "Ask later."},
        },
        "Nothing answers. Ask later.",
        True,
    ),
    "denied": ({"state": State.DENIED}, "Denied by the person.", True),
    "refused": (
        {"state": State.REFUSED, "why": "Deleting is not allowed here."},
        "Refused by policy: Deleting is not allowed here.",
        True,
    ),
    "expired": ({"state": State.EXPIRED}, "nobody answered the approval in time", True),
    "withdrawn": ({"state": State.WITHDRAWN}, "withdrawn before anybody approved", True),
    "cancelled": ({"state": State.CANCELLED}, "the person stopped the turn first", True),
    "cancelled before it was sent once more": (
        {"state": State.CANCELLED, "attempt": 1, "pauses": 1},
        "Not run: the person stopped the turn first",
        True,
    ),
    "cancelled after it was sent": (
        {"state": State.CANCELLED, "attempt": 1},
        "it ran for a while. It was cancelled while it ran. It may have taken effect",
        True,
    ),
    "unknown": ({"state": State.UNKNOWN}, "It may or may not have taken effect", True),
    "unknown after a word that was no answer": (
        {"state": State.UNKNOWN, "error": {"kind": "not_mcp", "message": "A web page came back."}},
        "The outcome is unknown. A web page came back. It may or may not",
        True,
    ),
    "unknown, then found to have worked": (
        {"state": State.SUCCEEDED, "resolution": "worked"},
        "A person checked: it worked.",
        False,
    ),
    "unknown, then found not to have": (
        {"state": State.FAILED, "resolution": "did-not"},
        "A person checked: it did not take effect.",
        True,
    ),
}


@pytest.fixture
def live(owner: Member) -> Turn:
    """A turn whose first step has asked for tools."""
    turn = rows.turn(owner, Turn.State.RUNNING, text="Tidy up")
    rows.said(turn, "Let me see.")
    return turn


def outcomes(items: tuple[HistoryItem, ...]) -> list[ToolOutcome]:
    return [item for item in items if isinstance(item, ToolOutcome)]


def asked(items: tuple[HistoryItem, ...]) -> list[AskedTool]:
    messages = [item for item in items if isinstance(item, AssistantMessage)]
    return [part for each in messages for part in each.parts if isinstance(part, AskedTool)]


# --- outcomes ------------------------------------------------------------------------------
@pytest.mark.parametrize("became", OUTCOMES)
def test_the_model_is_told_what_became_of_its_call(live: Turn, became: str) -> None:
    given, told, is_error = OUTCOMES[became]
    rows.call(live, {"title": "Old ideas"}, **given)
    (outcome,) = outcomes(build_history(live))
    assert told in outcome.text
    assert outcome.is_error is is_error
    assert (outcome.call_id, outcome.name) == ("call-1", DELETE)


def test_a_denial_carries_the_word_of_the_person(live: Turn) -> None:
    call = rows.question(live, {"title": "Old ideas"})
    Approval.objects.filter(tool_call=call).update(state="denied", reason="Keep it for now.")
    ToolCall.objects.filter(pk=call.pk).update(state=State.DENIED)
    (outcome,) = outcomes(build_history(live))
    assert outcome.text == "Denied by the person. They said: Keep it for now."


def test_every_state_that_ends_a_call_has_words_of_its_own(live: Turn) -> None:
    for state in (*ToolCall.FINAL, State.UNKNOWN):
        rows.call(live, {}, state=state)
    told = [outcome.text for outcome in outcomes(build_history(live))]
    assert len(told) == len(set(told)) == len(ToolCall.FINAL) + 1


def test_a_huge_result_is_cut_and_says_how_much_is_missing(live: Turn) -> None:
    rows.call(live, {}, result=result(text("x" * (RESULT_MAX_CHARACTERS + 7))))
    (outcome,) = outcomes(build_history(live))
    assert outcome.text.endswith("[7 more characters were left out here]")
    assert len(outcome.text) < RESULT_MAX_CHARACTERS + 100


@pytest.mark.parametrize("arguments", ["{", "[1]", '"text"', "", "null"])
def test_arguments_that_are_no_object_are_replayed_as_an_empty_one(
    live: Turn, arguments: str
) -> None:
    """No provider takes them back as they came."""
    rows.call(live, arguments, State.FAILED)
    (call,) = asked(build_history(live))
    assert call.arguments == "{}"


# --- the whole conversation ----------------------------------------------------------------
def test_parts_keep_their_order_and_the_data_that_belongs_to_them(live: Turn) -> None:
    signed = {"provider": "openai", "data": {"type": "reasoning", "encrypted_content": "e"}}
    rows.said(live, "I wonder.", "reasoning", opaque=signed)
    rows.call(live, {"title": "Old ideas"}, result=result(text("Gone.")))
    rows.said(live, "Never told to the model.", "notice")
    question, said, outcome = build_history(live)
    assert question == UserMessage(text="Tidy up")
    assert isinstance(said, AssistantMessage)
    assert said.parts[:2] == (
        SaidText(text="Let me see."),
        SaidReasoning(text="I wonder.", opaque=signed),
    )
    assert isinstance(said.parts[2], AskedTool)
    assert isinstance(outcome, ToolOutcome)
    assert len(said.parts) == 3


def test_each_step_is_a_message_followed_by_its_outcomes(live: Turn) -> None:
    rows.call(live, {"n": 1}, result=result(text("one")))
    rows.call(live, {"n": 2}, result=result(text("two")))
    Part.objects.create(message=live.answer, step=2, position=0, kind="text", text="Done.")
    kinds = [type(item) for item in build_history(live)]
    step = [AssistantMessage, ToolOutcome, ToolOutcome]
    assert kinds == [UserMessage, *step, AssistantMessage]


def follow(turn: Turn, words: str) -> Turn:
    """The next question of the same chat, and the turn that answers it."""
    chat = turn.conversation
    question = Message.objects.create(conversation=chat, parent=turn.answer, role="user")
    Part.objects.create(message=question, position=0, kind="text", text=words)
    answer = Message.objects.create(conversation=chat, parent=question, role="assistant")
    return Turn.objects.create(
        conversation=chat, question=question, answer=answer, model=rows.MODEL, state="running"
    )


def test_what_was_said_before_comes_first_and_other_branches_do_not_come(owner: Member) -> None:
    first = rows.turn(owner, Turn.State.DONE, text="One")
    rows.said(first, "Answer one")
    other = follow(first, "Another branch")
    rows.said(other, "Never seen from here")
    Turn.objects.filter(pk=other.pk).update(state=Turn.State.DONE)
    second = follow(first, "Two")
    assert build_history(second) == (
        UserMessage(text="One"),
        AssistantMessage(parts=(SaidText(text="Answer one"),)),
        UserMessage(text="Two"),
    )


def test_another_chat_is_never_told(owner: Member) -> None:
    rows.said(rows.turn(owner, Turn.State.DONE, text="Secret"), "Also secret")
    here = rows.turn(owner, Turn.State.RUNNING, text="Hello")
    assert build_history(here) == (UserMessage(text="Hello"),)
    assert Conversation.objects.count() == 2


def test_a_long_chat_is_read_in_as_many_statements_as_a_short_one(owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.DONE, text="Zero")
    for number in range(5):
        rows.said(turn, f"Answer {number}")
        rows.call(turn, {"n": number}, State.DENIED)
        Turn.objects.filter(pk=turn.pk).update(state=Turn.State.DONE)
        turn = follow(turn, f"Question {number}")
    with CaptureQueriesContext(connection) as ran:
        assert len(build_history(turn)) == 6 + 5 + 5
    assert len(ran) == 2


# --- as each provider is sent it -----------------------------------------------------------
async def sent(monkeypatch: pytest.MonkeyPatch, form: str, items: tuple[HistoryItem, ...]) -> Any:
    """The body of the request, as it came over the wire."""
    tool = ToolSpec(name=DELETE, description="Delete a note", input_schema={"type": "object"})
    request = ModelRequest(model="m", system="", history=items, tools=(tool,))
    async with wire_server([Answer(text="ok")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        provider, _model, account = await find_provider(f"{form}:m")
        async for _ in provider.stream(request, account):
            pass
        return server.requests[0].body


def told_in_chat(body: Any) -> list[tuple[str, str, str]]:
    """Role, id and text in the form of Chat Completions; a call is told by its arguments."""
    lines = []
    for message in body["messages"]:
        for call in message.get("tool_calls", []):
            lines.append(("call", call["id"], call["function"]["arguments"]))
        if message["role"] == "tool":
            lines.append(("outcome", message["tool_call_id"], message["content"]))
    return lines


def told_in_responses(body: Any) -> list[tuple[str, str, str]]:
    lines = []
    for item in body["input"]:
        if item.get("type") == "function_call":
            lines.append(("call", item["call_id"], item["arguments"]))
        if item.get("type") == "function_call_output":
            lines.append(("outcome", item["call_id"], item["output"]))
    return lines


TOLD = {"openai": told_in_responses, "openai-chat": told_in_chat}


@pytest.mark.parametrize("form", TOLD)
async def test_each_call_has_one_outcome_in_every_form(
    live: Turn, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call without an outcome, or an outcome without a call, makes providers refuse the chat."""
    for given, _told, _is_error in OUTCOMES.values():
        await in_database(rows.call, live, {"title": "Old ideas"}, **given)
    lines = TOLD[form](await sent(monkeypatch, form, await in_database(build_history, live)))
    calls = [(call_id, words) for what, call_id, words in lines if what == "call"]
    answers = [(call_id, words) for what, call_id, words in lines if what == "outcome"]
    whats = [what for what, _id, _words in lines]
    assert whats == ["call"] * len(OUTCOMES) + ["outcome"] * len(OUTCOMES)
    assert [call_id for call_id, _ in calls] == [call_id for call_id, _ in answers]
    assert len({call_id for call_id, _ in calls}) == len(OUTCOMES)
    assert all(json.loads(arguments) == {"title": "Old ideas"} for _, arguments in calls)
    for (_, words), (_given, told, is_error) in zip(answers, OUTCOMES.values(), strict=True):
        assert told in words
        assert words.startswith("Error: ") is is_error


@pytest.mark.parametrize("arguments", ["{", "[1]"])
@pytest.mark.parametrize("form", TOLD)
async def test_a_call_that_could_not_be_read_is_still_a_pair_in_every_form(
    live: Turn, form: str, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_database(rows.call, live, arguments, State.FAILED)
    lines = TOLD[form](await sent(monkeypatch, form, await in_database(build_history, live)))
    assert [what for what, _id, _words in lines] == ["call", "outcome"]
    assert lines[0][2] == "{}"
