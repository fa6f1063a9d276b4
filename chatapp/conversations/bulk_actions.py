"""What a person does to several chats at once, and how it is undone."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.models import Conversation, Member
from chatapp.people.refused import Refused

from . import chat_list

MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """`filter` returns the chats of a person that it would change, `change` changes one, and
    `undo` is the name of the action that takes it back."""

    filter: Callable[[Member], QuerySet[Conversation]]
    change: Callable[[Conversation], None]
    undo: str


def _filter_where(condition: Q) -> Callable[[Member], QuerySet[Conversation]]:
    return lambda person: Conversation.filter_listed(person).filter(condition)


IS_UNREAD = Q(active_at__gt=F("read_at"))
ACTIONS = {
    "archive": BulkAction(
        filter=_filter_where(Q(archived_at=None)),
        change=partial(chat_list.archive, is_on=True),
        undo="unarchive",
    ),
    "unarchive": BulkAction(
        filter=_filter_where(Q(archived_at__isnull=False)),
        change=partial(chat_list.archive, is_on=False),
        undo="archive",
    ),
    "read": BulkAction(filter=_filter_where(IS_UNREAD), change=chat_list.mark_read, undo="unread"),
    "unread": BulkAction(
        filter=_filter_where(~IS_UNREAD),
        change=chat_list.mark_unread,
        undo="read",
    ),
    "delete": BulkAction(
        filter=Conversation.filter_listed, change=chat_list.delete, undo="restore"
    ),
    "restore": BulkAction(filter=chat_list.filter_deleted, change=chat_list.restore, undo="delete"),
}


def change_chats(
    person: Member, action: BulkAction, chosen: Sequence[uuid.UUID]
) -> list[Conversation]:
    """Do this to the chosen chats and return those that it changed. Ids of other people's chats
    count as unknown, and unknown ids are passed over: a chat may be gone since the page was
    shown. Raises Refused if none or too many are chosen."""
    check_choice(chosen)
    changed = list(action.filter(person).filter(pk__in=chosen).select_related("owner"))
    for conversation in changed:
        action.change(conversation)
    return changed


def check_choice(chosen: Sequence[uuid.UUID]) -> None:
    """Raise Refused if none or too many chats are chosen."""
    if not chosen:
        raise Refused(_("Select at least one chat."))
    if len(chosen) > MOST_AT_ONCE:
        sentence = ngettext(
            "Select at most %(most)s chat at a time.",
            "Select at most %(most)s chats at a time.",
            MOST_AT_ONCE,
        )
        raise Refused(sentence % {"most": MOST_AT_ONCE})
