"""A chat that plans offers and runs only tools that read; switching is one press."""

import pytest
from django.db import transaction

from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Conversation, LogEntry, Member, ToolCall, Turn
from chatapp.permissions import reasons
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.policy.test_consents import APPEND, allow, asked, confirmed
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import calls, text
from tests.turns.acts import DELETE, READ, get_only_call, wait_for_rest

__all__ = ["confirmed"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


async def test_a_chat_that_plans_offers_and_runs_only_what_reads(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    await in_database(lambda: intake.switch_mode(turn.conversation, "plan"))
    scripted.scenes += [calls(READ, DELETE), text("I would delete it.")]
    await wait_for_rest(runtime, turn)
    offered = {tool.name for tool in scripted.requests[0].tools}
    assert "notebook_read_note" in offered
    assert "notebook_delete_note" not in offered
    assert "This chat only plans." in scripted.requests[0].system
    read, delete = await in_database(lambda: list(ToolCall.objects.order_by("position")))
    assert read.state == ToolCall.State.SUCCEEDED
    assert (delete.state, delete.attempt) == (ToolCall.State.REFUSED, 0)
    assert delete.why == reasons.NOT_IN_PLAN_MODE


async def test_a_call_that_was_allowed_does_not_run_once_the_chat_only_plans(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, APPEND)

    @transaction.atomic
    def decide() -> None:
        allow(call, owner)
        intake.switch_mode(turn.conversation, "plan")

    await in_database(decide)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.WITHDRAWN, 0)


def test_the_page_switches_the_mode_with_one_press(turn: Turn, owner: Member) -> None:
    client = signed_in(owner)
    address = f"/c/{turn.conversation_id}/"
    page = parse(client.get(address).content.decode())
    assert page.button("Turn on plan mode")["value"] == "plan"
    assert client.post(f"{address}mode", {"mode": "plan"}).status_code == 302
    page = parse(client.get(address).content.decode())
    assert "Plan mode: only read-only tools run." in page.text
    assert page.button("Turn off plan mode")
    assert client.post(f"{address}mode", {"mode": "dance"}).status_code == 422
    assert Conversation.objects.get(pk=turn.conversation_id).mode == "plan"
    assert client.post(f"{address}mode", {"mode": "plan"}).status_code == 302
    (entry,) = LogEntry.objects.filter(kind="chat.mode")
    assert (entry.actor_id, entry.person_id) == (owner.pk, owner.pk)
    assert (entry.conversation_id, entry.data) == (turn.conversation_id, '{"mode":"plan"}')
    assert "Plan mode is on." in client.get("/log/").content.decode()
    stranger = Member.objects.create_user("stranger", password="a-long-password")
    assert signed_in(stranger).post(f"{address}mode", {"mode": "act"}).status_code == 404


def test_a_new_chat_begins_as_its_form_says(owner: Member, transactional_db: None) -> None:
    client = signed_in(owner)
    fields = {"text": "Plan this", "model": scripted.MODEL, "mode": "plan"}
    client.post("/c/new/messages", fields)
    chat = Conversation.objects.get(owner=owner)
    assert chat.mode == "plan"
    (entry,) = LogEntry.objects.filter(kind="chat.mode")
    assert (entry.actor_id, entry.person_id) == (owner.pk, owner.pk)
    assert (entry.conversation_id, entry.data) == (chat.pk, '{"mode":"plan"}')
    client.post("/c/new/messages", fields | {"mode": "act"})
    assert LogEntry.objects.filter(kind="chat.mode").count() == 1


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("/c/new/messages", {"text": ""}),
        ("/attach/", {}),
        ("/attach/add", {}),
        ("/attach/back", {}),
        ("/models/choose", {"chosen": scripted.MODEL}),
    ],
)
@pytest.mark.parametrize("mode", ["plan", ""])
def test_the_page_of_a_new_chat_keeps_its_mode_on_every_way(
    owner: Member, address: str, fields: dict[str, str], mode: str
) -> None:
    draft = {"text": "Plan this", "model": scripted.MODEL} | ({"mode": mode} if mode else {})
    answer = signed_in(owner).post(address, draft | fields)
    page = parse(answer.content.decode())
    inputs = [each for each in page.all("input") if each.attributes.get("name") == "mode"]
    kept = [each for each in inputs if each["type"] == "hidden" or "checked" in each.attributes]
    assert [each["value"] for each in kept[:1]] == ([mode] if mode else [])
