"""For whom a core tool acts, and how it says that it cannot, or that it needs a person first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatapp.models import Member, ToolCall, Turn
from mcpconfig.results import Answer, InputRequest

from .catalogue import Catalogue


@dataclass(slots=True, kw_only=True)
class ToolError(Exception):
    """The tool cannot do what was asked. `message` is for the model and for people; `field` names
    the input at fault."""

    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(slots=True, kw_only=True)
class AskPerson(Exception):
    """The tool did nothing yet: it is run again with what a person answers."""

    requests: tuple[InputRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`call` is the row of the call, and `turn` its turn. `answers` are a person's, by the key of
    the request, once they were asked; `prepared` is what the tool's `prepare` returned.

    Whoever runs the tool then tells the pages about `changed_plans`, by the ids of their calls.
    """

    person: Member
    catalogue: Catalogue
    turn: Turn | None = None
    call: ToolCall | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    prepared: Any = None
    changed_plans: list[ToolCall] = field(default_factory=list)
