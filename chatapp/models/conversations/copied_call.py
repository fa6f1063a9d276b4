"""A tool call of another chat, as a fork keeps it."""

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedCall:
    """What models and people read of a call that another chat made. It is no call of the chat that
    keeps it: it has no approval and no entry in the log, and is never sent.

    `arguments` are those that the model asked for, `changed_arguments` those of a person who
    changed them (otherwise empty), both JSON. `outcome` is the text that the model read. `state` is
    one of `ToolCall.State`; `title` and `service` are the names on the card. `result_of` is the id
    of the service whose result is in `outcome`, None without one. `is_withheld`: models may not
    read the result, and `outcome` has what a person said about it.
    """

    call_id: str
    tool_id: str
    arguments: str
    changed_arguments: str
    outcome: str
    is_error: bool
    title: str
    service: str
    state: str
    result_of: int | None
    is_withheld: bool = False

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Return the value of `Part.copied_call`."""
        return cls(**stored)

    def store(self) -> dict[str, Any]:
        """Return the value for `Part.copied_call`."""
        return asdict(self)
