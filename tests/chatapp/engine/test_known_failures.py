"""Mistakes that were found in other chats with tools, each kept from coming here.

The name in a docstring says where it was seen.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from chatapp.approvals import decisions
from chatapp.approvals.inbox import list_waiting
from chatapp.context import history
from chatapp.conversations import intake
from chatapp.engine import sweep
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import Approval, Consent, Conversation, Member, Note, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.providers.events import Finished, ToolCallReady
from chatapp.providers.request import AskedTool, AssistantMessage, ToolOutcome
from chatapp.rendering import page_values
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.scripted import calls, text
from tests.turns.acts import DELETE, get_owner, read_last_outcome, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
CREATE = ("notebook_append_to_note", '{"text": "More", "title": "Old ideas"}')


async def asked(runtime: EngineRuntime, turn: Turn, *wanted: tuple[str, str]) -> list[ToolCall]:
    """The calls of a turn that waits for its person."""
    scripted.scenes += [calls(*(wanted or (DELETE,))), text("As you say.")]
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.WAITING
    rows = ToolCall.objects.select_related("approval", "turn__conversation__owner", "service")
    return await in_database(lambda: list(rows.filter(turn=turn)))


async def exists() -> bool:
    """Whether the note is there that the deletion would take away."""
    return await in_database(Note.objects.filter(title="Old ideas").exists)


def card_on_page(client: Client, call: ToolCall) -> Element:
    html = client.get(f"/c/{call.turn.conversation_id}/").content.decode()
    return parse(html).one(id=page_values.tool_call_id(call.pk))


async def on_page(call: ToolCall) -> Element:
    """The call as its person finds it on a page that was loaded just now."""
    return await in_database(lambda: card_on_page(signed_in(get_owner(call.turn)), call))


async def say(verdict: Callable[..., None], call: ToolCall, **more: Any) -> None:
    binding = more.pop("binding", call.approval.binding)
    await in_database(verdict, call, by=get_owner(call.turn), binding=binding, **more)


async def test_silence_is_neither_a_yes_nor_a_hidden_no(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """AnythingLLM: after 120 seconds the question was gone, and nobody was told how it ended."""
    [call] = await asked(runtime, turn)
    await in_database(Approval.objects.update, expires_at="2020-01-01T00:00Z")
    await in_database(sweep.expire_approvals)
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.DONE
    assert await exists()
    assert "nobody answered" in read_last_outcome()
    row = await on_page(call)
    assert "expired" in row.one("summary").text


async def test_a_question_outlives_the_process_that_asked(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """Atlas: open questions were in the memory of a process."""
    [call] = await asked(runtime, turn)
    await close_engine_runtime(runtime)
    other = await open_engine_runtime(sweeps=False)
    try:
        await say(decisions.grant, call, shown_at=None)
        assert (await wait_for_rest(other, turn)).state == Turn.State.DONE
    finally:
        await close_engine_runtime(other)
    assert not await exists()


async def test_no_two_calls_share_an_approval_even_if_they_are_alike(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """Langflow: one id served several questions of a run."""
    first, second = await asked(runtime, turn, DELETE, DELETE)
    assert first.pk != second.pk
    assert first.approval.binding != second.approval.binding
    await say(decisions.deny, first)
    await in_database(second.refresh_from_db)
    assert second.state == ToolCall.State.AWAITING_APPROVAL


async def test_a_decision_never_counts_for_another_tool(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """extra-org: a yes to one tool let another one run."""
    delete, create = await asked(runtime, turn, DELETE, CREATE)
    with pytest.raises(Refused, match="changed after you opened it"):
        await say(decisions.grant, delete, binding=create.approval.binding, shown_at=None)
    await say(decisions.grant, create, shown_at=None)
    await say(decisions.deny, delete)
    await wait_for_rest(runtime, turn)
    assert await exists()


async def test_the_model_is_never_told_no_about_something_that_ran(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """autumn: the result said "denied", and a note beside it that the tool had run."""
    [call] = await asked(runtime, turn)
    await say(decisions.deny, call)
    await wait_for_rest(runtime, turn)
    await in_database(call.refresh_from_db)
    assert (call.attempt, call.result, await exists()) == (0, None, True)
    assert read_last_outcome() == "Denied by the person."


async def test_a_card_names_the_tool_and_the_service(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """goose: people were asked without being told about which tool."""
    [call] = await asked(runtime, turn)
    card = await on_page(call)
    assert card.with_class("where")[0].one("code").text == "notebook_delete_note"
    assert str(notebook) in card.one("h3").text
    assert "Delete" in card.one(id=card["aria-labelledby"]).text


async def test_nothing_is_cut_without_saying_so(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """codex: the end of a long value was missing, and with it what was done."""
    long = "harmless words " * 100 + "and delete everything"
    wanted = (CREATE[0], f'{{"text": "{long}", "title": "Old ideas"}}')
    [call] = await asked(runtime, turn, wanted)
    card = await on_page(call)
    assert long in [value.text for value in card.with_class("value")]
    assert f"{len(long):,} characters" in card.with_class("more")[0].text
    assert long in card.one("pre").text


async def test_a_consent_outlives_switching_a_service_off_and_on(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """Claude's connectors: what was always allowed was forgotten by a toggle."""
    [call] = await asked(runtime, turn, CREATE)
    await say(decisions.grant, call, shown_at=None, scope=Consent.Scope.TOOL)
    await wait_for_rest(runtime, turn)
    for is_enabled in (False, True):
        await in_database(Service.objects.update, is_enabled=is_enabled)
    person = get_owner(turn)
    scripted.scenes += [calls(CREATE), text("Done.")]
    again = await in_database(
        intake.receive, person, turn.conversation, text="Again", model=scripted.MODEL
    )
    assert (await wait_for_rest(runtime, again)).state == Turn.State.DONE
    assert await in_database(Approval.objects.filter(tool_call__turn=again).count) == 0
    assert await in_database(Consent.objects.filter(revoked_at=None).count) == 1


