"""Whether the context of a model holds untrusted content: in results of calls, or in attachments.

Content is untrusted if its service is open to strangers, or if a core tool read it from an earlier
chat that was tainted.
"""

import uuid
from collections.abc import Collection
from typing import TypeVar

from django.db.models import Q, QuerySet

from chatapp.models import Attachment, Conversation, Part, ToolCall
from mcpconfig.models import Service


def find_taint(calls: QuerySet[ToolCall], files: QuerySet[Attachment]) -> str:
    """Return the name of the first service whose untrusted content these calls and files hold,
    or an empty string. The mark on a row stays when the settings of its service change."""
    return _find_first(calls.filter(result__isnull=False)) or _find_first(files)


def find_taint_of_chats(chats: Collection[uuid.UUID]) -> str:
    """Return the same for everything that was read in these chats, or in those that they were
    forked from."""
    found = find_taint(
        ToolCall.objects.filter(turn__conversation__in=chats),
        Attachment.objects.filter(part__message__conversation__in=chats),
    )
    return found or find_taint_of_copies(chats)


def find_taint_of_copies(chats: Collection[uuid.UUID]) -> str:
    """Return the same for the results that these chats have as forks of others: marked when they
    were copied, or of a service that is open to strangers now."""
    forks = Conversation.objects.filter(pk__in=chats).exclude(forked_from=None, imported_from="")
    marks = dict(forks.values_list("pk", "tainted_by"))
    if marked := next(filter(None, marks.values()), ""):
        return marked
    copies = Part.objects.filter(message__conversation__in=marks, kind=Part.Kind.COPIED_CALL)
    services = set(copies.values_list("copied_call__result_of", flat=True)) - {None}
    opened = Service.objects.filter(pk__in=services, is_open=True)
    return opened.values_list("name", flat=True).first() or ""


Rows = TypeVar("Rows", QuerySet[ToolCall], QuerySet[Attachment])


def filter_tainted(rows: Rows) -> Rows:
    """Return the rows that hold untrusted content."""
    return rows.filter(Q(service__is_open=True) | ~Q(tainted_by=""))


def _find_first(rows: Rows) -> str:
    brought = filter_tainted(rows).values_list("tainted_by", "service__name")
    marked, service = brought.first() or ("", "")
    return str(marked or service or "")
