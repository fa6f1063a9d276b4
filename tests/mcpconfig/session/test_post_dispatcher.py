"""Calls at a service that is known as modern: each is one POST past the SDK's transport."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.utils import timezone

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import list_tools
from mcpconfig.secrets.credentials import set_headers
from mcpconfig.session.client import ConnectionOptions, connect
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Progress
from tests.peers.eras import MODERN, REMEMBERED_AS_MODERN
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

SAY = ToolDefinition(name="say", input_schema={"type": "object"})
DONE = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
JSON, EVENTS = "application/json", "text/event-stream"


class Scripted:
    """A modern server whose answers are those of the test, in order. `{id}` in a text stands for
    the id of the latest call, and `{token}` for its progress token."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, str]] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_begun, self.has_lost_client = threading.Event(), threading.Event()
        self._call: dict[str, Any] = {"id": 0, "params": {"_meta": {}}}

    def add(self, text: str, *, status: int = 200, kind: str = JSON) -> None:
        self.answers.append((status, kind, text))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        message = json.loads((await receive()).get("body") or b"{}")
        if message.get("method") == "tools/call":
            self._call = message
        status, kind, text = self.answers.pop(0)
        token = self._call["params"]["_meta"].get("progressToken", "")
        text = text.replace("{id}", str(self._call["id"])).replace("{token}", str(token))
        headers = [(b"content-type", kind.encode()), *self.headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        is_open = text.endswith("…")
        body = text.removesuffix("…").encode()
        await send({"type": "http.response.body", "body": body, "more_body": is_open})
        self.has_begun.set()
        while is_open:
            is_open = (await receive())["type"] != "http.disconnect"
            self.has_lost_client.set()


def answer(result: dict[str, Any] = DONE, request_id: str = "{id}") -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"result":{json.dumps(result)}}}'


def notification(method: str, params: str) -> str:
    return f'{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}'


def event(text: str, name: str = "") -> str:
    return f"{f'id: {name}' if name else 'event: message'}\ndata: {text}\n\n"


@pytest.fixture
def script() -> Scripted:
    return Scripted()


@pytest.fixture
def served(script: Scripted) -> Iterator[Served]:
    with Served(script) as served:
        yield served


@pytest.fixture
async def service(served: Served, service_at: MakeService) -> Service:
    return await service_at(served.url, **REMEMBERED_AS_MODERN, last_success_at=timezone.now())


async def call(service: Service, **how: Any) -> str:
    outcome = await call_tool(service, SAY, {}, **how)
    return str(outcome.result.content[0]["text"])


async def fail(service: Service) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await call(service)
    return caught.value


async def test_a_call_is_one_post_that_states_version_method_and_name(
    script: Scripted, served: Served, service: Service
) -> None:
    script.add(answer())

    assert await call(service) == "done"

    [arrival] = served.arrivals.seen
    stated = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "say"}
    assert stated.items() <= arrival.headers.items()
    assert arrival.headers["accept"] == "application/json, text/event-stream"
    assert arrival.headers["user-agent"].startswith("python-httpx2/")


async def test_messages_before_the_answer_are_passed_on_in_order(
    script: Scripted, service: Service
) -> None:
    steps = [f'{{"progressToken":{{token}},"progress":{step}}}' for step in (1, 2)]
    script.add(
        "".join(event(notification("progress", step)) for step in steps)
        + event(notification("progress", '{"progressToken":1,"progress":9}'))
        + event(notification("tools/list_changed", "{}"))
        + event(answer()),
        kind=EVENTS,
    )
    service.tools_fresh_until = timezone.now() + timedelta(hours=1)
    told: list[Progress] = []

    assert await call(service, on_progress=told.append) == "done"

    assert [each.done for each in told] == [1.0, 2.0]
    assert service.tools_fresh_until <= timezone.now()


async def test_a_progress_message_that_cannot_be_shown_does_not_cost_the_result(
    script: Scripted, service: Service
) -> None:
    def break_off(_progress: Progress) -> None:
        raise ValueError

    step = notification("progress", '{"progressToken":{token},"progress":1}')
    script.add(event(step) + event(answer()), kind=EVENTS)

    assert await call(service, on_progress=break_off) == "done"


