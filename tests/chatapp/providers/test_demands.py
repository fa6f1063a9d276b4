"""The model server refuses what providers refuse: each rule is broken once, in a body that held."""

import base64
import copy
from collections.abc import Callable
from typing import Any

import pytest

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    Media,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from tests.wire.demands.demand import Broken
from tests.wire.formats import FORMATS
from tests.wire.server import WireServer

from .stories import a_request, said_by

Body = dict[str, Any]
DATA = base64.b64encode(b"bytes").decode()
PICTURE = Media(media_type="image/png", base64=DATA, name="dot.png")
PAPER = Media(media_type="application/pdf", base64=DATA, name="plan.pdf")
HISTORY: tuple[HistoryItem, ...] = (
    UserMessage(text="Look", media=(PICTURE, PAPER)),
    AssistantMessage(
        parts=(
            SaidText(text="Let me."),
            AskedTool(call_id="one", name="notes_write", arguments='{"a": 1}'),
            AskedTool(call_id="two", name="notes_write", arguments="{}"),
        )
    ),
    ToolOutcome(call_id="one", name="notes_write", text="Done", media=(PICTURE,)),
    ToolOutcome(call_id="two", name="notes_write", text="No", is_error=True),
    AssistantMessage(parts=(SaidText(text="There."),)),
    UserMessage(text="Thanks"),
)


def at(*path: str | int, value: Any = None) -> Callable[[Body], None]:
    """Puts a value at a place of the body."""

    def change(body: Body) -> None:
        holder: Any = body
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value

    return change


def gone(*path: str | int) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        holder: Any = body
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]

    return change


def twice(*path: str | int) -> Callable[[Body], None]:
    """The last of a list comes again."""

    def change(body: Body) -> None:
        holder: Any = body
        for step in path:
            holder = holder[step]
        holder.append(copy.deepcopy(holder[-1]))

    return change


def put(*path: str | int, values: list[Any]) -> Callable[[Body], None]:
    """Values come in before a place of a list."""

    def change(body: Body) -> None:
        holder: Any = body
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1] : path[-1]] = values

    return change


SEALED = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x", "summary": []}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "x"}}}
SCHEMA = {"type": "array"}
UNION = {"type": "object", "anyOf": []}
BREAKS: dict[str, list[Callable[[Body], None]]] = {
    "openai": [
        at("store", value=True),
        at("instructions", value=""),
        at("input", value=[]),
        twice("tools"),
        at("tools", 0, "name", value="a.b"),
        at("tools", 0, "strict", value=True),
        at("tools", 0, "parameters", value=SCHEMA),
        at("input", 0, "content", 1, "image_url", value="https://example.com/x.png"),
        at("input", 0, "content", 2, "file_data", value="data:text/html;base64,eA=="),
        at("input", 0, "content", 2, "filename", value=""),
        at("input", 2, "arguments", value="[]"),
        at("input", 2, "call_id", value="y" * 70),
        gone("input", 4),
        at("input", 4, "call_id", value="nobody"),
        at("input", 4, "output", value=[]),
        put("input", 7, values=[SEALED]),
        put("input", 6, values=[SEALED, SEALED]),
        put("input", 4, values=[{"role": "user", "content": "Wait"}]),
    ],
    "openai-chat": [
        at("messages", value=[]),
        twice("tools"),
        at("tools", 0, "function", "name", value="a.b"),
        at("tools", 0, "function", "parameters", value=UNION),
        at("messages", 1, "role", value="system"),
        at("messages", 1, "content", 1, "image_url", "url", value="x"),
        at("messages", 2, "tool_calls", 0, "id", value="y" * 41),
        at("messages", 2, "tool_calls", 0, "function", "arguments", value="1"),
        at("messages", 2, "tool_calls", value=[]),
        gone("messages", 3),
        at("messages", 3, "content", value=[]),
        at("messages", 6, "content", value=""),
    ],
    "anthropic": [
        gone("max_tokens"),
        at("system", 0, "text", value=" "),
        twice("tools"),
        gone("tools"),
        at("tools", 0, "input_schema", value=UNION),
        gone("messages", 0),
        twice("messages"),
        at("messages", 0, "content", 0, "source", "media_type", value="image/svg+xml"),
        at("messages", 0, "content", 0, "source", "data", value="%%"),
        at("messages", 1, "content", 0, "text", value=" "),
        at("messages", 1, "content", 0, value={"type": "thinking", "thinking": "Hm."}),
        at("messages", 1, "content", 1, "id", value="two"),
        at("messages", 1, "content", 1, "input", value="{}"),
        gone("messages", 2, "content", 0),
        at("messages", 2, "content", 0, value={"type": "text", "text": "First this"}),
        at("messages", 2, "content", 0, "content", value=[]),
    ],
    "google": [
        at("systemInstruction", "parts", 0, "text", value=""),
        at("tools", 0, "functionDeclarations", 0, "name", value="1a"),
        at("tools", 0, "functionDeclarations", 0, "parameters_json_schema", value=SCHEMA),
        gone("contents", 0),
        at("contents", 0, "parts", 0, "inlineData", "mime_type", value="image/gif"),
        at("contents", 0, "parts", 0, value={"text": ""}),
        gone("contents", 1, "parts", 1, "thoughtSignature"),
        at("contents", 1, "parts", 1, "thoughtSignature", value="%%"),
        gone("contents", 2, "parts", 0),
        twice("contents", 2, "parts"),
        at("contents", 2, "parts", 0, "functionResponse", "id", value="two"),
        at("contents", 2, "parts", 0, "functionResponse", "response", value={"a": {"$ref": "#"}}),
        at("contents", 4, "parts", value=[]),
    ],
    "bedrock": [
        at("system", 0, "text", value=""),
        gone("toolConfig"),
        at("toolConfig", "tools", value=[]),
        at("toolConfig", "tools", 0, "toolSpec", "description", value=""),
        gone("messages", 0),
        twice("messages"),
        at("messages", 0, "content", 1, "document", "name", value="plan.pdf"),
        gone("messages", 0, "content", 2),
        at("messages", 0, "content", 0, "image", "format", value="bmp"),
        at("messages", 1, "content", 0, "text", value=" "),
        at("messages", 1, "content", 1, "toolUse", "toolUseId", value="a b"),
        at("messages", 1, "content", 1, "toolUse", "toolUseId", value="two"),
        gone("messages", 2, "content", 0),
        at("messages", 2, "content", 0, "toolResult", "content", value=[]),
        put("messages", 1, "content", 3, values=[THOUGHT]),
        put("messages", 3, "content", 1, values=[THOUGHT]),
    ],
}


async def body_of(wire: WireServer, form: str) -> Body:
    await said_by(form, a_request(HISTORY))
    body: Body = wire.requests[-1].body
    return body


async def test_every_rule_can_be_broken(wire: WireServer, form: str) -> None:
    body = await body_of(wire, form)
    FORMATS[form].demands(body)
    for number, change in enumerate(BREAKS[form]):
        broken = copy.deepcopy(body)
        change(broken)
        with pytest.raises(Broken):
            FORMATS[form].demands(broken)
            pytest.fail(f"change {number} of {form} was taken")
