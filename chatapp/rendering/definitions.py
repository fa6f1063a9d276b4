"""What a tool says of itself, a service's or one of our own, as cards and forms tell it."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from chatapp.models import ToolCall, Trial
from chatapp.tools.core import core_tool

if TYPE_CHECKING:
    from pydantic import BaseModel

# What these read of a tool call, a trial has under the same names.
Call = ToolCall | Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """`is_own`: the words are ours and no service's."""

    title: str
    description: str
    input_schema: dict[str, Any]
    is_own: bool = False


def definition_of(call: Call) -> Definition | None:
    """That of the tool which was called, where it is known."""
    own = core_tool(call.tool_name) if isinstance(call, ToolCall) and call.is_core else None
    if own is not None:
        schema = _schema_of(own.input)
        return Definition(
            title=own.title, description=own.description, input_schema=schema, is_own=True
        )
    stored = call.definition
    if stored is None:
        return None
    title = stored.title or (stored.annotations or {}).get("title")
    return Definition(
        title=title.strip() if isinstance(title, str) else "",
        description=stored.description.strip(),
        input_schema=stored.input_schema,
    )


@cache
def _schema_of(model: "type[BaseModel]") -> dict[str, Any]:
    """Every row of a call asks for it."""
    return model.model_json_schema()
