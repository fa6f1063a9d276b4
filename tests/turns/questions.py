"""A turn with a call that waits for an answer to its service's question, and the answering."""

from typing import Any

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Question, ToolCall, Turn
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.scripted import calls, text

from .acts import wait_for_rest

GREET = ("asker_greet", '{"greeting": "Hello"}')


async def asked(runtime: EngineRuntime, turn: Turn, call: tuple[str, str] = GREET) -> Question:
    """The open question of a turn that waits for its answer."""
    scripted.scenes += [calls(call), text("So it is.")]
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    question = await open_question(turn)
    assert question.tool_call.state == ToolCall.State.AWAITING_INPUT
    return question


async def open_question(turn: Turn) -> Question:
    found = Question.objects.select_related("tool_call__turn__conversation__owner")
    return await in_database(found.get, tool_call__turn=turn, state=Question.State.OPEN)


def card(question: Question) -> Element:
    turn = question.tool_call.turn
    answer = signed_in(turn.conversation.owner).get(f"/c/{turn.conversation_id}/")
    return parse(answer.content.decode()).one(id=f"tool-call-{question.tool_call_id}")


def post(question: Question, action: str, **typed: Any) -> Any:
    client = signed_in(question.tool_call.turn.conversation.owner)
    fields = {name.replace("_", "-", 1): value for name, value in typed.items()}
    return client.post(
        f"/questions/{question.pk}/answer",
        {"action": action, **fields},
        headers={"HX-Request": "true"},
    )


async def finished(runtime: EngineRuntime, question: Question) -> ToolCall:
    await wait_for_rest(runtime, question.tool_call.turn)
    return await in_database(ToolCall.objects.get, pk=question.tool_call_id)
