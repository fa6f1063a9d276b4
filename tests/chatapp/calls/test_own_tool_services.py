"""Adding a service from a chat: asked about, tried first, and stored whole or not at all."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from chatapp.approvals import decisions
from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.calls.own_tool_execution import _begin_preparing
from chatapp.conversations import intake
from chatapp.engine.engine import Engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.lease import acquire
from chatapp.models import LogEntry, Member, PolicyRule, ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import Context, ToolError
from chatapp.tools.core import core_tool
from mcpconfig.models import Exchange, Service
from tests import scripted
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import read_last_outcome, wait_for_event, wait_for_rest
from tests.turns.own_tool_turns import Echo, Words, asked_for, called, latest, offer

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
NOBODY = "127.0.0.1:9/mcp"


@pytest.fixture
def owner(transactional_db: None) -> Member:
    """Here the person is an admin."""
    return Member.objects.create_superuser("owner", password="a-long-password")


@pytest.fixture
def peer() -> Iterator[Served]:
    with Served(application(QuestionLog(), "modern")) as served:
        yield served


async def allowed(runtime: EngineRuntime, turn: Turn, **asked: Any) -> ToolCall:
    """The call, once its person has allowed it."""
    call = await called(runtime, turn, "add-service", **asked)
    assert (call.state, call.risk) == (State.AWAITING_APPROVAL, "high")
    await in_database(grant, call)
    await wait_for_rest(runtime, turn)
    return await latest(turn)


def grant(call: ToolCall) -> None:
    person = call.turn.conversation.owner
    decisions.grant(call, by=person, binding=call.approval.binding, shown_at=None)


async def test_a_service_that_answers_is_added_for_admins_until_one_chooses(
    runtime: EngineRuntime, turn: Turn, peer: Served
) -> None:
    call = await allowed(
        runtime, turn, name="asker", url=peer.url, title="The asker", is_internal=True
    )
    assert call.state == State.SUCCEEDED, call.error
    added = await in_database(Service.objects.get, name="asker")
    assert (added.title, added.authentication, added.is_trusted) == ("The asker", "none", False)
    assert added.is_open, "what it returns may be written by strangers"
    assert (added.visibility, added.owner) == (Service.Visibility.PRIVATE, None)
    assert "is added with" in read_last_outcome()
    assert "Only admins can use it" in read_last_outcome()
    entries = LogEntry.objects.filter(data__contains=peer.url)
    by = await in_database(lambda: set(entries.values_list("kind", "actor_name")))
    assert (LogEntry.Kind.SERVICE.value, "owner") in by


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"name": "dead", "url": "http://127.0.0.1:9/mcp", "is_internal": True},
            "It was not added.",
        ),
        ({"name": "inside", "url": "https://127.0.0.1:9/mcp"}, "It was not added."),
        ({"name": "plain", "url": "http://plain.example/mcp"}, "must begin with https://"),
        ({"name": "user", "url": "https://me:secret@x.example/mcp"}, "user name or password"),
    ],
)
async def test_what_cannot_be_reached_or_must_not_be_is_not_stored(
    runtime: EngineRuntime, turn: Turn, asked: dict[str, Any], says: str
) -> None:
    """No address of this machine or its network, unless the admin marks it as internal."""
    call = await allowed(runtime, turn, **asked)
    assert call.state == State.FAILED
    assert says in read_last_outcome()
    assert not await in_database(Service.objects.exists)
    assert not await in_database(Exchange.objects.exists)


async def test_a_name_that_is_taken_is_refused(
    runtime: EngineRuntime, turn: Turn, peer: Served
) -> None:
    await in_database(partial(Service.objects.create, name="asker", url="https://x.example/mcp"))
    call = await allowed(runtime, turn, name="asker", url=peer.url, is_internal=True)
    assert call.state == State.FAILED
    assert "name: " in read_last_outcome()
    assert (await in_database(Service.objects.get)).url == "https://x.example/mcp"


def test_nothing_is_stored_without_a_try(owner: Member) -> None:
    tool = core_tool("add-service")
    assert tool is not None
    context = Context(person=owner, catalogue=Catalogue())
    with pytest.raises(ToolError, match="was not tried"):
        tool.run(context, {"name": "x", "url": "https://x.example/mcp"})
    assert not Service.objects.exists()


async def test_a_stranger_neither_tries_nor_adds(owner: Member, peer: Served) -> None:
    tool = core_tool("add-service")
    assert tool is not None
    stranger = await in_database(
        partial(Member.objects.create_user, "stranger", password="stranger-password")
    )
    context = Context(person=stranger, catalogue=Catalogue())
    asked = {"name": "asker", "url": peer.url, "is_internal": True}
    with pytest.raises(ToolError, match="Only an admin"):
        await tool.prepare_context(context, asked)
    with pytest.raises(ToolError, match="Only an admin"):
        await in_database(tool.run, context, asked)
    assert peer.arrivals.seen == []


# --- what is done before the transaction


class Slow:
    """A tool that prepares until it is let go on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.task: asyncio.Task[ToolCall] | None = None

    async def prepare(self, context: Context, asked: Words) -> str:
        self.begun.set()
        await self.may_go_on.wait()
        return "ready"

    def handle(self, context: Context, asked: Words) -> Echo:
        return Echo(words=f"{asked.words}: {context.prepared}")


