"""Policy counts as it is when a call runs, whatever was allowed before, and for what was shown."""

from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.models import QuerySet

from chatapp.approvals import decisions
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import (
    Approval,
    Consent,
    HousePolicy,
    Member,
    PolicyRule,
    ToolCall,
    ToolLimit,
    Turn,
)
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolSetting
from tests import scripted
from tests.chatapp.policy.test_consents import (
    APPEND,
    allow,
    asked,
    asked_again,
    card_of,
    confirmed,
    form_of,
)
from tests.conftest import signed_in
from tests.scripted import calls, text
from tests.turns.acts import DELETE, READ, get_only_call, get_owner, wait_for_rest
from tests.turns.second_signers import second_signature

__all__ = ["confirmed"]
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
OTHER = '{"title": "Old ideas", "text": "less"}'


@pytest.mark.parametrize("how", [{"arguments": OTHER}, {"scope": "always"}])
async def test_a_card_that_showed_another_place_binds_nothing(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, how: dict[str, Any]
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(lambda: Service.objects.update(url="https://elsewhere.test/mcp"))
    with pytest.raises(Refused, match="changed after you opened it"):
        await in_database(partial(allow, call, owner, **how))
    assert not await in_database(Consent.objects.exists)
    approval = await in_database(Approval.objects.get)
    assert approval.state == Approval.State.OPEN


async def test_changed_values_are_judged_by_policy_before_they_are_taken(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    def rules() -> None:
        secret = 'text == "secret"'
        PolicyRule.objects.create(name="No", effect="deny", condition=secret, note="Never.")
        guarded = {"condition": 'text == "guarded"', "wants_typing": True}
        PolicyRule.objects.create(name="Type", effect="ask", **guarded)

    await in_database(rules)
    call, owner = await asked(runtime, turn, APPEND)
    secret, guarded = (f'{{"title": "Old ideas", "text": "{t}"}}' for t in ("secret", "guarded"))
    with pytest.raises(Refused, match="Policy forbids these values. Never."):
        await in_database(partial(allow, call, owner, arguments=secret))
    with pytest.raises(Refused, match="type the tool’s name"):
        await in_database(partial(allow, call, owner, arguments=guarded))
    await in_database(partial(allow, call, owner, arguments=guarded, typed="append_to_note"))
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == ToolCall.State.SUCCEEDED


async def test_run_once_runs_what_the_card_shows_and_not_what_stands_in_a_field(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, APPEND)

    def press() -> None:
        client = signed_in(owner)
        sent = form_of(card_of(client, call)) | {"shown_at": "", "decision": "run"}
        sent |= {"exact": OTHER, "v0": "else", "v1": "else"}
        assert client.post(f"/approvals/{call.pk}/decide", sent).status_code == 302

    await in_database(press)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.arguments, call.asked_arguments) == (APPEND[1].replace(" ", ""), "") or (
        "more" in call.arguments and not call.asked_arguments
    )


def forbids() -> None:
    PolicyRule.objects.create(name="Late", effect="deny", note="Not in June.")


def wants_two() -> None:
    PolicyRule.objects.create(name="Late", effect="ask", second=second_signature())


def wants_typing() -> None:
    PolicyRule.objects.create(name="Late", effect="ask", wants_typing=True)


def resolve_again(call: ToolCall, owner: Member, **how: Any) -> None:
    found = ToolCall.objects.select_related("service", "definition").get(pk=call.pk)
    decisions.resolve(found, by=owner, verdict="again", **how)


async def lost(runtime: EngineRuntime, turn: Turn) -> tuple[ToolCall, Member]:
    """A call that its person allowed, and whose outcome nobody knows."""
    call, owner = await asked(runtime, turn, APPEND)

    @transaction.atomic
    def loses() -> None:
        allow(call, owner)
        unknown = {"state": ToolCall.State.UNKNOWN, "attempt": 1}
        ToolCall.objects.filter(pk=call.pk).update(**unknown)

    await in_database(loses)
    await wait_for_rest(runtime, turn)
    return call, owner


@pytest.mark.parametrize(
    ("tighten", "says"),
    [
        (forbids, "Policy now forbids this. Not in June."),
        (wants_two, "Policy now requires two approvals"),
        (wants_typing, "type the tool’s name: append_to_note"),
    ],
)
async def test_what_is_run_again_needs_all_that_policy_demands_by_now(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, tighten: Any, says: str
) -> None:
    call, owner = await lost(runtime, turn)
    await in_database(tighten)
    with pytest.raises(Refused, match=says):
        await in_database(resolve_again, call, owner)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.UNKNOWN, 1)


async def test_whoever_types_what_is_wanted_by_now_runs_it_again(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await lost(runtime, turn)
    await in_database(wants_typing)
    with pytest.raises(Refused, match="type the tool’s name"):
        await in_database(resolve_again, call, owner)
    await in_database(lambda: card_of(signed_in(owner), call).one(name="typed"))
    await in_database(partial(resolve_again, call, owner, typed="append_to_note"))
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.SUCCEEDED, 2)


