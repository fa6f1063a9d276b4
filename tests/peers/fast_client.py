"""A program made with FastMCP, in whose environment it runs: lists the tools, calls one, and prints
the result as JSON. Arguments: address, token, tool, its arguments as JSON."""

import asyncio
import json
import sys

from fastmcp import Client  # type: ignore[import-not-found]
from fastmcp.client.transports import StreamableHttpTransport  # type: ignore[import-not-found]


async def main(address: str, token: str, name: str, given: str) -> None:
    transport = StreamableHttpTransport(address, headers={"Authorization": f"Bearer {token}"})
    async with Client(transport) as client:
        tools = await client.list_tools()
        result = await client.call_tool_mcp(name, json.loads(given))
    told = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    print(json.dumps({"tools": [tool.name for tool in tools], "result": told}))


asyncio.run(main(*sys.argv[1:]))
