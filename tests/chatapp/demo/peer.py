"""A client of the demo service, over real HTTP, with the installed MCP SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from chatapp.demo.address import compute_token

ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@asynccontextmanager
async def connected(url: str, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {compute_token()}"}
    with anyio.fail_after(20):
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client


def text_of(result: Any) -> str:
    return "".join(
        block.text for block in result.content if isinstance(block, mcp_types.TextContent)
    )