async def test_after_a_no_the_history_has_an_outcome_for_each_call(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """openbrowse: a call without its result broke every later request of the chat."""
    first, _second = await asked(runtime, turn, DELETE, CREATE)
    await say(decisions.deny, first)
    await in_database(intake.stop, turn.conversation)
    told = await in_database(history.build_history, turn)
    wanted = [
        part.call_id
        for item in told
        if isinstance(item, AssistantMessage)
        for part in item.parts
        if isinstance(part, AskedTool)
    ]
    assert [item.call_id for item in told if isinstance(item, ToolOutcome)] == wanted
    assert len(wanted) == 2


async def test_a_call_id_that_a_model_uses_twice_stands_once_in_the_history(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """Models that count from zero in each answer: Anthropic, Bedrock and OpenAI refuse the chat."""
    for _ in range(2):
        twice = [
            ToolCallReady(index=index, call_id="call_0", name="current-time", arguments=arguments)
            for index, arguments in enumerate(['{"zone":"UTC"}', '{"zone":"Asia/Tokyo"}'])
        ]
        nameless = ToolCallReady(index=2, call_id="", name="gone", arguments="{}")
        scripted.scenes.append([*twice, nameless, Finished(reason="tool_calls")])
    scripted.scenes.append(text("It is late."))
    await wait_for_rest(runtime, turn)
    told = scripted.requests[-1].history
    wanted = [
        part.call_id
        for item in told
        if isinstance(item, AssistantMessage)
        for part in item.parts
        if isinstance(part, AskedTool)
    ]
    assert [item.call_id for item in told if isinstance(item, ToolOutcome)] == wanted
    assert len(set(wanted)) == 6 and "" not in wanted and wanted[0] == "call_0"


async def test_stop_leaves_no_card_that_can_be_answered(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """obot: the card stayed, and a click on it ran the tool after all."""
    [call] = await asked(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    row = await on_page(call)
    assert (row.tag, row.buttons()) == ("details", [])
    with pytest.raises(Refused, match="withdrawn"):
        await say(decisions.grant, call, shown_at=None)
    assert await exists()


async def test_a_question_is_in_the_chat_of_its_person_only(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """Hugging Face's chat guards against this by hand: it might reach another person's chat."""
    [call] = await asked(runtime, turn)
    other = await in_database(lambda: Member.objects.create_user("stranger", password="a-long-one"))
    client = await in_database(signed_in, other)
    assert await in_database(list_waiting, other) == []
    addresses = (f"/approvals/{call.pk}/", f"/c/{call.turn.conversation_id}/")
    assert {(await in_database(client.get, each)).status_code for each in addresses} == {404}
    assert await in_database(Conversation.objects.filter(owner=other).count) == 0


@pytest.mark.parametrize(
    ("verdict", "word"), [(decisions.grant, "running"), (decisions.deny, "denied")]
)
async def test_an_answered_card_looks_answered_after_a_reload(
    runtime: EngineRuntime, notebook: Service, turn: Turn, verdict: Any, word: str
) -> None:
    """Langflow: after a reload the card asked again."""
    [call] = await asked(runtime, turn)
    await say(verdict, call, **({"shown_at": None} if verdict is decisions.grant else {}))
    row = await on_page(call)
    assert row.tag == "details"
    assert word in row.one("summary").text
    assert not {"Allow once", "Deny"} & set(row.buttons())
