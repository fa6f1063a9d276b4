"""A real turn counts what it did, and how each part of it ended."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.signals import user_login_failed
from django.db import transaction
from django.test import Client
from django.utils import timezone

from chatapp.approvals import decisions
from chatapp.audit import anchors
from chatapp.engine import backlog
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.hub import Hub, current_hub
from chatapp.models import ChatModel, ModelProvider, ToolCall, Turn
from chatapp.people.sign_in_limits import BEARER_NAME
from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.access.observed_calls import ObservedCall
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.events import Finished, ProviderError, TextDelta, Usage
from chatapp.providers.registry import PROVIDERS
from chatapp.server.database import in_database
from chatapp.telemetry import metrics
from mcpconfig.models import Service
from mcpconfig.net.addresses import resolve_vetted_addresses
from mcpconfig.values.errors import OperationError
from tests import scripted
from tests.scripted import Pause, calls, text
from tests.turns.acts import DELETE, READ, get_only_call, wait_for_rest, wait_until

from .reading import Increase

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = {"provider": "scripted", "model": "model"}


async def test_an_answer_counts_its_turn_its_model_call_and_its_tokens(
    runtime: EngineRuntime, turn: Turn
) -> None:
    increase = Increase()
    used = Usage(input_tokens=70, cached_tokens=30, output_tokens=9, reasoning_tokens=4)
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Hello"), pause, used, Finished(reason="stop")])
    moving = asyncio.create_task(runtime.engine.advance(turn.pk))
    await wait_until(lambda: increase.of("commit_seconds_count") >= 1)
    pause.ended.set()
    await moving
    assert increase.of("turns_taken_total", how="new") == 1
    assert increase.of("turn_queue_seconds_count") == 1
    assert increase.of("turns_ended_total", reason="complete") == 1
    assert increase.of("model_calls_total", outcome="finished", **MODEL) == 1
    assert increase.of("model_calls_running", provider="scripted") == 0
    assert increase.of("model_first_event_seconds_count", **MODEL) == 1
    assert increase.of("model_call_seconds_count", **MODEL) == 1
    tokens = {kind: increase.of("model_tokens_total", kind=kind, **MODEL) for kind in KINDS}
    assert tokens == {"input": 70, "cached": 30, "output": 9, "reasoning": 4}
    assert increase.of("commit_turns_sum") >= 1


KINDS = ("input", "cached", "output", "reasoning")


async def test_each_failed_attempt_of_a_model_call_counts(
    runtime: EngineRuntime, turn: Turn
) -> None:
    increase = Increase()
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=0.01)
    refused = ProviderError(kind="bad_request", message="No.")
    scripted.scenes += [[busy], [refused]]
    await wait_for_rest(runtime, turn)
    assert increase.of("model_calls_total", outcome="overloaded", **MODEL) == 1
    assert increase.of("model_calls_total", outcome="bad_request", **MODEL) == 1
    assert increase.of("model_first_event_seconds_count", **MODEL) == 0
    assert increase.of("turns_ended_total", reason="failed") == 1


async def test_a_stream_that_breaks_off_and_a_bug_count_as_such(
    runtime: EngineRuntime, turn: Turn
) -> None:
    increase = Increase()
    scripted.scenes.append([TextDelta(text="Once upon")])
    await wait_for_rest(runtime, turn)
    assert increase.of("model_calls_total", outcome="protocol", **MODEL) == 1


async def test_a_bug_in_a_provider_counts_as_internal(runtime: EngineRuntime, turn: Turn) -> None:
    increase = Increase()
    scripted.scenes.append([RuntimeError("a bug")])
    await wait_for_rest(runtime, turn)
    assert increase.of("model_calls_total", outcome="internal", **MODEL) == 1


async def test_a_stopped_model_call_is_cancelled(runtime: EngineRuntime, turn: Turn) -> None:
    increase, pause = Increase(), Pause()
    scripted.scenes.append([TextDelta(text="Well"), pause])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    assert increase.of("model_calls_running", provider="scripted") == 1
    await in_database(Turn.objects.filter(pk=turn.pk).update, stop_requested=True)
    await wait_for_rest(runtime, turn)
    assert increase.of("model_calls_total", outcome="cancelled", **MODEL) == 1
    assert increase.of("model_calls_running", provider="scripted") == 0
    assert increase.of("turns_ended_total", reason="stopped") == 1


def test_the_name_of_a_model_that_a_person_typed_is_no_label(settings: Any) -> None:
    settings.DEFAULT_MODEL = "openai-chat:configured"
    account = Account(names=scripted.NAMES)
    usual = next(iter(PROVIDERS["openai"].models))
    models = [
        ChosenModel(kind="openai-chat", name="typed-1", account=account),
        ChosenModel(kind="openai", name="typed-2", account=account),
        ChosenModel(kind="demo", name="typed-3", account=account),
        ChosenModel(kind="openai-chat", name="configured", account=account),
        ChosenModel(kind="openai", name=usual, account=account),
        ChosenModel(kind="demo", name="assistant", account=account),
        ChosenModel(
            kind="openai-chat", name="served", account=account, listed=ListedModel(name="served")
        ),
        ChosenModel(kind="openai", name="set", account=account, facts=ChatModel(name="set")),
    ]
    increase = Increase()
    for model in models:
        with ObservedCall(model, "summary"):
            pass

    def count(kind: str, name: str) -> float:
        return increase.of(
            "model_calls_total", outcome="protocol", **{"provider": kind, "model": name}
        )

    for model in models[:3]:
        assert (count(model.kind, model.name), count(model.kind, metrics.OTHER)) == (0, 1)
    assert [count(model.kind, model.name) for model in models[3:]] == [1] * 5


def test_a_priced_model_counts_its_cost() -> None:
    facts = ChatModel(
        provider=ModelProvider(slug="scripted", kind="scripted"),
        name="model",
        input_price=Decimal(1_000),
        cached_price=Decimal(1_000),
        output_price=Decimal(2_000),
        currency="EUR",
    )
    model = ChosenModel(
        kind="scripted", name="model", account=Account(names=scripted.NAMES), facts=facts
    )
    increase, observed = Increase(), ObservedCall(model, "summary")
    with observed:
        observed.note(Usage(input_tokens=3, output_tokens=2))
    cost = increase.of("model_cost_total", currency="EUR", **MODEL)
    assert cost == pytest.approx(0.007)


async def test_a_tool_call_that_was_asked_about_counts_once(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    increase = Increase()
    scripted.scenes += [calls(DELETE), text("Gone.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    await in_database(grant, call)
    await wait_for_rest(runtime, turn)
    labels = {"service": "notebook", "risk": "high", "decision": "ask", "outcome": "succeeded"}
    assert increase.of("tool_calls_total", **labels) == 1
    assert increase.of("tool_call_seconds_count", service="notebook") == 1
    assert increase.of("answer_seconds_count", kind="approval", answer="granted") == 1
    assert increase.of("turns_taken_total", how="continued") == 1
    operation = {"service": "notebook", "operation": "call_tool", "outcome": "ok"}
    assert increase.of("operations_total", **operation) == 1
    assert increase.of("operation_seconds_count", operation="call_tool") == 1
    assert increase.of("operation_requests_total", operation="call_tool") >= 1


def grant(call: ToolCall) -> None:
    owner = call.turn.conversation.owner
    decisions.grant(call, by=owner, binding=call.approval.binding, shown_at=None)


async def test_an_allowed_a_denied_and_an_impossible_call_count_apart(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    increase = Increase()
    scripted.scenes += [calls(READ, ("no_such_tool", "{}"), DELETE), text("Well.")]
    await wait_for_rest(runtime, turn)
    call = await in_database(
        ToolCall.objects.select_related("approval").get, turn=turn, state="awaiting_approval"
    )
    await in_database(deny, call)
    await wait_for_rest(runtime, turn)
    of_service = {"service": "notebook"}
    allowed = {"risk": "low", "decision": "allow", "outcome": "succeeded"}
    denied = {"risk": "high", "decision": "ask", "outcome": "denied"}
    impossible = {"service": "none", "risk": "none", "decision": "none", "outcome": "failed"}
    assert increase.of("tool_calls_total", **of_service, **allowed) == 1
    assert increase.of("tool_calls_total", **of_service, **denied) == 1
    assert increase.of("tool_calls_total", **impossible) == 1
    assert increase.of("answer_seconds_count", kind="approval", answer="denied") == 1


def deny(call: ToolCall) -> None:
    owner = call.turn.conversation.owner
    decisions.deny(call, by=owner, binding=call.approval.binding)


async def test_an_unknown_outcome_counts_when_it_becomes_known_that_it_is_unknown(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    increase = Increase()
    scripted.scenes += [calls(DELETE), text("Well.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    await in_database(leave_sending, call)
    await wait_for_rest(runtime, turn)
    labels = {"service": "notebook", "risk": "high", "decision": "ask"}
    assert increase.of("tool_calls_total", outcome="unknown", **labels) == 1
    assert (await in_database(backlog.read_backlog)).requests["unknown_outcome"] == 1
    await in_database(resolve, await get_only_call(turn))
    await wait_for_rest(runtime, turn)
    assert increase.of("tool_calls_resolved_total", verdict="worked") == 1
    assert increase.of("tool_calls_total", outcome="succeeded", **labels) == 0
    assert (await in_database(backlog.read_backlog)).requests["unknown_outcome"] == 0


def leave_sending(call: ToolCall) -> None:
    """The call as a worker leaves it that dies while it sends."""
    mine = ToolCall.objects.filter(pk=call.pk)
    mine.update(state=ToolCall.State.SENDING, attempt=1, sent_at=timezone.now())
    Turn.objects.filter(pk=call.turn_id).update(state=Turn.State.QUEUED)


def resolve(call: ToolCall) -> None:
    decisions.resolve(call, by=call.turn.conversation.owner, verdict="worked")


async def test_a_core_tool_counts_as_core(runtime: EngineRuntime, turn: Turn) -> None:
    increase = Increase()
    scripted.scenes += [calls(("current-time", '{"zone": "UTC"}')), text("Late.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call_plain(turn)
    labels = {"service": "core", "risk": "low", "decision": "allow", "outcome": "succeeded"}
    assert call.is_core
    assert increase.of("tool_calls_total", **labels) == 1


async def get_only_call_plain(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.get, turn=turn)


def test_failed_sign_ins_count_by_kind(client: Client, db: Any) -> None:
    increase = Increase()
    client.post("/sign-in/", {"username": "nobody-of-this-name", "password": "wrong"})
    credentials = {"username": f"{BEARER_NAME}abc"}
    user_login_failed.send(sender=__name__, credentials=credentials, request=None)
    assert increase.of("sign_in_failures_total", kind="password") == 1
    assert increase.of("sign_in_failures_total", kind="token") == 1
    assert b"nobody-of-this-name" not in metrics.render([])


async def test_a_forbidden_address_counts() -> None:
    increase = Increase()
    with pytest.raises(OperationError):
        await resolve_vetted_addresses("169.254.169.254", 80, allows_private=True)
    assert increase.of("connections_refused_total", reason="address") == 1


def test_anchors_count_by_kind_of_place(settings: Any, tmp_path: Any) -> None:
    settings.LOG_ANCHORS = [f"file:{tmp_path}/anchors", f"file:{tmp_path}/no/folder/anchors"]
    settings.LOG_ANCHOR_SECONDS = 60
    anchors.prepare_anchor_metrics()
    increase = Increase()
    metrics.ANCHOR_SUCCESS.labels("file").set(0)
    anchors.write_anchor("{}")
    assert increase.of("log_anchor_failures_total", place="file") == 1
    assert metrics.ANCHOR_SUCCESS.labels("file")._value.get() > 0
    assert metrics.ANCHOR_INTERVAL._value.get() == 60


async def test_a_page_that_is_shown_text_measures_the_way_to_it(
    runtime: EngineRuntime, turn: Turn
) -> None:
    hub = current_hub()
    assert isinstance(hub, Hub)
    viewer = await hub.join(turn.conversation_id, 0)
    increase = Increase()
    scripted.scenes.append(text("Hello"))
    await wait_for_rest(runtime, turn)
    await wait_until(lambda: increase.of("publish_seconds_count") > 0)
    hub.leave(turn.conversation_id, viewer)


def test_statements_of_the_database_are_counted() -> None:
    increase = Increase()
    with transaction.atomic():
        list(Turn.objects.values_list("pk", flat=True))
    assert increase.of("database_statements_total") == 1
