"""Turns in which a core tool is called, and core tools that tests make up."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.tools import core
from chatapp.tools.blueprint import IN_CHAT, CoreTool, Documentation, Strict
from tests import scripted
from tests.scripted import calls, text

from .acts import wait_for_rest

NOTHING = Documentation(examples=(), limitations="", limits="", rights="", errors="", clients="")


class Words(Strict):
    words: str = ""


class Echo(BaseModel):
    words: str


def offer(monkeypatch: pytest.MonkeyPatch, handler: Any, **fields: Any) -> None:
    """One more core tool, `echo`."""
    values: dict[str, Any] = {
        "name": "echo",
        "title": "Echo",
        "description": "Say it again.",
        "input": Words,
        "output": Echo,
        "risk": "low",
        "risk_reason": "It only repeats.",
        "modes": IN_CHAT,
        "documentation": NOTHING,
        "handler": handler,
    }
    module = SimpleNamespace(TOOL=CoreTool(**values | fields))
    monkeypatch.setitem(core.importlib.sys.modules, "tests.echo", module)  # type: ignore[attr-defined]  # the module's own import
    monkeypatch.setitem(core.CORE_TOOLS, "echo", "tests.echo")


def asked_for(tool: str, **arguments: Any) -> tuple[str, str]:
    return (tool, json.dumps(arguments))


async def called(runtime: EngineRuntime, turn: Turn, tool: str, **arguments: Any) -> ToolCall:
    """The call, once its turn has come to rest."""
    scripted.scenes += [calls(asked_for(tool, **arguments)), text("So it is.")]
    await wait_for_rest(runtime, turn)
    return await latest(turn)


async def latest(turn: Turn) -> ToolCall:
    rows = ToolCall.objects.select_related("approval", "turn__conversation__owner")
    found = await in_database(rows.filter(turn=turn).order_by("step", "position").last)
    assert found is not None
    return found
