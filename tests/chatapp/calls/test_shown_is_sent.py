"""What a card shows under *Show the exact request* is what the service gets, byte for byte.

The text is read from the rendered card: the drawn characters become what they stand for again. The
other side are the bytes after `"arguments":` in the HTTP request, taken from a real server. They
may differ in one thing: the SDK spells an exponent 1e-07 that RFC 8785 spells 1e-7.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from chatapp.approvals import decisions
from chatapp.calls import execution
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_facts import render_call
from chatapp.models import Approval, ToolCall, Turn
from chatapp.permissions.binding import canonical_arguments
from chatapp.rendering import hidden_characters
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations import tools
from tests import scripted
from tests.dom_tree import Element, root_of
from tests.peers.eras import MODERN
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service, get_owner, wait_for_rest
from tests.turns.random_arguments import Maker

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
DRAWN = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
LONG_EXPONENT = re.compile(r"\de-0\d")
AT_ONCE = 8


async def listener(scope: Any, receive: Any, send: Any) -> None:
    """A server of the modern era with one tool that takes anything and does nothing."""
    message = json.loads((await receive())["body"])
    result: dict[str, Any] = {"resultType": "complete", "content": [], "isError": False}
    if message["method"] == "server/discover":
        known = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
        result = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"} | known
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    head = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(listener) as served:
        yield served


@pytest_asyncio.fixture
async def service(served: Served, turn: Turn) -> AsyncIterator[Service]:
    made = await in_database(create_offered_service, "things", served.url, "label_thing")
    yield made


def sent(served: Served) -> list[str]:
    """The bytes of the arguments of each call that arrived, as text."""
    found = []
    for arrival in served.arrivals.seen:
        if arrival.rpc_method == "tools/call":
            body = arrival.body.decode()
            begin = body.index('"arguments":') + len('"arguments":')
            _value, end = json.JSONDecoder().raw_decode(body, begin)
            found.append(_spelled(body[begin:end]))
    return found


def _spelled(arguments: str) -> str:
    return canonical_arguments(arguments) if LONG_EXPONENT.search(arguments) else arguments


def shown(call: ToolCall) -> str:
    """What a person reads on the card of this call as exactly what will be sent."""
    card = root_of(render_call(call))
    (exact,) = (each for each in card.all("details") if each.attributes.get("class") == "exact")
    return "".join(_undrawn(exact.one("pre")))


def _undrawn(element: Element) -> Iterator[str]:
    for child in element.children:
        if isinstance(child, str):
            yield child
        else:
            drawn = DRAWN.fullmatch(child.text)
            assert drawn is not None
            yield chr(int(drawn[1], 16))


def waiting(turn: Turn, service: Service, arguments: str) -> ToolCall:
    """A call that waits, as `steps` and `deciding` leave it."""
    call = ToolCall(
        turn=turn,
        step=1,
        position=0,
        tool_id="things_label_thing",
        tool_name="label_thing",
        service=service,
        definition=ToolDefinition.objects.get(name="label_thing"),
        arguments=canonical_arguments(arguments),
        state=ToolCall.State.AWAITING_APPROVAL,
        risk="medium",
    )
    call.approval = Approval(tool_call=call, binding="b" * 64, expires_at=turn.created_at)
    return call


async def shown_and_sent(
    turn: Turn, service: Service, served: Served, seeds: range
) -> tuple[list[str], list[str]]:
    """Cards rendered and calls made, without the engine between; in the order of their texts."""
    service = await Service.objects.aget(pk=service.pk)
    made = [await in_database(waiting, turn, service, Maker(n).arguments()) for n in seeds]
    seen = [await in_database(shown, call) for call in made]
    places = asyncio.Semaphore(AT_ONCE)

    async def send(call: ToolCall) -> None:
        assert call.definition is not None
        async with places:
            await tools.call_tool(service, call.definition, json.loads(call.arguments))

    await asyncio.gather(*map(send, made))
    return sorted(seen), sorted(sent(served))


@pytest.mark.parametrize(
    "seeds",
    [
        range(160),
        *(
            pytest.param(range(n, n + 1_968), marks=pytest.mark.long)
            for n in range(160, 10_000, 1_968)
        ),
    ],
    ids=lambda seeds: f"{seeds.start} to {seeds.stop}",
)
async def test_the_bytes_on_the_card_are_the_bytes_that_are_sent(
    turn: Turn, service: Service, served: Served, seeds: range
) -> None:
    seen, got = await shown_and_sent(turn, service, served, seeds)
    assert len(seen) == len(seeds)
    assert seen == got


async def engine_runs(runtime: EngineRuntime, turn: Turn, seeds: range) -> list[str]:
    """What the cards of the calls of one turn show; each is allowed, then all have run."""
    asked = [("things_label_thing", Maker(seed).arguments()) for seed in seeds]
    scripted.scenes[:] = [calls(*asked), text("Done.")]
    await wait_for_rest(runtime, turn)

    def allow_all() -> list[str]:
        rows = ToolCall.objects.filter(turn=turn, state=ToolCall.State.AWAITING_APPROVAL)
        waiting = list(rows.select_related("approval", "service", "definition"))
        seen = [shown(call) for call in waiting]
        for call in waiting:
            binding = call.approval.binding
            decisions.grant(call, by=get_owner(turn), binding=binding, shown_at=None)
        return seen

    seen = await in_database(allow_all)
    await wait_for_rest(runtime, turn)
    return seen


def asks(service: Service) -> None:
    service.settings.update(level="medium")


@pytest.mark.parametrize(
    "seeds",
    [
        range(20_000, 20_030),
        pytest.param(range(20_030, 20_300), marks=pytest.mark.long),
    ],
    ids=lambda seeds: f"{seeds.start} to {seeds.stop}",
)
async def test_through_the_engine_too(
    runtime: EngineRuntime, turn: Turn, service: Service, served: Served, seeds: range
) -> None:
    await in_database(asks, service)
    seen = await engine_runs(runtime, turn, seeds)
    assert len(seen) == len(seeds)
    assert sorted(seen) == sorted(sent(served))


# --- planted faults ------------------------------------------------------------------------------
async def test_a_card_that_leaves_something_out_is_noticed(
    turn: Turn, service: Service, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_characters, "_draw", lambda _: "")
    seen, got = await shown_and_sent(turn, service, served, range(20))
    assert seen != got


async def test_an_engine_that_sends_what_it_tidied_up_is_noticed(
    runtime: EngineRuntime,
    turn: Turn,
    service: Service,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Tidy:
        loads = staticmethod(lambda arguments: json.loads(arguments.replace("\\n", " ")))

    monkeypatch.setattr(execution, "json", Tidy)
    await in_database(asks, service)
    seen = await engine_runs(runtime, turn, range(20_000, 20_020))
    assert sorted(seen) != sorted(sent(served))
