"""Conversations as the rows hold them, whatever became of their turns, and however they were made
to fit: what is made of them is valid for every provider. The model server refuses what the real
ones would."""

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chatapp.context.history import build_history
from chatapp.context.shortening import insert_summary, shorten_results
from chatapp.context.unsupported_media import replace_unsupported
from chatapp.models import (
    Attachment,
    Conversation,
    File,
    Member,
    Message,
    Part,
    Review,
    Step,
    ToolCall,
    Turn,
)
from chatapp.providers.model_facts import find_abilities
from chatapp.providers.request import AskedTool, AssistantMessage, Media, SaidText, UserMessage
from chatapp.server.database import from_now
from tests.chatapp.files.papers import pdf
from tests.peers.reading_room import PNG
from tests.wire.formats import FORMATS
from tests.wire.server import WireServer, wire_server

from .accounts import forget_environment, point_at
from .stories import NOTES, a_request, as_stopped, finish_of, said_by
from .test_every_history import answers_of_all

pytestmark = pytest.mark.gate

Ask = Callable[[str, Any], str]
MODELS = {
    "openai": "gpt-6-sol",
    "openai-chat": "llama3",
    "anthropic": "claude-sonnet-5-5",
    "google": "gemini-4-argon",
    "bedrock": "eu.anthropic.claude-sonnet-5-5-v1:0",
}
FILES = {
    "notes – v2.md": ("text/plain", b"Buy milk", "Buy milk", 0),
    "empty words.txt": ("text/plain", b" \n", " \n", 0),
    "dot.png": ("image/png", PNG, "", 0),
    "moving.gif": ("image/gif", b"GIF89a" + bytes(8), "", 0),
    "small.webp": ("image/webp", b"RIFF\x04\0\0\0WEBP", "", 0),
    "Summe_2026 (final).pdf": ("application/pdf", pdf("40"), "[Page 1]\n40", 1),
    "scan.pdf": ("application/pdf", pdf(""), "", 1),
}
PICTURE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
BROKEN = {**PICTURE, "data": "%%%"}
PAPER = {
    "type": "resource",
    "resource": {"uri": "room://plan", "blob": base64.b64encode(pdf("x")).decode()},
}
RESULTS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"content": []},
    {"content": [{"type": "text", "text": " "}]},
    {"content": [], "structured": {"$ref": "#/x"}},
    {"content": [{"type": "text", "text": "Here"}, PICTURE, PAPER]},
    {"content": [PICTURE, BROKEN]},
    {"content": [{"type": "text", "text": "A long story. " * 200}, PICTURE]},
)
STATES = [*ToolCall.FINAL, ToolCall.State.UNKNOWN]

