"""The blueprint of a core tool: typed input and output, a handler, a risk, limits and
documentation.

A core tool runs inside this server, in one transaction with the record of its outcome, so its
outcome is never unknown.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from channels.db import database_sync_to_async
from pydantic import BaseModel, ConfigDict, ValidationError

from chatapp.permissions.risk_evidence import Level
from mcpconfig.values.results import make_storable
from mcpconfig.values.service_admins import manages_services

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
    """An input model that refuses unknown fields, so that a mistake of the model is reported."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An input as a model writes it, and the output that belongs to it."""

    input: dict[str, Any]
    output: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """What people and authors of other programs read: each field is one or more full sentences."""

    examples: tuple[Example, ...]
    limitations: str
    limits: str
    rights: str
    errors: str
    clients: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTool:
    """One core tool. Its name has no underscore; the id of a service's tool always has one.

    `handler` is sync and runs in a transaction. Its output is the structured result; `render_text`
    renders the output as text. Two optional steps run before the transaction, because nobody else
    can write while one is open: `read` does slow reads in a thread of its own, `prepare` uses the
    network. Both change nothing, so they may run twice; the handler finds their return value in the
    context.

    Models and programs read English. Pages translate `title` and `risk_reason`, which are marked
    with `gettext_noop`.

    A call of a tool that `outlives_chat` counts as tainted if anything in its chat is, not only
    what came since the last message.
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
    render_text: Callable[[Any], str] = lambda output: cast(str, output.model_dump_json())
    prepare: Callable[[Context, Any], Awaitable[Any]] | None = None
    read: Callable[[Context, Any], Any] | None = None
    is_for_admins: bool = False
    outlives_chat: bool = False
    calls_a_minute: int = 30

    @property
    def has_preparation(self) -> bool:
        """Whether it has a step before its transaction."""
        return self.prepare is not None or self.read is not None

    @property
    def input_schema(self) -> dict[str, Any]:
        return self.input.model_json_schema()

    @property
    def output_schema(self) -> dict[str, Any]:
        return self.output.model_json_schema()

    def run(self, context: Context, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the result as text and as JSON. Raise ToolError, or AskPerson if the tool needs
        a person's answers first."""
        self.check_rights(context)
        output = self.handler(context, self.validate(arguments))
        text, structured = self.render_text(output), output.model_dump(mode="json")
        if max(len(text), len(_to_json(structured))) > OUTPUT_CHARACTERS:
            raise ToolError(message="The result is too long. Ask for less of it.")
        return text, structured

    async def prepare_context(self, context: Context, arguments: Mapping[str, Any]) -> Context:
        """Return the context with the result of the steps before the transaction. Raise
        ToolError."""
        if not self.has_preparation:
            return context
        self.check_rights(context)
        asked = self.validate(arguments)
        if self.read is not None:
            reading = database_sync_to_async(self.read, thread_sensitive=False)
            context = replace(context, prepared=await reading(context, asked))
        if self.prepare is not None:
            context = replace(context, prepared=await self.prepare(context, asked))
        return context

    def check_rights(self, context: Context) -> None:
        if self.is_for_admins and not manages_services(context.person):
            raise ToolError(message=ONLY_ADMINS)

    def validate(self, arguments: Mapping[str, Any]) -> BaseModel:
        if len(_to_json(arguments)) > INPUT_CHARACTERS:
            most = f"{INPUT_CHARACTERS:,}"
            raise ToolError(message=f"The input is too long: at most {most} characters of JSON.")
        for name, value in arguments.items():
            if make_storable([name, value]) != [name, value]:
                raise ToolError(field=make_storable(name), message=NOT_STORABLE)
        try:
            return self.input.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            raise ToolError(field=place, message=_strip_prefix(str(first["msg"]))) from None


def return_prepared(context: Context, asked: Any) -> BaseModel:
    """Handler of a tool whose `read` returns its whole output."""
    if not isinstance(context.prepared, BaseModel):
        raise ToolError(message="Nothing was read beforehand.")
    return context.prepared


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _strip_prefix(message: str) -> str:
    """Return a validator's own message, without the prefix that pydantic adds."""
    return message.removeprefix("Value error, ")
