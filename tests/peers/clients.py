"""Third-party MCP clients: each lists the tools of the MCP server and calls one."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .installing import Unavailable, node, npm_package, python_program

HERE = Path(__file__).parent
SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramReport:
    """The output of a program: the names of the tools, and the result as the protocol has it."""

    tools: list[str]
    result: dict[str, Any]

    @property
    def text(self) -> str:
        return "".join(block.get("text", "") for block in self.result["content"])


Ask = Callable[[str, str, str, dict[str, Any]], ProgramReport]


def _said(*command: str | Path) -> Any:
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{command[1]} did not end: {error.stdout!r}") from error
    assert done.returncode in (0, 5), f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def typescript(address: str, token: str, tool: str, given: dict[str, Any]) -> ProgramReport:
    """The SDK of npm."""
    home = npm_package("client", "@modelcontextprotocol/sdk")
    words: list[str | Path] = [address, token, tool, json.dumps(given), home]
    return ProgramReport(**_said(node(), HERE / "ts_client.mjs", *words))


def fastmcp(address: str, token: str, tool: str, given: dict[str, Any]) -> ProgramReport:
    python = python_program("fastmcp", "python")
    return ProgramReport(
        **_said(python, HERE / "fast_client.py", address, token, tool, json.dumps(given))
    )


def inspector(address: str, token: str, tool: str, given: dict[str, Any]) -> ProgramReport:
    """MCP Inspector on the command line."""
    package = npm_package("inspector", "@modelcontextprotocol/inspector")
    start: list[str | Path] = [node(), package / "clients/launcher/build/index.js", "--cli"]
    start += [address, "--transport", "http", "--header", f"Authorization: Bearer {token}"]
    listed = _said(*start, "--method", "tools/list")
    values = [f"{name}={value}" for name, value in given.items()]
    call = ["--method", "tools/call", "--tool-name", tool, "--tool-arg", *values]
    return ProgramReport(
        tools=[each["name"] for each in listed["tools"]], result=_said(*start, *call)
    )


CLIENTS: dict[str, Ask] = {"typescript": typescript, "fastmcp": fastmcp, "inspector": inspector}

__all__ = ["CLIENTS", "ProgramReport", "Unavailable"]
