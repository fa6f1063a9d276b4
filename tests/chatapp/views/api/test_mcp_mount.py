"""A server that crashed is started anew, and not for ever."""

import asyncio
from typing import Any

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.server import mcp_mount
from chatapp.views.api import mcp
from tests.turns.acts import wait_until

from .mcp_program import Program

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


async def _fails() -> None:
    raise RuntimeError("planted")


async def crash() -> None:
    """Let a task of the server of `/mcp` fail, as a fault in the SDK would."""
    mount = mcp._mounts["/mcp"]
    running = mount._starts[asyncio.get_running_loop()].running
    assert running is not None
    manager: Any = running._manager
    manager._task_group.start_soon(_fails)
    await wait_until(lambda: running.has_ended)


async def test_a_crash_is_logged_and_the_next_request_is_served_until_it_happens_too_often(
    runtime: EngineRuntime, program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(mcp_mount.MAX_STARTS):
        assert (await program.post()).status_code == 200
        await crash()
    assert caplog.text.count("An MCP server crashed") == mcp_mount.MAX_STARTS
    assert "planted" in caplog.text
    down = await program.post()
    assert (down.status_code, down.json()["error"]["kind"]) == (503, "down")
    assert int(down.headers["Retry-After"]) > 0
    assert (await program.post("/mcp/plan")).status_code == 200, "The other face lives on."


async def test_after_a_while_it_is_tried_again(
    runtime: EngineRuntime, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_mount, "WITHIN_SECONDS", 0.0)
    for _ in range(mcp_mount.MAX_STARTS + 1):
        assert (await program.post()).status_code == 200
        await crash()
