"""A server made with FastMCP whose tool is a long task. Run with that library's own Python:

.../python tests/peers/slowly.py PORT
"""

import asyncio
import sys

import fastmcp  # type: ignore[import-not-found]
import fastmcp_tasks  # type: ignore[import-not-found]


async def brew(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return f"brewed for {seconds:g} seconds"


def main() -> None:
    server = fastmcp.FastMCP("slowly")
    server.add_extension(fastmcp_tasks.TasksExtension(url="memory://"))
    server.tool(brew, task=True)
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)


if __name__ == "__main__":
    main()
