"""The context of a core tool's call, and the exceptions with which a tool refuses or asks a person.

Imports no pydantic, because every page loads this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatapp.models import Member, ToolCall, Turn
from chatapp.tools.catalogue import Catalogue
from mcpconfig.values.results import Answer, InputRequest


@dataclass(slots=True, kw_only=True)
class ToolError(Exception):
    """The tool cannot do what was asked. `message` is for the model and for people; `field`
    names the invalid input."""

    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(slots=True, kw_only=True)
class AskPerson(Exception):
    """The tool has done nothing yet and needs a person's answers; it runs again with them."""

    requests: tuple[InputRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """For whom and where a core tool runs. `call` is the row of the call, and `turn` its turn.
    `answers` are a person's answers, keyed by request, after they were asked; `prepared` is the
    return value of the tool's `read` or `prepare`.

    The caller updates the pages of the calls that the handler adds to `changed_plans`.
    """

    person: Member
    catalogue: Catalogue
    turn: Turn | None = None
    call: ToolCall | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    prepared: Any = None
    changed_plans: list[ToolCall] = field(default_factory=list)
