"""A call that needs a sign-in waits in a row, and the same call goes on after a sign-in.

The service and its authorization server are real ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.utils import timezone

from chatapp.approvals import decisions, sign_ins
from chatapp.calls.ledger import begin_sending
from chatapp.calls.pausing import pause_for_sign_in
from chatapp.conversations import intake
from chatapp.conversations.turn_events import list_waiting
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.lease import acquire
from chatapp.models import Conversation, Member, Permit, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.authority import Authority, served_authority
from tests.peers.vault import Vault, served_vault
from tests.scripted import calls, text
from tests.turns.acts import (
    create_offered_service,
    get_only_call,
    grant_call,
    read_last_outcome,
    wait_for_rest,
)
from tests.turns.sign_ins import sign_in, sign_in_elsewhere

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
WHOAMI = ("vault_whoami", "{}")


@dataclass
class Peers:
    authority: Authority
    vault: Vault
    service: Service


@pytest.fixture
def peers(transactional_db: None) -> Iterator[Peers]:
    with served_authority() as (authority, _), served_vault(authority) as (vault, _):
        authority.person = "owner"
        service = create_offered_service(
            "vault",
            vault.url,
            "whoami",
            "seal",
            title="The vault",
            authentication="oauth_user",
        )
        yield Peers(authority, vault, service)


def card(owner: Member, conversation: Conversation, call: ToolCall) -> Element:
    page = parse(signed_in(owner).get(f"/c/{conversation.pk}/").content.decode())
    return page.one(id=f"tool-call-{call.pk}")


async def test_the_turn_parks_and_the_same_call_goes_on_after_the_sign_in(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    scripted.scenes += [calls(WHOAMI), text("You are the owner.")]
    waiting = await wait_for_rest(runtime, turn)
    call = await only_call_of(turn)
    assert (waiting.state, call.state) == (Turn.State.WAITING, State.AWAITING_SIGN_IN)
    assert peers.vault.runs == 0

    answer = await in_database(sign_in, owner, call)

    assert answer["Location"] == f"/c/{turn.conversation_id}/#tool-call-{call.pk}"
    done = await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (done.state, call.state) == (Turn.State.DONE, State.SUCCEEDED)
    assert call.content[0]["text"] == "owner"
    assert (call.attempt, call.pauses, peers.vault.runs) == (2, 1, 1)
    assert await in_database(Permit.objects.filter(tool_call=call).count) == 2


async def only_call_of(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.select_related("service").get, turn=turn)


async def parked(runtime: EngineRuntime, turn: Turn) -> ToolCall:
    scripted.scenes += [calls(WHOAMI), text("So it is.")]
    return await wait_until_parked(runtime, turn)


async def wait_until_parked(runtime: EngineRuntime, turn: Turn) -> ToolCall:
    await wait_for_rest(runtime, turn)
    call = await only_call_of(turn)
    assert call.state == State.AWAITING_SIGN_IN
    return call


async def test_the_card_says_who_wants_the_sign_in_and_why(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)
    shown = await in_database(card, owner, turn.conversation, call)
    assert shown["role"] == "group"
    assert "The vault needs a sign-in" in shown.text
    assert "You have not signed in to this service yet." in shown.text
    assert "waiting for sign-in" in shown.text.lower()
    assert urlsplit(peers.vault.url).netloc in shown.text
    assert shown.buttons() == ["Connect", "Do not sign in"]


async def test_the_link_on_the_card_names_the_host_before_one_leaves(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)

    def press() -> str:
        answer = signed_in(owner).post(
            "/oauth/mcp/vault/start", {"call": str(call.pk)}, headers={"HX-Request": "true"}
        )
        return str(answer.content.decode())

    shown = parse(await in_database(press)).one(id=f"tool-call-{call.pk}")
    host = urlsplit(peers.authority.url).netloc
    assert shown.one("strong").text == host
    assert shown.one("a", rel="noreferrer").text == f"Continue to {host}"


async def test_what_waits_is_said_by_the_command_and_listed_with_the_approvals(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)
    (told,) = await in_database(list_waiting, turn)
    assert (told["kind"], told["id"]) == ("sign_in", str(call.pk))
    listed = await in_database(lambda: signed_in(owner).get("/approvals/").content.decode())
    assert "waiting for sign-in" in parse(listed).one(href=f"/approvals/{call.pk}/").text


async def test_a_tool_that_wants_more_rights_says_which_and_goes_on_with_them(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)
    await in_database(sign_in, owner, call)
    await wait_for_rest(runtime, turn)
    scripted.scenes += [calls(("vault_seal", "{}")), text("So it is.")]
    second = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="And seal it", model=scripted.MODEL)
    )
    sealing = await wait_until_parked(runtime, second)
    shown = await in_database(card, owner, turn.conversation, sealing)
    assert "more access" in shown.text and "admin" in [each.text for each in shown.all("code")]
    assert shown.buttons()[0] == "Connect again"

    await in_database(sign_in, owner, sealing)
    await wait_for_rest(runtime, second)
    await sealing.arefresh_from_db()
    assert (sealing.state, peers.vault.runs) == (State.SUCCEEDED, 2)


async def test_nobody_signs_in_in_time_and_the_model_is_told(
    runtime: EngineRuntime, peers: Peers, turn: Turn
) -> None:
    call = await parked(runtime, turn)
    await in_database(sign_ins.expire_sign_ins)
    await call.arefresh_from_db()
    assert call.state == State.AWAITING_SIGN_IN, "It is given up before its time."

    past = timezone.now() - timedelta(seconds=1)
    await in_database(ToolCall.objects.filter(pk=call.pk).update, waits_until=past)
    await in_database(sign_ins.expire_sign_ins)

    done = await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (done.state, call.state) == (Turn.State.DONE, State.EXPIRED)
    assert "No one signed in to The vault in time." in read_last_outcome()
    assert peers.vault.runs == 0


async def test_who_does_not_want_to_sign_in_says_so_and_the_turn_goes_on(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)
    client = await in_database(signed_in, owner)
    path = f"/approvals/{call.pk}/do-not-sign-in"
    assert (await in_database(client.post, path)).status_code == 302
    done = await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (done.state, call.state) == (Turn.State.DONE, State.WITHDRAWN)
    assert "was declined" in read_last_outcome()
    with pytest.raises(Refused):
        await in_database(sign_ins.decline_sign_in, call, by=owner)


async def test_stop_withdraws_a_call_that_waits_for_a_sign_in(
    runtime: EngineRuntime, peers: Peers, turn: Turn
) -> None:
    call = await parked(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    await call.arefresh_from_db()
    assert call.state == State.WITHDRAWN


async def test_a_sign_in_of_somebody_else_wakes_nothing(
    runtime: EngineRuntime, peers: Peers, turn: Turn
) -> None:
    call = await parked(runtime, turn)
    other = await in_database(Member.objects.create_user, "other")
    await in_database(sign_ins.approve_waiting, peers.service, other.pk)
    await call.arefresh_from_db()
    assert call.state == State.AWAITING_SIGN_IN


async def test_a_sign_in_that_came_while_the_call_was_under_way_is_not_asked_for_again(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    """Two tabs: one signs in while the other's call is just being turned away."""

    def both() -> str:
        made = ToolCall.objects.create(
            turn=turn,
            step=1,
            position=0,
            provider_call_id="call_0",
            tool_id="vault_whoami",
            tool_name="whoami",
            service=peers.service,
            definition=ToolDefinition.objects.get(name="whoami"),
            arguments="{}",
            state=State.APPROVED,
        )
        lease = acquire(turn.pk)
        assert lease is not None
        sending = begin_sending(lease, grant_call(made).pk)
        assert sending is not None
        sign_in_elsewhere(owner)
        pause_for_sign_in(lease, sending, {"kind": "sign_in_needed", "message": "", "hint": ""})
        made.refresh_from_db()
        return made.state

    assert await in_database(both) == State.APPROVED


