"""Whether strangers' words are in what the model was given: in what some calls returned, or in what
a person attached. They are those of a service that is open to strangers, or of a core tool that
brought such words from an earlier chat."""

import uuid
from collections.abc import Collection

from django.db.models import Q, QuerySet

from chatapp.models import Attachment, ToolCall


def taint_of(calls: QuerySet[ToolCall], files: QuerySet[Attachment]) -> str:
    """The name of the first service whose words, perhaps of strangers, these calls and files
    brought; or nothing. What they were marked with at first stays, whatever becomes of the
    service."""
    return _brought_by(calls.filter(result__isnull=False)) or _brought_by(files)


def taint_of_chats(chats: Collection[uuid.UUID]) -> str:
    """The same of all that was read in these chats."""
    return taint_of(
        ToolCall.objects.filter(turn__conversation__in=chats),
        Attachment.objects.filter(part__message__conversation__in=chats),
    )


def _brought_by(rows: QuerySet[ToolCall] | QuerySet[Attachment]) -> str:
    brought = rows.filter(Q(service__is_open=True) | ~Q(tainted_by=""))
    marked, service = brought.values_list("tainted_by", "service__name").first() or ("", "")
    return str(marked or service or "")
