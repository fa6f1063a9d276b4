"""A task whose service wants another sign-in meanwhile: the card asks for it, and the same task is
asked after again. The service and its authorization server are real ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.utils import timezone

from chatapp.approvals import sign_ins
from chatapp.calls.remote_tasks import poll_due
from chatapp.conversations import intake
from chatapp.conversations.turn_events import list_waiting
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, RemoteTask, ToolCall, Turn
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.authority import Authority, served_authority
from tests.peers.errands import Errands, application
from tests.peers.vault import served_behind
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service, read_last_outcome, wait_for_rest
from tests.turns.sign_ins import sign_in, sign_in_elsewhere

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
TASK = "errand 1"


@dataclass
class Peers:
    errands: Errands
    authority: Authority


@pytest.fixture
def peers(transactional_db: None) -> Iterator[Peers]:
    errands = Errands()
    with (
        served_authority() as (authority, _),
        served_behind(authority, lambda _: application(errands)) as (vault, _),
    ):
        authority.person, vault.challenge = "owner", "Bearer"
        create_offered_service(
            "vault", vault.url, "errand", title="The vault", authentication="oauth_user"
        )
        yield Peers(errands, authority)


async def polled() -> None:
    """As if the time of the task had come."""
    past = timezone.now() - timedelta(seconds=1)
    await in_database(RemoteTask.objects.update, next_poll_at=past)
    await poll_due()


async def call_of(turn: Turn) -> ToolCall:
    found = ToolCall.objects.select_related("service", "turn__conversation__owner")
    return await in_database(found.get, turn=turn)


async def locked_out(runtime: EngineRuntime, turn: Turn, owner: Member, peers: Peers) -> ToolCall:
    """The call of a turn whose task goes on, while nobody may ask after it any more."""
    await in_database(sign_in_elsewhere, owner)
    scripted.scenes += [calls(("vault_errand", "{}")), text("It is done.")]
    await wait_for_rest(runtime, turn)
    assert (await call_of(turn)).state == State.AWAITING_TASK
    peers.authority.tokens.clear()
    peers.authority.refreshers.clear()
    await polled()
    return await call_of(turn)


def card(call: ToolCall) -> Element:
    answer = signed_in(call.turn.conversation.owner).get(f"/c/{call.turn.conversation_id}/")
    return parse(answer.content.decode()).one(id=f"tool-call-{call.pk}")


async def test_the_card_asks_for_the_sign_in_and_the_same_task_goes_on_after_it(
    runtime: EngineRuntime, turn: Turn, owner: Member, peers: Peers
) -> None:
    call = await locked_out(runtime, turn, owner, peers)
    assert call.state == State.AWAITING_SIGN_IN
    shown = await in_database(card, call)
    assert shown.buttons() == ["Connect again", "Do not sign in"]
    assert "The service keeps working." in shown.text
    assert "was not run" not in shown.text
    (told,) = await in_database(list_waiting, turn)
    assert told["kind"] == "sign_in"

    await in_database(sign_in, owner, call)
    assert (await call_of(turn)).state == State.AWAITING_TASK
    peers.errands.done(TASK, "Bread and milk.")
    await poll_due()  # at once, whatever the pace was before
    done = await wait_for_rest(runtime, turn)
    call = await call_of(turn)
    assert (done.state, call.state, read_last_outcome()) == (
        Turn.State.DONE,
        "succeeded",
        "Bread and milk.",
    )
    assert (call.attempt, list(peers.errands.tasks)) == (1, [TASK])


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_sign_in_whose_news_was_lost_is_found_out_by_the_next_poll(
    runtime: EngineRuntime, turn: Turn, owner: Member, peers: Peers, is_done: bool
) -> None:
    call = await locked_out(runtime, turn, owner, peers)
    await in_database(sign_in_elsewhere, owner)
    await in_database(ToolCall.objects.update, state=State.AWAITING_SIGN_IN)
    await in_database(sign_ins.approve_missed_sign_ins)
    if is_done:
        peers.errands.done(TASK, "Bread and milk.")
    await polled()
    await call.arefresh_from_db()
    wanted = State.SUCCEEDED if is_done else State.AWAITING_TASK
    assert (call.state, call.attempt, call.error) == (wanted, 1, None)


async def test_the_card_stays_although_somebody_signed_in_after_the_call_was_sent(
    runtime: EngineRuntime, turn: Turn, owner: Member, peers: Peers
) -> None:
    """What was given then is what the service does not take any more."""
    await locked_out(runtime, turn, owner, peers)
    await in_database(sign_in_elsewhere, owner)
    await polled()
    assert (await call_of(turn)).state == State.AWAITING_TASK
    peers.authority.tokens.clear()
    peers.authority.refreshers.clear()
    await polled()
    await in_database(sign_ins.approve_missed_sign_ins)
    assert (await call_of(turn)).state == State.AWAITING_SIGN_IN


async def test_a_task_is_not_given_up_when_the_time_for_an_ordinary_sign_in_is_over(
    runtime: EngineRuntime, turn: Turn, owner: Member, peers: Peers
) -> None:
    call = await locked_out(runtime, turn, owner, peers)
    await in_database(sign_ins.expire_sign_ins)
    await call.arefresh_from_db()
    assert (call.state, call.waits_until) == (State.AWAITING_SIGN_IN, None)

    await in_database(RemoteTask.objects.update, deadline=timezone.now())
    await polled()
    await call.arefresh_from_db()
    assert call.state == State.UNKNOWN


@pytest.mark.parametrize("way", ["decline", "stop"])
async def test_what_nobody_signs_in_for_has_an_unknown_outcome(
    runtime: EngineRuntime, turn: Turn, owner: Member, peers: Peers, way: str
) -> None:
    call = await locked_out(runtime, turn, owner, peers)
    if way == "decline":
        await in_database(sign_ins.decline_sign_in, call, by=owner)
    else:
        await in_database(intake.stop, turn.conversation)
    await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert call.state == State.UNKNOWN
