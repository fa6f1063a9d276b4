"""A command tells every event of its turn, whatever other processes do between its looks."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from chatapp.approvals.decisions import deny
from chatapp.conversations import intake
from chatapp.demo.seed import seed
from chatapp.engine.engine import Engine
from chatapp.management.follow_turn import follow_turn
from chatapp.models import JournalEvent, Member, Note, ToolCall, Turn
from chatapp.providers import registry
from chatapp.server.database import close_threads, in_database
from tests import scripted
from tests.scripted import calls, text

pytestmark = pytest.mark.django_db(transaction=True)
DELETE = ("notebook_delete_note", '{"title": "Old ideas"}')
AGAIN = ("notebook_delete_note", '{"title": "Older ideas"}')


@pytest.fixture(autouse=True)
def _ready(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    scripted.scenes.clear()
    scripted.requests.clear()
    seed()
    for title in ("Old ideas", "Older ideas"):
        Note.objects.update_or_create(title=title, defaults={"text": "Nothing of worth."})
    yield
    close_threads()


@pytest.fixture
def turn() -> Turn:
    person = Member.objects.create_user("owner")
    return intake.receive(person, None, text="Tidy up", model=scripted.MODEL)


def last_of(turn: Turn) -> int:
    return JournalEvent.objects.filter(conversation_id=turn.conversation_id).latest("seq").seq


def test_following_on_begins_after_the_last_event_that_was_told(turn: Turn) -> None:
    scripted.scenes += [calls(DELETE), text("Done.")]
    told: list[dict[str, Any]] = []
    waiting, last = follow_turn(turn.pk, 0, told.append)
    assert waiting.state == Turn.State.WAITING
    assert last == last_of(turn)
    call = turn.tool_calls.get()
    deny(call, by=turn.conversation.owner, binding=call.approval.binding)
    over, end = follow_turn(turn.pk, last, told.append)
    assert (over.state, end) == (Turn.State.DONE, last_of(turn))
    states = [event["state"] for event in told if event["type"] == "tool_call"]
    assert states == ["proposed", "awaiting_approval", "denied"]
    assert "".join(event["text"] for event in told if event["type"] == "text") == "Done."


def test_what_another_process_does_as_the_turn_comes_to_rest_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person denies one of two calls in the browser, just as the command is about to approve."""
    scripted.scenes += [calls(DELETE, AGAIN), text("Done.")]
    close, denied = Engine.close, []

    def deny_first() -> None:
        call = ToolCall.objects.order_by("position").first()
        if call is not None and call.state == ToolCall.State.AWAITING_APPROVAL:
            deny(call, by=call.turn.conversation.owner, binding=call.approval.binding)
            denied.append(str(call.pk))

    async def close_while_somebody_answers(self: Engine) -> None:
        await close(self)
        await in_database(deny_first)

    monkeypatch.setattr(Engine, "close", close_while_somebody_answers)
    call_command("chat", "Tidy up", "--model", scripted.MODEL, "--approve", "all", "--json")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(denied) == 1
    calls_told = [event for event in events if event["type"] == "tool_call"]
    states = [event["state"] for event in calls_told if event["id"] == denied[0]]
    assert states == ["proposed", "awaiting_approval", "denied"]
    assert events[-1] == {"type": "done", "reason": "complete"}
    titles = set(Note.objects.values_list("title", flat=True))
    assert "Old ideas" in titles and "Older ideas" not in titles
