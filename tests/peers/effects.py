"""An MCP server with countable effects: it appends one line to a file per execution.

python -m tests.peers.effects --port 9000 --file /tmp/effects [--era modern|handshake]
"""

import argparse
import os
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from .eras import speaking
from .serving import Application, Served


class Effects:
    """The file of effects. A line is on the disk before the tool answers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def server(effects: Effects) -> MCPServer[None]:
    """Three tools: one that destroys, one that reads, one that waits after its effect."""
    made: MCPServer[None] = MCPServer("effects", version="1.0", log_level="WARNING")

    @made.tool(annotations=ToolAnnotations(destructive_hint=True))
    def delete_thing(name: str) -> str:
        """Delete a thing."""
        effects.record(f"delete_thing {name}")
        return f"{name} is deleted"

    @made.tool(annotations=ToolAnnotations(read_only_hint=True))
    def read_thing(name: str) -> str:
        """Read a thing."""
        effects.record(f"read_thing {name}")
        return f"{name} is a thing"

    @made.tool()
    async def slow_thing(name: str, seconds: float = 5.0) -> str:
        """Change a thing, then think about it."""
        effects.record(f"slow_thing {name}")
        await anyio.sleep(seconds)
        return f"{name} is changed"

    return made


def application(effects: Effects, era: str = "both") -> Application:
    app = server(effects).streamable_http_app()
    return speaking(
        "modern" if era == "modern" else "handshake" if era == "handshake" else "both", app
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--era", choices=["both", "modern", "handshake"], default="both")
    options = parser.parse_args()
    with Served(application(Effects(options.file), options.era), port=options.port) as served:
        print(f"Serving on {served.url}", flush=True)
        served.wait()


if __name__ == "__main__":
    main()
