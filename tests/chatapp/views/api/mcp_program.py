"""A program of a person: the SDK's own client before the whole application, with a token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from httpx2 import ASGITransport, AsyncClient, Response
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from chatapp.api import access_tokens
from chatapp.approvals import decisions
from chatapp.asgi import application
from chatapp.models import Approval, Member, ToolCall
from chatapp.server.database import in_database

HOME = "http://127.0.0.1:6740"
ACCEPTS = "application/json, text/event-stream"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Program:
    """Its token has these scopes."""

    def __init__(self, person: Member, *scopes: str) -> None:
        self.person = person
        self.token, self.text = access_tokens.create(
            person, name="Job", scopes=scopes or ("mcp",), days=7
        )

    def _http(self) -> AsyncClient:
        headers = {"Authorization": f"Bearer {self.text}"}
        return AsyncClient(transport=ASGITransport(app=application), headers=headers)

    @asynccontextmanager
    async def client(
        self, path: str = "/mcp", mode: str = "auto", **more: Any
    ) -> AsyncIterator[Client]:
        async with self._http() as http:
            transport = streamable_http_client(HOME + path, http_client=http)
            async with Client(transport, mode=mode, **more) as client:
                yield client

    async def call(self, tool: str, arguments: dict[str, Any], **how: Any) -> Any:
        async with self.client(**how) as client:
            return await client.call_tool(tool, arguments)

    async def post(self, path: str = "/mcp", body: Any = PING, **headers: str) -> Response:
        """One request by hand."""
        return await self.ask("POST", path, json=body, headers={"Accept": ACCEPTS} | headers)

    async def ask(self, method: str, path: str, **more: Any) -> Response:
        async with self._http() as http:
            return await http.request(method, HOME + path, **more)


def get_text(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def last_call() -> ToolCall:
    return await in_database(
        ToolCall.objects.select_related("turn__conversation").latest, "turn__created_at"
    )


async def allow_last(person: Member) -> ToolCall:
    """This person allows the call that was asked for last."""
    call = await last_call()
    approval = await in_database(Approval.objects.get, tool_call=call)
    await in_database(
        lambda: decisions.grant(
            ToolCall.of(person, call.pk), by=person, binding=approval.binding, shown_at=None
        )
    )
    return call