CALLS = st.lists(
    st.builds(
        AskedTool,
        call_id=st.sampled_from(["call_0", "functions.notes:0", "y" * 70]),
        name=st.sampled_from([NOTES.name, "gone_tool.of-old"]),
        arguments=st.sampled_from(["{}", "[1", "[" * 100_000, '{"a": {"$ref": "#/x"}}']),
    ),
    max_size=3,
    unique_by=lambda call: call.call_id,
)
PLAIN = st.builds(
    lambda text, calls: AssistantMessage(parts=(SaidText(text=text), *calls)),
    st.sampled_from(["", " ", "Well \u2028 🙂"]),
    CALLS,
)
# A number stands for an answer of one of the providers, with all that it sealed. Stop or a failure
# leaves so many parts of it, None all.
STEPS = st.lists(
    st.tuples(
        st.one_of(PLAIN, st.integers(0, 10_000)),
        st.one_of(st.none(), st.integers(min_value=0, max_value=4)),
    ),
    max_size=3,
)
TURNS = st.lists(
    st.tuples(st.lists(st.sampled_from(sorted(FILES)), max_size=3, unique=True), STEPS),
    min_size=1,
    max_size=3,
)
# What became of a call, whether a person changed its values, and who may see its result.
Outcome = tuple[str, dict[str, Any] | None, bool, str | None]
OUTCOMES = st.lists(
    st.tuples(
        st.sampled_from(STATES),
        st.sampled_from(RESULTS),
        st.booleans(),
        st.sampled_from([None, *Review.State.values]),
    ),
    min_size=1,
    max_size=5,
)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask a model of this form to go on with a history; how its answer ended."""
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        forget_environment(patch)
        serving = wire_server()
        point_at(patch, runner.run(serving.__aenter__()).url)

        def asked(form: str, history: Any) -> str:
            return finish_of(runner.run(said_by(form, a_request(history))))

        yield asked
        runner.run(serving.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def answers() -> list[AssistantMessage]:
    return asyncio.run(answers_of_all())


def attach(message: Message, owner: Member, name: str) -> None:
    media_type, data, words, pages = FILES[name]
    position = message.parts.count()
    part = Part.objects.create(message=message, position=position, kind=Part.Kind.FILE)
    file = Attachment.objects.create(
        owner=owner, part=part, name=name, mime_type=media_type, size=len(data), contents=[]
    )
    File.objects.create(attachment=file, data=data, words=words, characters=len(words), pages=pages)


def say(turn: Turn, number: int, said: AssistantMessage, outcomes: Iterator[Outcome]) -> None:
    """As the engine stores it: calls behind the words, with the place where they were asked for."""
    words = [part for part in said.parts if not isinstance(part, AskedTool)]
    place, position = 0, len(words)
    for part in said.parts:
        row = Part(message=turn.answer, step=number, opaque=part.opaque)
        if isinstance(part, AskedTool):
            row.kind, row.position, row.place = Part.Kind.TOOL_CALL, position, place
            row.tool_call = call(turn, number, position, part, next(outcomes))
            position += 1
        else:
            is_text = isinstance(part, SaidText)
            row.kind = Part.Kind.TEXT if is_text else Part.Kind.REASONING
            row.text, row.position = part.text, place
            place += 1
        row.save()


def call(turn: Turn, number: int, position: int, asked: AskedTool, outcome: Outcome) -> ToolCall:
    state, result, is_changed, review = outcome
    made = ToolCall.objects.create(
        turn=turn,
        step=number,
        position=position,
        provider_call_id=asked.call_id,
        tool_id=asked.name,
        arguments='{"changed": 1}' if is_changed else asked.arguments,
        asked_arguments=asked.arguments if is_changed else "",
        state=state,
        result=result,
    )
    if review and state in (ToolCall.State.SUCCEEDED, ToolCall.State.FAILED):
        Review.objects.create(tool_call=made, state=review, binding="", expires_at=from_now(days=1))
    return made


def take_step(
    turn: Turn, number: int, said: AssistantMessage, left: int | None, outcomes: Iterator[Outcome]
) -> None:
    Step.objects.create(
        turn=turn,
        number=number,
        state=Step.State.DONE if left is None else Step.State.INTERRUPTED,
        finish_reason="stop" if left is None else "",
    )
    if left is not None:
        said = as_stopped(AssistantMessage(parts=said.parts[:left]))
    say(turn, number, said, outcomes)


def begin(conversation: Conversation, text: str, files: list[str]) -> Turn:
    latest = conversation.messages.order_by("created_at").last()
    question = Message.objects.create(conversation=conversation, parent=latest, role="user")
    Part.objects.create(message=question, position=0, kind="text", text=text)
    for name in files:
        attach(question, conversation.owner, name)
    answer = Message.objects.create(conversation=conversation, parent=question, role="assistant")
    return Turn.objects.create(
        conversation=conversation, question=question, answer=answer, model="x:y", state="done"
    )


@pytest.mark.django_db
@hypothesis_settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(turns=TURNS, outcomes=OUTCOMES, is_short=st.booleans(), summarised=st.integers(0, 2))
def test_what_the_rows_hold_is_valid_for_every_provider(
    owner: Member,
    ask: Ask,
    answers: list[AssistantMessage],
    turns: list[tuple[list[str], list[tuple[AssistantMessage | int, int | None]]]],
    outcomes: list[Outcome],
    is_short: bool,
    summarised: int,
) -> None:
    conversation = Conversation.objects.create(owner=owner)
    became = (outcomes[n % len(outcomes)] for n in range(1_000))
    for files, steps in turns:
        turn = begin(conversation, "Look", files)
        for number, (step, left) in enumerate(steps, start=1):
            said = answers[step % len(answers)] if isinstance(step, int) else step
            take_step(turn, number, said, left, became)
    history = build_history(begin(conversation, "Go on", []))
    for form in FORMATS:
        seen = replace_unsupported(find_abilities(form, MODELS[form]), history)
        if is_short:
            seen = shorten_results(seen, of_this_turn=True).items
        if summarised:
            seen = insert_summary(seen, summarised, "Earlier notes")
        assert ask(form, seen) == "stop", form


@pytest.mark.parametrize("name", ["dot.png", "moving.gif", "small.webp", "scan.pdf"])
async def test_no_file_vanishes_without_a_word(wire: WireServer, form: str, name: str) -> None:
    data = base64.b64encode(FILES[name][1]).decode()
    asked = UserMessage(
        text="Look", media=(Media(media_type=FILES[name][0], base64=data, name=name),)
    )
    seen = replace_unsupported(find_abilities(form, MODELS[form]), (asked,))
    await said_by(form, a_request(seen))
    body = repr(wire.requests[0].body)
    assert (data[:8] in body) != ("Left out" in body)
