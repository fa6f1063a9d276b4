"""Header values with placeholders for the acting person, such as `{user.email}`, filled in for each
operation."""

import re
from collections.abc import Mapping

from django.utils.translation import gettext as _

from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

PLACEHOLDERS = ("{user.email}", "{user.id}", "{user.username}", "{conversation.id}")

# Braces around anything but quotation marks, so that JSON in a value stays unchanged.
_PLACEHOLDER = re.compile(r"\{[^{}\"]*\}")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers that the HTTP library and the protocol set themselves; a second one would contradict the
# first.
_RESERVED_NAMES = frozenset(
    ("host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer")
    + ("upgrade", "expect", "accept", "accept-encoding", "last-event-id")
)


class HeaderTemplateError(OperationError):
    """A placeholder has no value for the acting person."""


def find_problem(headers: Mapping[str, str]) -> str:
    """Return why these headers cannot be stored, in a sentence; empty if they can."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            return _("“%(name)s” can’t be a header name.") % {"name": name[:60]}
        if name.lower() in _RESERVED_NAMES or name.lower().startswith("mcp-"):
            return _("The protocol sets the header “%(name)s” itself.") % {"name": name}
        if not _is_safe(value):
            return _(
                "The value of “%(name)s” may have only printable ASCII characters on one line."
            ) % {"name": name}
        if set(_PLACEHOLDER.findall(value)) - set(PLACEHOLDERS):
            known = ", ".join(PLACEHOLDERS)
            return _("Unknown placeholder in “%(name)s”. Available: %(known)s.") % {
                "name": name,
                "known": known,
            }
    return ""


def has_placeholder(headers: Mapping[str, str]) -> bool:
    """Whether the headers differ between people."""
    return any(_PLACEHOLDER.search(value) for value in headers.values())


def fill_headers(headers: Mapping[str, str], acting: Acting | None) -> dict[str, str]:
    """Return the headers for this person; raise OperationError if a placeholder has no value."""
    return {name: _fill_value(value, acting) for name, value in headers.items()}


def _fill_value(value: str, acting: Acting | None) -> str:
    """Fill in placeholders in one pass, so that a filled-in value is not filled again."""
    return _PLACEHOLDER.sub(lambda found: _get_value(found.group(0), acting), value)


def _get_value(placeholder: str, acting: Acting | None) -> str:
    if acting is None:
        raise _template_error(
            _("The service must know who acts, and no person is named here."),
            _("Use it in a chat, or name a member with --user."),
        )
    values = {
        "{user.email}": acting.email,
        "{user.id}": str(acting.user_id),
        "{user.username}": acting.username,
        "{conversation.id}": acting.conversation_id,
    }
    value = values.get(placeholder, "")
    if not value:
        raise _template_error(
            _("The service needs a value for %(placeholder)s, and there is none.")
            % {"placeholder": placeholder},
            _("An admin can complete the member’s page, or change the service’s headers."),
        )
    if not _is_safe(value):
        raise _template_error(
            _("The value of %(placeholder)s has characters that a header can’t carry.")
            % {"placeholder": placeholder},
            _("An admin can use {user.id} instead."),
        )
    return value


def _is_safe(value: str) -> bool:
    """One line of printable ASCII. A line break in a value would start another header, and servers
    read letters beyond ASCII differently, which could turn one person into another."""
    return value.isascii() and value.isprintable()


def _template_error(message: str, hint: str) -> HeaderTemplateError:
    return HeaderTemplateError(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )
