"""Headers that tell a service who acts: `{user.email}` and its like, filled in anew each time."""

import re
from collections.abc import Mapping

from .acting import Acting
from .errors import OperationError

PLACEHOLDERS = ("{user.email}", "{user.id}", "{user.username}", "{conversation.id}")

# Braces around anything but quotation marks: JSON in a header's value stays what it is.
_PLACEHOLDER = re.compile(r"\{[^{}\"]*\}")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What the HTTP library and the protocol set themselves; a second one would contradict the first.
_TAKEN = frozenset(
    ("host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer")
    + ("upgrade", "expect", "accept", "accept-encoding", "last-event-id")
)


class Untold(OperationError):
    """A header must say something of the person who acts, and it cannot be said."""


def problem_of(headers: Mapping[str, str]) -> str:
    """Why these headers cannot be stored, in a sentence, or an empty text."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            return f"“{name[:60]}” cannot be the name of a header."
        if name.lower() in _TAKEN or name.lower().startswith("mcp-"):
            return f"The header “{name}” is set by the protocol itself."
        if not _is_safe(value):
            return f"The value of “{name}” may hold only printable ASCII characters on one line."
        if set(_PLACEHOLDER.findall(value)) - set(PLACEHOLDERS):
            known = ", ".join(PLACEHOLDERS)
            return f"There is no placeholder like the one in “{name}”. There are: {known}."
    return ""


def names_a_person(headers: Mapping[str, str]) -> bool:
    """Whether the headers differ from one person to the next."""
    return any(_PLACEHOLDER.search(value) for value in headers.values())


def filled(headers: Mapping[str, str], acting: Acting | None) -> dict[str, str]:
    """The headers for this person; an OperationError if they cannot be told of him."""
    return {name: _filled(value, acting) for name, value in headers.items()}


def _filled(value: str, acting: Acting | None) -> str:
    """One pass over the stored text, so that what is filled in is never filled again."""
    return _PLACEHOLDER.sub(lambda found: _value(found.group(0), acting), value)


def _value(placeholder: str, acting: Acting | None) -> str:
    if acting is None:
        raise _untold(
            "The service is told who acts, and nobody is named here.",
            "Use it in a chat, or name a member with --user.",
        )
    values = {
        "{user.email}": acting.email,
        "{user.id}": str(acting.user_id),
        "{user.username}": acting.username,
        "{conversation.id}": acting.conversation_id,
    }
    value = values.get(placeholder, "")
    if not value:
        what = placeholder.strip("{}").replace(".", "'s ")
        raise _untold(
            f"The service must be told the {what}, and there is none.",
            "An admin can complete the member's page, or change the service's headers.",
        )
    if not _is_safe(value):
        raise _untold(
            f"What {placeholder} stands for has characters that a header cannot carry.",
            "An admin can use {user.id} instead.",
        )
    return value


def _is_safe(value: str) -> bool:
    """One line of printable ASCII: a line end in a value would be a header of its own, and letters
    beyond ASCII are read differently by different servers, which could make one person another."""
    return value.isascii() and value.isprintable()


def _untold(message: str, hint: str) -> Untold:
    return Untold(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )
