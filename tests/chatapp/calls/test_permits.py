"""A permit holds for seconds: what was checked longer ago is checked again before it is sent."""

import pytest

from chatapp.calls import ledger
from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.calls.ledger import FROZEN
from chatapp.models import PolicyRule
from chatapp.server.database import in_database
from tests.peers.gate import Gate

from .test_execution import Asked, State, _served, asked, execute, gate, service

__all__ = ["_served", "asked", "gate", "service"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("effect", "state", "sent"), [("", State.SUCCEEDED, 1), ("deny", State.WITHDRAWN, 0)]
)
async def test_a_call_whose_permit_ran_out_is_not_sent_and_is_decided_again(
    asked: Asked, gate: Gate, monkeypatch: pytest.MonkeyPatch, effect: str, state: str, sent: int
) -> None:
    call = await in_database(asked.call, "read_at_once", "thing")
    lease = await in_database(asked.lease)
    with monkeypatch.context() as late:
        late.setattr(ledger, "PERMIT_SECONDS", -1)
        await execute(lease, (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, call.may_have_run, len(gate.calls)) == (State.APPROVED, False, 0)
    if effect:
        await in_database(lambda: PolicyRule.objects.create(name="By now", effect=effect))
    await execute(lease, (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, len(gate.calls)) == (state, sent)


async def test_a_call_whose_permits_run_out_again_and_again_is_given_up(
    asked: Asked, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "PERMIT_SECONDS", -1)
    call = await in_database(asked.call, "read_at_once", "thing")
    lease = await in_database(asked.lease)
    for _ in range(MAX_ATTEMPTS):
        await execute(lease, (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, call.error, len(gate.calls)) == (State.FAILED, FROZEN, 0)
