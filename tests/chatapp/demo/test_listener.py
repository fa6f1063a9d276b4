"""Where a process finds the demo service: in a server, and in a command without one."""

import asyncio
import subprocess
import sys

import pytest

from chatapp.demo.address import compute_token
from chatapp.demo.listener import find_address

from .peer import connected


async def test_a_server_process_uses_its_own_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERSIGN_PORT", "6741")
    here = await find_address()
    assert here.url == "http://127.0.0.1:6741/demo/mcp"
    assert here.bearer == compute_token()


async def test_a_command_without_a_server_serves_itself_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COUNTERSIGN_PORT", raising=False)
    asked = await asyncio.gather(*(find_address() for _ in range(4)))
    assert len({here.url for here in asked}) == 1
    async with connected(asked[0].url) as client:
        assert (await client.list_tools()).tools


def test_a_command_that_does_not_use_the_service_does_not_load_it() -> None:
    program = "import sys, chatapp.demo.listener; sys.exit('chatapp.demo.notebook' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=30).returncode == 0