async def test_what_ran_by_itself_is_not_run_again_where_a_name_is_to_be_typed_by_now(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    owner = await in_database(get_owner, turn)
    call = await asked_again(runtime, owner, READ)
    await in_database(lambda: ToolCall.objects.update(state=ToolCall.State.UNKNOWN))
    await in_database(wants_typing)
    with pytest.raises(Refused, match="Ask the assistant again"):
        await in_database(partial(resolve_again, call, owner, typed="read_note"))


@pytest.mark.parametrize("tighten", [forbids, wants_two, wants_typing])
async def test_what_policy_demands_after_the_word_to_run_again_counts_too(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, tighten: Any
) -> None:
    call, owner = await lost(runtime, turn)

    @transaction.atomic
    def too_early() -> None:
        resolve_again(call, owner)
        tighten()

    await in_database(too_early)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.UNKNOWN, 1)
    assert call.error is not None and "so it was not run" in call.error["message"]


def test_run_again_wants_what_run_once_wanted(turn: Turn, owner: Member) -> None:
    call = ToolCall.objects.create(
        turn=turn, step=1, position=0, tool_name="delete_note", state=ToolCall.State.UNKNOWN
    )
    soon = turn.created_at.timestamp() + 10**9
    with pytest.raises(Refused, match="before you could read"):
        decisions.resolve(call, by=owner, verdict="worked", shown_at=soon)
    expires = turn.created_at
    Approval.objects.create(tool_call=call, binding="b", wants_typing=True, expires_at=expires)
    with pytest.raises(Refused, match="type the tool’s name"):
        decisions.resolve(call, by=owner, verdict="again")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda: ToolSetting.objects.filter(name="append_to_note").update(level="high"),
        lambda: HousePolicy(widest_consent="conversation").save(),
    ],
    ids=["the tool became a high risk", "the house allows less"],
)
async def test_a_consent_counts_as_far_as_the_house_lets_it_now(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, spoil: Any
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(partial(allow, call, owner, scope="always"))
    await wait_for_rest(runtime, turn)
    await in_database(spoil)
    again = await asked_again(runtime, owner, APPEND)
    assert again.state == ToolCall.State.AWAITING_APPROVAL


async def test_a_call_that_was_decided_by_what_is_not_so_any_more_asks_and_rests(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    """What is kept of the tools says that it runs by itself; the rows say that it asks."""

    def raised_behind_every_mark() -> None:
        QuerySet(ToolSetting).filter(name="read_note").update(level="high")

    owner = await in_database(get_owner, turn)
    first = await asked_again(runtime, owner, READ)
    assert first.state == ToolCall.State.SUCCEEDED
    await in_database(raised_behind_every_mark)
    call = await asked_again(runtime, owner, READ)
    assert (call.state, call.risk, call.attempt) == (ToolCall.State.AWAITING_APPROVAL, "high", 0)
    assert "risk is high" in call.why
    assert call.approval.state == Approval.State.OPEN
    await in_database(partial(allow, call, owner))
    await wait_for_rest(runtime, await in_database(lambda: call.turn))
    await in_database(call.refresh_from_db)
    assert call.state == ToolCall.State.SUCCEEDED


async def test_parallel_calls_beyond_the_limit_of_a_day_ask_and_none_is_lost(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    await in_database(partial(ToolLimit.objects.create, tool="read_note", calls=2))
    titles = ("Old ideas", "Groceries", "Ideas")
    reads = [("notebook_read_note", f'{{"title": "{title}"}}') for title in titles]
    scripted.scenes += [calls(*reads), text("Done.")]
    await wait_for_rest(runtime, turn)
    states = await in_database(lambda: sorted(ToolCall.objects.values_list("state", flat=True)))
    assert states.count(ToolCall.State.AWAITING_APPROVAL) == 1
    assert ToolCall.State.WITHDRAWN not in states


async def test_words_of_strangers_in_the_same_step_were_not_read_yet(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(partial(allow, call, owner, scope="always"))
    await wait_for_rest(runtime, turn)
    await in_database(lambda: Service.objects.update(is_open=True))
    scripted.scenes[:] = [calls(READ, APPEND), text("Done.")]
    following = await in_database(
        lambda: intake.receive(owner, None, text="Both", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, following)
    found = await in_database(
        lambda: list(ToolCall.objects.filter(turn=following).values_list("state", flat=True))
    )
    assert found == [ToolCall.State.SUCCEEDED] * 2


async def test_a_refused_answer_gives_back_what_was_typed(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    await in_database(lambda: HousePolicy(types_high=True).save())
    call, owner = await asked(runtime, turn, DELETE)

    def press() -> None:
        client = signed_in(owner)
        sent = form_of(card_of(client, call)) | {"shown_at": "", "decision": "run"}
        sent |= {"typed": "delete", "reason": "Think again"}
        refused = client.post(f"/approvals/{call.pk}/decide", sent)
        assert refused.status_code == 422
        page = refused.content.decode()
        assert 'value="delete"' in page
        assert "Think again</textarea>" in page

    await in_database(press)