async def test_nobody_is_sent_to_a_call_of_somebody_else(
    runtime: EngineRuntime, peers: Peers, turn: Turn
) -> None:
    call = await parked(runtime, turn)

    def try_both() -> list[int]:
        client = signed_in(Member.objects.create_user("stranger", password="a-long-password"))
        began = client.post("/oauth/mcp/vault/start", {"call": str(call.pk)})
        declined = client.post(f"/approvals/{call.pk}/do-not-sign-in")
        return [began.status_code, declined.status_code]

    assert await in_database(try_both) == [404, 404]
    await call.arefresh_from_db()
    assert call.state == State.AWAITING_SIGN_IN


async def test_members_are_told_whom_to_ask_where_an_admin_signs_in_for_all(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)
    await in_database(Service.objects.update, authentication="oauth_shared")
    shown = await in_database(card, owner, turn.conversation, call)
    assert "It runs when an admin signs in" in shown.text
    assert "you sign in" not in shown.text
    assert shown.buttons() == ["Cancel call"]


async def test_what_policy_says_by_then_counts_for_a_call_that_policy_allowed(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    call = await parked(runtime, turn)
    await in_database(ToolSetting.objects.filter(name="whoami").update, level="high")
    await in_database(sign_in, owner, call)
    await wait_for_rest(runtime, turn)
    asked = await get_only_call(turn)
    assert asked.state == State.AWAITING_APPROVAL
    await in_database(
        decisions.grant, asked, by=owner, binding=asked.approval.binding, shown_at=None
    )
    await wait_for_rest(runtime, turn)
    await asked.arefresh_from_db()
    assert (asked.state, peers.vault.runs) == (State.SUCCEEDED, 1)


async def test_a_token_that_is_not_taken_any_more_asks_to_connect_again_and_the_call_goes_on(
    runtime: EngineRuntime, peers: Peers, turn: Turn, owner: Member
) -> None:
    await in_database(sign_in_elsewhere, owner)
    peers.authority.tokens.clear()
    peers.authority.refreshers.clear()
    call = await parked(runtime, turn)
    shown = await in_database(card, owner, turn.conversation, call)
    assert "The sign-in has expired or is no longer accepted." in shown.text
    assert shown.buttons() == ["Connect again", "Do not sign in"]
    await in_database(sign_in, owner, call)
    await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (call.state, peers.vault.runs) == (State.SUCCEEDED, 1)


async def test_a_sign_in_whose_news_was_lost_is_noticed_by_the_sweep(
    runtime: EngineRuntime,
    peers: Peers,
    turn: Turn,
    owner: Member,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the process had died between storing the sign-in and telling of it."""
    scripted.scenes += [calls(WHOAMI), text("You are the owner.")]
    await wait_for_rest(runtime, turn)
    call = await only_call_of(turn)
    await in_database(sign_ins.approve_missed_sign_ins)
    await call.arefresh_from_db()
    assert call.state == State.AWAITING_SIGN_IN, "Nobody has signed in yet."

    monkeypatch.setattr(sign_ins, "approve_waiting", lambda *_: None)
    await in_database(sign_in, owner, call)
    await call.arefresh_from_db()
    assert call.state == State.AWAITING_SIGN_IN
    await in_database(sign_ins.approve_missed_sign_ins)

    done = await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (done.state, call.state, peers.vault.runs) == (Turn.State.DONE, State.SUCCEEDED, 1)