async def test_the_log_of_the_service_is_read_while_it_answers(
    script: Scripted, served: Served, service: Service
) -> None:
    script.add(
        event(notification("message", '{"level":"loud"}'))
        + event(notification("message", '{"level":"info","data":"working"}'))
        + event('{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":0,"cacheScope":"private"}}'),
        kind=EVENTS,
    )
    options = ConnectionOptions(log_level="info")

    async with connect(service, None, "list_tools", options) as connection:
        await connection.session.list_tools()

    assert [entry.text for entry in connection.log.messages] == ["working"]
    meta = json.loads(served.arrivals.seen[0].body)["params"]["_meta"]
    assert meta["io.modelcontextprotocol/logLevel"] == "info"


async def test_a_question_in_the_stream_is_refused_and_the_call_goes_on(
    script: Scripted, served: Served, service: Service
) -> None:
    question = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}'
    script.add(event(question) + event(answer()), kind=EVENTS)
    script.add("", status=202)

    assert await call(service) == "done"

    refused = json.loads(served.arrivals.seen[1].body)
    assert (refused["id"], refused["error"]["code"]) == ("q", -32601)
    assert "mcp-method" not in served.arrivals.seen[1].headers


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [(500, JSON, ""), (200, "text/html", "<html>"), (200, JSON, "{}")],
)
async def test_a_stream_that_breaks_off_is_resumed_after_its_last_event(
    script: Scripted, served: Served, service: Service, status: int, kind: str, text: str
) -> None:
    script.add(f"retry: 1\n{event('', name='seven')}", kind=EVENTS)
    script.add(text, status=status, kind=kind)
    script.add(event(answer()), kind=EVENTS)

    assert await call(service) == "done"

    assert served.arrivals.methods == ["tools/call", "GET", "GET"]
    assert {each.headers.get("last-event-id") for each in served.arrivals.seen[1:]} == {"seven"}


async def test_a_stream_that_cannot_be_resumed_leaves_the_outcome_unknown(
    script: Scripted, served: Served, service: Service
) -> None:
    script.add(f"retry: 1\n{event('', name='seven')}", kind=EVENTS)
    script.add("", status=404)
    script.add("", status=404)

    error = await fail(service)

    assert (error.was_sent, error.is_definite) == (True, False)
    assert served.arrivals.methods == ["tools/call", "GET", "GET"]


@pytest.mark.parametrize(
    ("status", "kind", "text", "failure", "is_definite"),
    [
        (200, JSON, answer(request_id="7"), "protocol", False),
        (200, JSON, "{", "protocol", False),
        (200, "text/html", "<html>", "not_mcp", False),
        (200, EVENTS, event("{"), "protocol", False),
        (200, EVENTS, ": nothing\n\n", "server_error", False),
        (202, JSON, "", "protocol", False),
        (404, JSON, "", "not_mcp", False),
        (
            *(404, JSON, '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}'),
            *("rpc_error", True),
        ),
        (500, JSON, "{}", "server_error", False),
    ],
)
async def test_an_answer_that_is_none_is_judged_by_what_it_proves(
    script: Scripted,
    service: Service,
    status: int,
    kind: str,
    text: str,
    failure: str,
    is_definite: bool,
) -> None:
    script.add(text, status=status, kind=kind)

    error = await fail(service)

    assert (error.kind, error.was_sent, error.is_definite) == (failure, True, is_definite)


async def test_a_cancelled_call_closes_its_connection(script: Scripted, service: Service) -> None:
    script.add(": working\n\n…", kind=EVENTS)
    running = asyncio.ensure_future(call(service))
    assert await asyncio.to_thread(script.has_begun.wait, 5)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running

    assert await asyncio.to_thread(script.has_lost_client.wait, 5)


async def test_a_cookie_is_sent_back_within_an_operation_and_not_in_the_next(
    script: Scripted, served: Served, service: Service
) -> None:
    page = {"tools": [], "ttlMs": 0, "cacheScope": "private"}
    script.headers = [(b"set-cookie", b"worker=3")]
    for result in ({**page, "nextCursor": "two"}, page, page):
        script.add(event(answer(result, request_id="1")), kind=EVENTS)

    await list_tools(service)
    await list_tools(service)

    cookies = [arrival.headers.get("cookie") for arrival in served.arrivals.seen]
    assert cookies == [None, "worker=3", None]


async def test_the_headers_of_a_service_replace_those_of_the_http_library(
    script: Scripted, served: Served, service: Service
) -> None:
    await database_sync_to_async(set_headers)(service, {"User-Agent": "ours/1", "X-Team": "red"})
    service.authentication = Service.Authentication.HEADERS
    script.add(answer())

    await call(service)

    headers = served.arrivals.seen[0].headers
    assert (headers["user-agent"], headers["x-team"]) == ("ours/1", "red")
