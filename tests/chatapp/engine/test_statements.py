"""How many statements a turn sends to the database."""

import uuid
from collections.abc import AsyncGenerator

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from chatapp.conversations.queue_sender import QueueSender
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.hub import current_hub
from chatapp.models import Member, Turn
from chatapp.providers.account import Account
from chatapp.providers.events import Finished, ModelEvent, TextDelta, Usage
from chatapp.providers.request import ModelRequest
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.chatapp.telemetry.reading import Increase
from tests.turns.acts import wait_for_rest, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
COMMITS = 12
OF_A_TURN = 39
OF_A_COMMIT = 2


@pytest.mark.usefixtures("no_polls")
async def test_a_turn_with_an_open_page_takes_few_statements_and_each_commit_two(
    turn: Turn, owner: Member, runtime: EngineRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message, the turn without tools, and the page that shows its answer."""
    await wait_for_rest(runtime, turn)
    client = Client()
    await sync_to_async(client.force_login)(owner)
    viewer = await current_hub().join(turn.conversation_id, 0)
    sender = QueueSender(current_runtime())
    sender.start()
    increase = Increase()

    async def stream(_request: ModelRequest, _account: Account) -> AsyncGenerator[ModelEvent, None]:
        for number in range(1, COMMITS + 1):
            yield TextDelta(text="word ")
            await wait_until(lambda: increase.of("commit_seconds_count") >= number)  # noqa: B023
        yield Usage(input_tokens=30, output_tokens=40)
        yield Finished(reason="stop")

    monkeypatch.setattr(scripted, "stream", stream)
    fields = {"text": "Hello", "model": scripted.MODEL, "client_id": str(uuid.uuid4())}
    answer = await sync_to_async(client.post)(
        f"/c/{turn.conversation_id}/messages", fields, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 200
    try:
        await wait_until(lambda: increase.of("turns_ended_total", reason="complete") == 1)
        feed = current_hub()._feeds[turn.conversation_id]
        await wait_until(lambda: feed.seq == feed._target)
    finally:
        current_hub().leave(turn.conversation_id, viewer)
        await sender.close()
    sent = increase.of("database_statements_total")
    assert increase.of("commit_seconds_count") == COMMITS
    assert sent <= OF_A_TURN + COMMITS * OF_A_COMMIT
