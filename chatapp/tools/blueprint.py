"""What a core tool is: one module each, with typed input and output, a handler, a risk, limits and
its documentation.

A core tool runs inside this server, in one transaction with the record of its outcome: it either
happened or it did not.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from channels.db import database_sync_to_async
from pydantic import BaseModel, ConfigDict, ValidationError

from chatapp.permissions.findings import Level
from mcpconfig.results import storable

from .context import Context, ToolError

Mode = Literal["chat", "mcp_plan", "mcp_act", "rest"]
EVERYWHERE: frozenset[Mode] = frozenset(("chat", "mcp_plan", "mcp_act", "rest"))
ACTING: frozenset[Mode] = frozenset(("chat", "mcp_act", "rest"))
IN_CHAT: frozenset[Mode] = frozenset(("chat",))

DESCRIPTION_CHARACTERS = 400
INPUT_CHARACTERS = 20_000
OUTPUT_CHARACTERS = 40_000
ONLY_ADMINS = "Only an admin may do this."
NOT_STORABLE = "It holds a NUL, half a character or a number without a value. Leave that out."


class Strict(BaseModel):
    """An input: what it does not name is refused, so that a slip of the model is not lost."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An input as a model writes it, and the output that belongs to it."""

    input: dict[str, Any]
    output: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """What people and the authors of other programs read: each a full sentence or several."""

    examples: tuple[Example, ...]
    limitations: str
    limits: str
    rights: str
    errors: str
    clients: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTool:
    """One tool of our own. Its name has no underscore: a service's tool always has one.

    `handler` is sync and runs in a transaction; its output becomes the structured result, and what
    `told` makes of it the text. What needs the network is done by `prepare`, and what takes long to
    read by `read`, sync and in a thread of its own: before and outside the transaction, for nobody
    can write meanwhile. Both change nothing, so that they may be done twice, and the handler finds
    what they returned in the context.

    What `outlives_chat` counts as led by strangers' words wherever its chat has read any, and not
    only since the last message.
    """

    name: str
    title: str
    description: str
    input: type[BaseModel]
    output: type[BaseModel]
    risk: Level
    risk_reason: str
    modes: frozenset[Mode]
    documentation: Documentation
    handler: Callable[[Context, Any], BaseModel]
    told: Callable[[Any], str] = lambda output: cast(str, output.model_dump_json())
    prepare: Callable[[Context, Any], Awaitable[Any]] | None = None
    read: Callable[[Context, Any], Any] | None = None
    is_for_admins: bool = False
    outlives_chat: bool = False
    calls_a_minute: int = 30

    @property
    def looks_ahead(self) -> bool:
        """Whether it has something to do before its transaction."""
        return self.prepare is not None or self.read is not None

    @property
    def input_schema(self) -> dict[str, Any]:
        return self.input.model_json_schema()

    @property
    def output_schema(self) -> dict[str, Any]:
        return self.output.model_json_schema()

    def run(self, context: Context, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The result as text and as JSON. Raises ToolError, or AskPerson where the tool needs a
        person's answers first."""
        self.check_rights(context)
        output = self.handler(context, self.validated(arguments))
        text, structured = self.told(output), output.model_dump(mode="json")
        if max(len(text), len(_json(structured))) > OUTPUT_CHARACTERS:
            raise ToolError(message="The result is too long. Ask for less of it.")
        return text, structured

    async def prepared(self, context: Context, arguments: Mapping[str, Any]) -> Context:
        """The context with what the handler needs from outside. Raises ToolError."""
        if not self.looks_ahead:
            return context
        self.check_rights(context)
        asked = self.validated(arguments)
        if self.read is not None:
            reading = database_sync_to_async(self.read, thread_sensitive=False)
            context = replace(context, prepared=await reading(context, asked))
        if self.prepare is not None:
            context = replace(context, prepared=await self.prepare(context, asked))
        return context

    def check_rights(self, context: Context) -> None:
        if self.is_for_admins and not context.person.is_staff:
            raise ToolError(message=ONLY_ADMINS)

    def validated(self, arguments: Mapping[str, Any]) -> BaseModel:
        if len(_json(arguments)) > INPUT_CHARACTERS:
            most = f"{INPUT_CHARACTERS:,}"
            raise ToolError(message=f"The input is too long: at most {most} characters of JSON.")
        for name, value in arguments.items():
            if storable([name, value]) != [name, value]:
                raise ToolError(field=storable(name), message=NOT_STORABLE)
        try:
            return self.input.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            raise ToolError(field=place, message=_sentence(str(first["msg"]))) from None


def as_read(context: Context, asked: Any) -> BaseModel:
    """The handler of a tool whose `read` returns its whole output."""
    if not isinstance(context.prepared, BaseModel):
        raise ToolError(message="Nothing was read beforehand.")
    return context.prepared


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sentence(message: str) -> str:
    """A validator's own sentence, without the prefix that the library puts before it."""
    return message.removeprefix("Value error, ")
