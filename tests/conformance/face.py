"""`python -m tests.conformance.face PORT`: the MCP server of this project as the official suite
expects it.

The suite has no access tokens and calls tools with names of its own. So its requests are given a
token here, and tools with its names are added where a core tool can provide them. Everything else
is the application itself.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import anyio
import django
import uvicorn
from starlette.types import Receive, Scope, Send

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
django.setup()

# Models can be imported only once Django is set up.
from chatapp.api import access_tokens  # noqa: E402
from chatapp.asgi import application  # noqa: E402
from chatapp.models import Member  # noqa: E402
from chatapp.tools.blueprint import Strict  # noqa: E402
from chatapp.tools.context import Context, ToolError  # noqa: E402
from chatapp.tools.core import CORE_TOOLS, core_tool  # noqa: E402


class Nothing(Strict):
    """No arguments."""


class Said(Strict):
    text: str


def simple(_context: Context, _asked: Nothing) -> Said:
    return Said(text="This is a simple text response for testing.")


def failing(_context: Context, _asked: Nothing) -> Said:
    raise ToolError(message="This tool intentionally returns an error for testing")


async def slowly(_context: Context, _asked: Nothing) -> None:
    """Take long enough that each state of the call is visible."""
    await anyio.sleep(1)


def offer(name: str, handler: Callable[[Context, Nothing], Said], **more: Any) -> None:
    """Add one core tool, like an existing one but for its action."""
    like = core_tool("current-time")
    assert like is not None
    module = ModuleType(f"tests.conformance.{name}")
    tool = replace(
        like, name=name, input=Nothing, output=Said, handler=handler, render_text=_text, **more
    )
    module.TOOL = tool  # type: ignore[attr-defined]  # what a registered module has
    sys.modules[module.__name__] = module
    CORE_TOOLS[name] = module.__name__


def _text(said: Said) -> str:
    return said.text


def main(port: int) -> None:
    offer("test_simple_text", simple)
    offer("test_error_handling", failing)
    offer("test_tool_with_progress", simple, prepare=slowly)
    person = Member.objects.create_user("suite")
    _, text = access_tokens.create(person, name="Suite", scopes=["mcp"], days=1)
    shown = (b"authorization", f"Bearer {text}".encode())

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], shown]}
        await application(scope, receive, send)

    uvicorn.run(admitted, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
