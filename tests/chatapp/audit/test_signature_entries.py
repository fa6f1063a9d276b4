"""What the log and the evidence say of two people who signed."""

import json
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from chatapp.audit import audit_log, evidence
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import LogEntry, Member, PolicyRule, Turn
from chatapp.rendering.pages.log import build_line
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests.chatapp.policy.test_consents import APPEND, asked, confirmed
from tests.conftest import signed_in
from tests.turns.acts import DELETE, wait_for_rest
from tests.turns.second_signers import (
    member,
    refuse,
    second_signature,
    sign,
    signed_first,
    stand_in,
)

__all__ = ["confirmed"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def entries() -> list[tuple[str, str]]:
    """What happened to the call, and by whom."""
    rows = LogEntry.objects.exclude(call_id=None)
    return [(row.kind, row.actor_name) for row in rows]


def take_evidence(chat: UUID) -> str:
    return "".join(evidence.write_evidence(evidence.read_evidence(chat)))


def find_entry(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(LogEntry.objects.get(kind=kind).data)
    return found


async def test_each_signature_is_an_entry_of_its_own(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    await in_database(sign, call, ada)
    await wait_for_rest(runtime, turn)
    assert await in_database(entries) == [
        ("call.decided", ""),
        ("approval.signed", "owner"),
        ("approval.granted", "ada"),
        ("call.sent", ""),
        ("call.ended", ""),
    ]
    first, second = (
        await in_database(find_entry, "approval.signed"),
        await in_database(find_entry, "approval.granted"),
    )
    assert first["binding"] == second["binding"] == call.approval.binding
    assert (second["second_signature"], second["first_by"]) == ("Operations", "owner")
    assert (await in_database(find_entry, "call.sent"))["granted_by"] == "owner and ada"
    assert await in_database(audit_log.verify) == (await in_database(audit_log.read_end), "")


@pytest.mark.parametrize("signers", [1, 2])
async def test_what_is_logged_as_signed_are_the_values_that_were_signed(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, signers: int
) -> None:
    def ruled() -> None:
        demanded = second_signature() if signers == 2 else None
        PolicyRule.objects.create(name="Notes", effect="ask", second=demanded)

    await in_database(ruled)
    call, owner = await asked(runtime, turn, APPEND)
    other = '{"text":"less","title":"Old ideas"}'
    await in_database(partial(sign, call, owner, arguments=other))
    word = "approval.signed" if signers == 2 else "approval.granted"
    expected = [("call.decided", ""), ("approval.changed", "owner"), (word, "owner")]
    assert (await in_database(entries))[:3] == expected
    signed, changed = (
        await in_database(find_entry, word),
        await in_database(find_entry, "approval.changed"),
    )
    assert signed["arguments"] == changed["arguments"] == other
    assert signed["binding"] == changed["binding"] != call.approval.binding


async def test_a_no_of_the_second_is_theirs(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    await in_database(refuse, call, ada, "Not this week.")
    await wait_for_rest(runtime, turn)
    assert ("approval.denied", "ada") in await in_database(entries)
    assert (await in_database(find_entry, "approval.denied"))["reason"] == "Not this week."


async def test_both_read_it_in_their_logs_and_only_the_owner_is_led_to_the_chat(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, owner = await signed_first(runtime, turn, DELETE)
    ben = (await in_database(lambda: stand_in(ada, member("ben")))).stand_in
    await in_database(sign, call, ben)

    def pages() -> list[str]:
        return [signed_in(each).get("/log/").content.decode() for each in (owner, ben)]

    owners, signers = await in_database(pages)
    said = "First approved by owner. Second approval for “Operations” as delegate of ada."
    assert said in owners and said in signers
    assert "Waiting for a second approval from “Operations”." in owners
    chat = f"/c/{turn.conversation_id}/"
    assert chat in owners
    assert chat not in signers


async def test_the_evidence_names_both_and_whom_the_second_stood_in_for(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    ben = (await in_database(lambda: stand_in(ada, member("ben")))).stand_in
    await in_database(sign, call, ben)
    await wait_for_rest(runtime, turn)
    found = json.loads(await in_database(take_evidence, turn.conversation_id))
    (card,) = found["approvals"]
    names = ("second_signature", "first_by", "decided_by", "signed_for")
    assert [card[name] for name in names] == ["Operations", "owner", "ben", "ada"]
    assert card["first_at"] <= card["decided_at"]
    assert evidence.find_break(found) is None
    card["decided_by"], card["binding"] = "owner", "c" * 64
    assert evidence.find_break(found) is not None


def test_a_first_signature_reads_as_what_it_waits_for(db: None) -> None:
    data = '{"tool":"pay","service":"bank","second_signature":"Finance","stands_in_for":""}'
    line = build_line(LogEntry(position=1, kind=LogEntry.Kind.SIGNED, data=data))
    assert (line.title, line.said) == (
        "approved, waiting for a second approval",
        "Waiting for a second approval from “Finance”.",
    )
