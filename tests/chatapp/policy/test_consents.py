"""What a person allows in advance, changes before it runs, or only wants planned."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from chatapp.approvals import decisions
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Consent, HousePolicy, Member, PolicyRule, ToolCall, ToolLimit, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.scripted import calls, text
from tests.turns.acts import DELETE, get_only_call, get_owner, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
APPEND = ("notebook_append_to_note", '{"text": "more", "title": "Old ideas"}')


@pytest.fixture
def confirmed(notebook: Service) -> Service:
    """Every tool of the notebook as an admin has confirmed it."""
    for definition in ToolDefinition.objects.filter(service=notebook):
        ToolSetting.objects.update_or_create(
            service=notebook,
            name=definition.name,
            defaults={"confirmed_hash": definition.hash},
        )
    return notebook


def allow(call: ToolCall, by: Member, **how: Any) -> None:
    decisions.grant(call, by=by, binding=call.approval.binding, shown_at=None, **how)


async def asked(
    runtime: EngineRuntime, turn: Turn, call: tuple[str, str]
) -> tuple[ToolCall, Member]:
    """A call that waits for its person."""
    scripted.scenes += [calls(call), text("Done.")]
    await wait_for_rest(runtime, turn)
    return await get_only_call(turn), await in_database(get_owner, turn)


async def asked_again(
    runtime: EngineRuntime, owner: Member, call: tuple[str, str], conversation: Any = None
) -> ToolCall:
    """What becomes of the same call in another message."""
    scripted.scenes[:] = [calls(call), text("Done.")]
    turn = await in_database(
        lambda: intake.receive(owner, conversation, text="Again", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, turn)
    return await get_only_call(turn)


# --- consents ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scope", "same_tool", "other_tool", "other_chat"),
    [
        ("once", "ask", "ask", "ask"),
        ("conversation", "run", "ask", "ask"),
        ("always", "run", "ask", "run"),
        ("service", "run", "run", "run"),
    ],
)
async def test_a_consent_reaches_as_far_as_it_says(
    runtime: EngineRuntime,
    turn: Turn,
    confirmed: Service,
    scope: str,
    same_tool: str,
    other_tool: str,
    other_chat: str,
) -> None:
    await in_database(lambda: ToolSetting.objects.filter(name="create_note").update(level="medium"))
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(lambda: allow(call, owner, scope=scope))
    await wait_for_rest(runtime, turn)
    chat = turn.conversation
    create = ("notebook_create_note", '{"text": "x", "title": "New"}')
    found = [
        await asked_again(runtime, owner, APPEND, chat),
        await asked_again(runtime, owner, create, chat),
        await asked_again(runtime, owner, APPEND),
    ]
    effects = ["ask" if each.state == "awaiting_approval" else "run" for each in found]
    assert effects == [same_tool, other_tool, other_chat]
    if scope == "always":
        consent = await in_database(Consent.objects.get)
        assert (consent.uses, consent.definitions.keys()) == (2, {"append_to_note"})
        assert found[0].consent_id == consent.pk
        assert "you allowed" in found[0].why


async def test_a_changed_tool_and_a_moved_service_ask_again(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(lambda: allow(call, owner, scope="always"))
    await wait_for_rest(runtime, turn)

    def spoil(**changes: Any) -> None:
        Consent.objects.update(**changes)

    for changes in (
        {"definitions": {"append_to_note": "older"}},
        {"endpoint": "https://else.test"},
    ):
        await in_database(partial(spoil, **changes))
        again = await asked_again(runtime, owner, APPEND)
        assert again.state == ToolCall.State.AWAITING_APPROVAL


@pytest.mark.parametrize(
    "spoiled",
    [
        {"revoked_at": timezone.now()},
        {"created_at": timezone.now() - timedelta(days=91), "last_used_at": None},
        {"last_used_at": timezone.now() - timedelta(days=91)},
    ],
    ids=["revoked", "never used", "not used for long"],
)
async def test_a_consent_that_was_taken_back_or_lapsed_counts_no_more(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, spoiled: dict[str, Any]
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(lambda: allow(call, owner, scope="always"))
    await wait_for_rest(runtime, turn)
    await in_database(lambda: Consent.objects.update(**spoiled))
    again = await asked_again(runtime, owner, APPEND)
    assert again.state == ToolCall.State.AWAITING_APPROVAL


async def test_a_high_risk_is_allowed_once_only_unless_the_house_says_more(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, DELETE)
    with pytest.raises(Refused, match="only be allowed once"):
        await in_database(lambda: allow(call, owner, scope="always"))
    await in_database(lambda: HousePolicy(consents_to_high=True).save())
    await in_database(lambda: allow(call, owner, scope="always"))
    assert await in_database(Consent.objects.exists)


@pytest.mark.parametrize(
    ("house", "rule", "offered"),
    [
        ({}, "", "conversation always service"),
        ({"widest_consent": "once"}, "", ""),
        ({"widest_consent": "conversation"}, "", "conversation"),
        ({"widest_consent": "always"}, "", "conversation always"),
        ({"asks_everything": True}, "", ""),
        ({}, "ask", ""),
        ({}, "limit", ""),
    ],
)
async def test_a_card_offers_what_policy_lets_people_allow(
    runtime: EngineRuntime,
    turn: Turn,
    confirmed: Service,
    house: dict[str, Any],
    rule: str,
    offered: str,
) -> None:
    def set_up() -> None:
        HousePolicy(**house).save()
        if rule == "ask":
            PolicyRule.objects.create(name="Always", effect=rule, note="Because.")
        if rule == "limit":
            ToolLimit.objects.create(calls=0)

    await in_database(set_up)
    call, owner = await asked(runtime, turn, APPEND)
    card = await in_database(lambda: card_of(signed_in(owner), call))
    ways = [each for each in card.all("button") if each.attributes.get("name") == "decision"]
    lasting = [each["value"] for each in ways if each["value"] not in ("run", "deny", "change")]
    assert lasting == offered.split()
    if rule == "ask":
        assert "An admin says: Because." in card.text


def form_of(card: Element) -> dict[str, str]:
    """What the card's form holds; the line end after a text area's tag is not its own."""
    return {name: value.removeprefix("\n") for name, value in card.one("form").fields().items()}


def card_of(client: Client, call: ToolCall) -> Element:
    page = parse(client.get(f"/approvals/{call.pk}/").content.decode())
    return page.one("section", id=f"tool-call-{call.pk}")


def test_people_see_and_take_back_what_they_allowed_and_nobody_elses(
    turn: Turn, owner: Member, confirmed: Service
) -> None:
    stranger = Member.objects.create_user("stranger", password="a-long-password")
    consent = Consent.objects.create(
        person=owner,
        service=confirmed,
        endpoint=confirmed.endpoint,
        scope="always",
        definitions={"append_to_note": "h"},
    )
    assert "append_to_note" in parse(signed_in(owner).get("/consents/").content.decode()).text
    assert "append_to_note" not in signed_in(stranger).get("/consents/").content.decode()
    address = f"/consents/{consent.pk}/revoke"
    assert signed_in(stranger).post(address).status_code == 404
    assert signed_in(owner).post(address).status_code == 302
    consent.refresh_from_db()
    assert consent.revoked_at is not None
    assert "append_to_note" not in signed_in(owner).get("/consents/").content.decode()


def listed(owner: Member) -> str:
    return parse(signed_in(owner).get("/consents/").content.decode()).text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        (
            {"endpoint": "https://elsewhere.example/mcp"},
            "Ended: The address of the service has changed.",
        ),
        ({"hash": "older"}, "Ended: The tool was changed or removed."),
        (
            {"widest": "conversation"},
            "Ended: An admin no longer lets people allow this in advance.",
        ),
        (
            {"level": "high"},
            "Ended: The tool is now high risk and can only be allowed one call at a time.",
        ),
        ({"level": "high", "to_high": "yes"}, ""),
    ],
)
def test_a_consent_that_no_longer_counts_is_listed_with_the_reason(
    turn: Turn, owner: Member, confirmed: Service, change: dict[str, str], words: str
) -> None:
    house = {"widest_consent": change.get("widest", "service")}
    HousePolicy(**house, consents_to_high="to_high" in change).save()
    settings = ToolSetting.objects.filter(service=confirmed, name="append_to_note")
    settings.update(level=change.get("level", ""))
    tool = ToolDefinition.objects.get(service=confirmed, name="append_to_note")
    Consent.objects.create(
        person=owner,
        service=confirmed,
        endpoint=change.get("endpoint", confirmed.endpoint),
        scope="always",
        definitions={tool.name: change.get("hash", tool.hash)},
    )
    page = listed(owner)
    assert ("Ended" in page) is bool(words)
    assert words in page


def test_a_consent_for_a_service_says_for_which_tools_it_no_longer_counts(
    turn: Turn, owner: Member, confirmed: Service
) -> None:
    tool = ToolDefinition.objects.get(service=confirmed, name="append_to_note")
    definitions = {tool.name: tool.hash, "read_note": "older"}
    Consent.objects.create(
        person=owner,
        service=confirmed,
        endpoint=confirmed.endpoint,
        scope="service",
        definitions=definitions,
    )
    assert "Ended for read_note: changed or removed since." in listed(owner)
    assert "high risk" not in listed(owner)
    ToolSetting.objects.filter(service=confirmed, name=tool.name).update(level="high")
    said = f"Ended for {tool.name}: now high risk, so only “Allow once” is possible."
    assert said in listed(owner)


# --- policy counts again just before it runs ------------------------------------------------
@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_a_rule_made_after_the_decision_keeps_a_call_from_running(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, effect: str
) -> None:
    call, owner = await asked(runtime, turn, APPEND)

    @transaction.atomic
    def decide() -> None:
        allow(call, owner)
        PolicyRule.objects.create(name="Late", effect=effect)

    await in_database(decide)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    runs = effect == "ask"  # a person has allowed it
    assert (call.state == ToolCall.State.SUCCEEDED) is runs
    assert (call.attempt == 1) is runs