async def preparing(runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """A turn whose call prepares just now."""
    slow = Slow()
    offer(monkeypatch, slow.handle, prepare=slow.prepare)
    slow.task = asyncio.create_task(called(runtime, turn, "echo", words="Hello"))
    async with asyncio.timeout(60):
        await slow.begun.wait()
    return slow


async def outcome(slow: Slow) -> ToolCall:
    assert slow.task is not None
    return await slow.task


async def test_to_prepare_holds_no_transaction_and_its_result_reaches_the_tool(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = await preparing(runtime, turn, monkeypatch)
    meanwhile = await latest(turn)
    assert (meanwhile.state, meanwhile.attempt, meanwhile.may_have_run) == ("approved", 1, False)
    await in_database(partial(Turn.objects.filter(pk=turn.pk).update, signals=7))  # not locked
    slow.may_go_on.set()
    call = await outcome(slow)
    assert (call.state, call.attempt, call.pauses) == (State.SUCCEEDED, 2, 1)
    assert call.result is not None
    assert call.result["structured"] == {"words": "Hello: ready"}


async def test_what_takes_long_to_read_is_read_before_the_transaction(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def read(context: Context, asked: Words) -> str:
        begun.set()
        assert may_go_on.wait(60)
        return "read"

    def handle(context: Context, asked: Words) -> Echo:
        return Echo(words=context.prepared)

    offer(monkeypatch, handle, read=read)
    call = asyncio.create_task(called(runtime, turn, "echo", words="Hello"))
    await wait_for_event(begun)
    await in_database(partial(Turn.objects.filter(pk=turn.pk).update, signals=7))  # not locked
    may_go_on.set()
    assert (await call).result["structured"] == {"words": "read"}  # type: ignore[index]  # it is there


async def test_what_prepares_is_limited_before_it_tries(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that uses the network is limited before it tries."""
    tried = []

    async def prepare(context: Context, asked: Words) -> str:
        tried.append(asked.words)
        return ""

    def handle(context: Context, asked: Words) -> Echo:
        return Echo(words=asked.words)

    offer(monkeypatch, handle, prepare=prepare, calls_a_minute=2)
    scripted.scenes += [calls(*(asked_for("echo", words=n) for n in "abc")), text("Well.")]
    await wait_for_rest(runtime, turn)
    assert tried == ["a", "b"]
    last = await latest(turn)
    assert (last.state, last.attempt, last.sent_at) == (State.FAILED, 0, None)
    assert read_last_outcome() == "This tool can run 2 times a minute. Wait a minute."
    kinds = LogEntry.objects.filter(call_id=last.pk).values_list("kind", flat=True)
    assert await in_database(lambda: list(kinds)) == ["call.decided", "call.ended"]


@pytest.mark.parametrize(
    ("effect", "state"), [("ask", State.AWAITING_APPROVAL), ("deny", State.WITHDRAWN)]
)
async def test_what_policy_says_while_it_prepares_still_counts(
    runtime: EngineRuntime,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    effect: str,
    state: ToolCall.State,
) -> None:
    """Preparing is not running: the call asks now, and runs once a person allows it."""
    slow = await preparing(runtime, turn, monkeypatch)
    await in_database(partial(PolicyRule.objects.create, name="No", effect=effect, tool="echo"))
    slow.may_go_on.set()
    call = await outcome(slow)
    assert (call.state, call.result) == (state, None)
    if effect == "ask":
        await in_database(grant, call)
        await wait_for_rest(runtime, turn)
        assert (await latest(turn)).state == State.SUCCEEDED


async def test_stop_while_it_prepares_means_that_it_did_not_happen(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = await preparing(runtime, turn, monkeypatch)
    await in_database(intake.stop, turn.conversation)
    call = await outcome(slow)
    assert call.state == State.CANCELLED
    assert (call.result, call.may_have_run) == (None, False)


async def test_a_worker_that_is_gone_while_it_prepared_has_done_nothing(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = await abandoned(runtime, turn, monkeypatch, times=1)
    assert (call.state, call.may_have_run) == (State.APPROVED, False)
    await wait_for_rest(runtime, turn)
    done = await latest(turn)
    assert (done.state, done.attempt) == (State.SUCCEEDED, 3)


async def test_it_is_not_tried_for_ever(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await abandoned(runtime, turn, monkeypatch, times=MAX_ATTEMPTS)
    await wait_for_rest(runtime, turn)
    call = await latest(turn)
    assert call.state == State.FAILED
    assert f"stopped {MAX_ATTEMPTS} times during this call" in read_last_outcome()


async def abandoned(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch, times: int
) -> ToolCall:
    """A call whose workers died, so often, while they prepared it."""
    slow = Slow()
    slow.may_go_on.set()
    offer(monkeypatch, slow.handle, prepare=slow.prepare, risk="medium")
    call = await called(runtime, turn, "echo", words="Hello")
    await runtime.engine.close()  # or it would take the turn up
    await in_database(grant, call)

    def die() -> None:
        lease = acquire(turn.pk)
        assert lease is not None
        assert _begin_preparing(lease, call.pk, Catalogue()) is not None
        Turn.objects.filter(pk=turn.pk).update(lease_owner="", lease_until=None)  # as it runs out

    for _ in range(times):
        await in_database(die)
    runtime.engine = Engine(current_runtime())
    runtime.engine.start(sweeps=False)
    return await latest(turn)


async def test_what_takes_too_long_is_given_up_and_did_not_happen(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.calls.own_tool_execution.PREPARE_SECONDS", 0.05)
    slow = await preparing(runtime, turn, monkeypatch)
    call = await outcome(slow)
    assert call.state == State.FAILED
    assert "took too long" in read_last_outcome()
