"""Whether the context of a model holds untrusted content: in results of calls, or in attachments.

Content is untrusted if its service is open to strangers, or if a core tool read it from an earlier
chat that was tainted. So are the instructions of a project that somebody else changed after the
chat began: its person was not shown them.
"""

import uuid
from collections.abc import Collection
from typing import TypeVar

from django.db.models import Min, Q, QuerySet

from chatapp.models import Attachment, Conversation, Message, Part, Project, ToolCall, Turn
from mcpconfig.models import Service

MARK_CHARACTERS = 100


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
    """Return the same for the results that these chats have as forks of others, or from the person
    who had them before: marked when they were copied, or of a service that is open to strangers
    now."""
    own = {"forked_from": None, "imported_from": "", "is_shared_copy": False}
    forks = Conversation.objects.filter(pk__in=chats).exclude(**own)
    marks = dict(forks.values_list("pk", "tainted_by"))
    if marked := next(filter(None, marks.values()), ""):
        return marked
    copies = Part.objects.filter(message__conversation__in=marks, kind=Part.Kind.COPIED_CALL)
    services = set(copies.values_list("copied_call__result_of", flat=True)) - {None}
    opened = Service.objects.filter(pk__in=services, is_open=True)
    return opened.values_list("name", flat=True).first() or ""


def find_taint_of_project(turn: Turn) -> str:
    """Return who changed the instructions of the turn's project after its chat began, if it was
    somebody else. The messages of a fork have the times of the original, so a fork counts as old
    as its chat."""
    chat = turn.conversation
    if chat.project_id is None or turn.is_of_program:
        return ""
    begun = Message.objects.filter(conversation=chat.pk).aggregate(at=Min("created_at"))["at"]
    changed = Project.filter_active(chat.owner).filter(
        pk=chat.project_id, instructions_at__gt=begun
    )
    others = changed.exclude(instructions="").exclude(instructions_by=chat.owner_id)
    project = others.select_related("instructions_by").first() if begun else None
    if project is None:
        return ""
    by = project.instructions_by.display_name if project.instructions_by else "a former member"
    return f"project instructions by {by}"[:MARK_CHARACTERS]


Rows = TypeVar("Rows", QuerySet[ToolCall], QuerySet[Attachment])


def filter_tainted(rows: Rows) -> Rows:
    """Return the rows that hold untrusted content."""
    return rows.filter(Q(service__is_open=True) | ~Q(tainted_by=""))


def _find_first(rows: Rows) -> str:
    brought = filter_tainted(rows).values_list("tainted_by", "service__name")
    marked, service = brought.first() or ("", "")
    return str(marked or service or "")
