"""What an answer says about its own end: of which kind the sentence is, and that there is one."""

from typing import Any

import pytest

from chatapp.context.history import build_history
from chatapp.conversations import intake
from chatapp.conversations.turn_events import EventTranslator, TurnEvent
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.journal import read_events_after
from chatapp.models import JournalEvent, Part, ToolCall, Turn
from chatapp.providers.events import Finished, ProviderError, ReasoningDelta, TextDelta, Usage
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.scripted import Scene, calls, text
from tests.turns.acts import DELETE, READ, get_only_call, read_notices, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
Kind = Part.NoticeKind
WORDLESS = "The model returned no text."
SILENCE: Scene = [Usage(output_tokens=1), Finished(reason="stop")]


def kinds(turn: Turn) -> list[tuple[str, str]]:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.NOTICE)
    return [(part.notice_kind, part.text) for part in parts]


def told(turn: Turn) -> list[TurnEvent]:
    narrator = EventTranslator()
    events = read_events_after(turn.conversation_id, 0)
    return [each for event in events for each in narrator.translate(event)]


def remarks(turn: Turn) -> list[TurnEvent]:
    return [each for each in told(turn) if each["type"] in ("notice", "error")]


# --- an answer without words ----------------------------------------------------------------------
async def test_an_answer_that_ends_after_its_tools_says_that_it_has_no_text(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), list(SILENCE)]
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, "complete")
    assert await in_database(kinds, turn) == [(Kind.INFO, WORDLESS)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        [TextDelta(text=" \n ")],
        [ReasoningDelta(text="I thought, and that was all.")],
    ],
    ids=["nothing", "spaces", "a thought"],
)
async def test_an_answer_without_words_says_so(
    runtime: EngineRuntime, turn: Turn, words: list[Any]
) -> None:
    scripted.scenes.append([*words, *SILENCE])
    await wait_for_rest(runtime, turn)
    assert await in_database(read_notices, turn) == [WORDLESS]


async def test_words_before_a_tool_are_not_the_end_of_an_answer(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [[TextDelta(text="Let me look."), *calls(READ)], list(SILENCE)]
    await wait_for_rest(runtime, turn)
    assert await in_database(read_notices, turn) == [WORDLESS]


async def test_an_answer_with_words_needs_no_remark(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), text("It says nothing.")]
    await wait_for_rest(runtime, turn)
    assert await in_database(read_notices, turn) == []


async def test_a_remark_is_for_people_and_never_told_to_the_model(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append(list(SILENCE))
    await wait_for_rest(runtime, turn)
    assert WORDLESS not in str(await in_database(build_history, turn))


# --- the kinds ------------------------------------------------------------------------------------
async def test_stopping_is_no_error(runtime: EngineRuntime, notebook: Service, turn: Turn) -> None:
    scripted.scenes.append(calls(DELETE))
    await wait_for_rest(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    await wait_for_rest(runtime, turn)
    assert await in_database(kinds, turn) == [(Kind.STOPPED, "You stopped this answer.")]
    assert await in_database(remarks, turn) == [
        {"type": "notice", "kind": "stopped", "text": "You stopped this answer."}
    ]


async def test_a_failed_model_call_is_an_error(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes.append([ProviderError(kind="auth", message="No key.", hint="Set one.")])
    await wait_for_rest(runtime, turn)
    assert await in_database(kinds, turn) == [(Kind.ERROR, "No key.")]
    assert await in_database(remarks, turn) == [
        {"type": "error", "kind": "error", "text": "No key. Set one."}
    ]


async def test_a_limit_is_neither(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes.append(text("So far", reason="length"))
    await wait_for_rest(runtime, turn)
    assert [kind for kind, _ in await in_database(kinds, turn)] == [Kind.INFO]
    assert [(each["type"], each["kind"]) for each in await in_database(remarks, turn)] == [
        ("notice", "info")
    ]


async def test_what_nobody_foresaw_is_an_error(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.engine.engine.next_action", lambda _state: 1 / 0)
    await wait_for_rest(runtime, turn)
    assert [kind for kind, _ in await in_database(kinds, turn)] == [Kind.ERROR]


async def test_only_notices_have_a_kind(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), text("It says nothing.")]
    await wait_for_rest(runtime, turn)
    found = Part.objects.filter(message_id=turn.answer_id).exclude(notice_kind="")
    assert not await in_database(found.exists)


# --- arguments that do not fit --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        (DELETE[0], "{}", "Missing: title."),
        (DELETE[0], '{"title": 5}', "title must be text, not 5."),
        (READ[0], "{}", "Missing: title."),
    ],
)
async def test_a_call_that_does_not_fit_its_tool_asks_nobody_and_is_not_sent(
    runtime: EngineRuntime, notebook: Service, turn: Turn, name: str, arguments: str, sentence: str
) -> None:
    scripted.scenes += [calls((name, arguments)), text("Then I ask differently.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.FAILED, 0)
    assert not hasattr(call, "approval")
    outcome = scripted.requests[1].history[-1]
    assert outcome.text == f"{sentence} It was not run."  # type: ignore[union-attr]
    assert outcome.is_error  # type: ignore[union-attr]


async def test_a_call_beside_one_that_does_not_fit_still_asks(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes.append(calls((DELETE[0], "{}"), DELETE))
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    states = ToolCall.objects.filter(turn=turn).values_list("state", flat=True)
    assert await in_database(list, states) == ["failed", "awaiting_approval"]
    closed = JournalEvent.objects.filter(turn=turn, data__state="failed")
    assert await in_database(closed.count) == 1
