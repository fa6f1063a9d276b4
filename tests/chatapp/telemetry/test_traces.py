"""Spans as a real receiver of OTLP gets them."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chatapp.engine.runtime import close_engine_runtime, open_engine_runtime
from chatapp.models import Turn
from chatapp.server.database import in_database
from chatapp.telemetry import otlp, tracing
from mcpconfig.models import Service
from mcpconfig.values.hooks import current_hooks
from tests import scripted
from tests.scripted import calls, text
from tests.turns.acts import DELETE, READ, get_only_call, wait_for_rest

from .otlp_receiver import Receiver, receiving
from .test_turn_metrics import grant

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as opened:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.address)
        yield opened
        tracing.stop()


async def run_to_rest(turn: Turn) -> None:
    """Move the turn in an engine of its own, as another process would."""
    opened = await open_engine_runtime(sweeps=False)
    await wait_for_rest(opened, turn)
    await close_engine_runtime(opened)


async def test_spans_of_a_turn_are_parts_of_each_other(
    receiver: Receiver, turn: Turn, notebook: Service
) -> None:
    scripted.scenes += [calls(READ), text("Read.")]
    await run_to_rest(turn)
    (run,) = receiver.named("invoke_agent")
    (tool,) = receiver.named("execute_tool")
    models = receiver.named("chat ")
    (operation,) = receiver.named("mcp call_tool")
    (request,) = receiver.named("tools/call")
    assert run.parent == ""
    assert [model.parent for model in models] == [run.id, run.id]
    assert (tool.parent, operation.parent, request.parent) == (run.id, tool.id, operation.id)
    assert {span.trace for span in receiver.spans} == {run.trace}
    assert not any(span.is_error for span in receiver.spans)
    assert all(span.began <= span.ended for span in receiver.spans)
    assert run.attributes["countersign.turn.end"] == "complete"
    assert run.attributes["gen_ai.conversation.id"] == str(turn.conversation_id)
    assert tool.name == "execute_tool read_note"
    assert tool.attributes["countersign.call.state"] == "succeeded"
    assert models[0].attributes["gen_ai.usage.input_tokens"] == 3
    assert models[0].attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert request.attributes["http.response.status_code"] == 200
    assert set(receiver.paths) == {"/v1/traces"}
    assert receiver.resources[0]["service.name"] == "countersign"


async def test_a_turn_that_goes_on_in_another_process_is_the_same_trace(
    receiver: Receiver, turn: Turn, notebook: Service
) -> None:
    scripted.scenes += [calls(DELETE), text("Gone.")]
    await run_to_rest(turn)
    await in_database(grant, await get_only_call(turn))
    await run_to_rest(turn)
    first, second = receiver.named("invoke_agent")
    assert first.attributes["countersign.turn.end"] == "waiting"
    assert second.attributes["countersign.turn.run"] == 2
    assert (first.parent, second.parent) == ("", first.id)
    assert first.trace == second.trace
    assert turn.pk.hex not in (first.trace, second.trace)
    (tool,) = receiver.named("execute_tool")
    assert (tool.trace, tool.parent) == (first.trace, second.id)


async def test_two_turns_are_two_traces(turn: Turn) -> None:
    ids = [otlp.derive_ids(uuid.uuid4()) for _ in range(2)]
    assert len({number for pair in ids for number in pair}) == 4
    assert otlp.derive_ids(turn.pk) == otlp.derive_ids(turn.pk)


async def test_a_failed_model_call_has_the_kind_of_its_error_and_no_more(
    receiver: Receiver, turn: Turn
) -> None:
    scripted.scenes.append([RuntimeError("a bug with a CANARY")])
    await run_to_rest(turn)
    (model,) = receiver.named("chat ")
    (run,) = receiver.named("invoke_agent")
    assert (model.is_error, model.attributes["error.type"]) == (True, "internal")
    assert (run.is_error, run.attributes["error.type"]) == (True, "internal")
    assert not any(b"CANARY" in body for body in receiver.bodies)


async def test_a_sampler_decides_the_same_for_all_runs_of_a_turn(
    receiver: Receiver, turn: Turn, monkeypatch: pytest.MonkeyPatch, notebook: Service
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.0")
    scripted.scenes += [calls(DELETE), text("Gone.")]
    await run_to_rest(turn)
    await in_database(grant, await get_only_call(turn))
    await run_to_rest(turn)
    assert receiver.spans == []


@contextmanager
def traced() -> Iterator[None]:
    tracing.start("0")
    try:
        yield
    finally:
        tracing.stop()


def test_the_trace_context_is_that_of_the_current_span(receiver: Receiver) -> None:
    hooks = current_hooks()
    assert hooks.trace_context() == {}
    with traced():
        assert hooks.trace_context() == {}
        with tracing.use_span("something", {}):
            found = hooks.trace_context()
            trace_id = tracing.get_trace_id()
        assert hooks.trace_context() == {}
    (span,) = receiver.spans
    version, trace, parent, flags = found["traceparent"].split("-")
    assert list(found) == ["traceparent"]
    assert (version, trace, parent) == ("00", span.trace, span.id)
    assert int(flags, 16) & 1
    assert trace_id == span.trace


def test_a_receiver_that_is_away_costs_nothing_but_the_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(otlp, "CLOSE_SECONDS", 0.1)
    with traced(), tracing.use_span("something", {}) as span:
        span.set({"a": 1})
    assert tracing.get_trace_context() == {}


@pytest.mark.parametrize(
    ("variables", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_SERVICE_NAME": "countersign"}, False),
    ],
)
def test_the_environment_switches_traces_on(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_wanted: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tracing.is_wanted() is is_wanted


def test_nothing_of_the_sdk_is_imported_while_traces_are_off() -> None:
    program = (
        "import sys, django; django.setup(); import chatapp.asgi\n"
        "from chatapp.telemetry import tracing; tracing.start('0')\n"
        "with tracing.use_span('x', {}): pass\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk',"
        " 'opentelemetry.exporter'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout.strip() == "[]", ran.stderr
