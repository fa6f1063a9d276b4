"""Summaries as rows: the one in use, storing a new one with its notice, and undoing it."""

import uuid

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy

from chatapp.journal import journal
from chatapp.journal.journal import NOTICE_STEP, SUMMARISED, Entry, Kind
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Conversation, Part, Summary, Turn
from chatapp.server.compiled_queries import compiled
from mcpconfig.values.results import make_storable

NOTICE = gettext_lazy(
    "This chat exceeds the model’s context, so the model reads a summary of its older part. "
    "You still see all messages."
)


def load_summary(conversation: Conversation) -> Summary | None:
    """Return the summary that replaces the older turns: the widest, unless the person undid it."""
    widest = _load_widest.first(conversation.pk)
    return widest if widest is not None and widest.is_used else None


def was_undone(conversation: Conversation) -> bool:
    """Return whether the person undid the summary, also one of another version of an answer. No
    other one is made then."""
    widest = _load_widest.first(conversation.pk)
    if widest is not None:
        return not widest.is_used
    return Summary.objects.filter(conversation=conversation, is_used=False).exists()


@compiled
def _load_widest(conversation_id: uuid.UUID) -> QuerySet[Summary]:
    # That of another branch has messages that this one does not have.
    summaries = Summary.objects.filter(
        conversation_id=conversation_id, part__message__is_shown=True
    )
    return summaries.select_related("part").reverse()[:1]


def store_summary(lease: Lease, turns: int, text: str, model: str) -> None:
    """Store a summary, with a notice at the top of the answer that needed it.

    A summary that this answer already has is extended. One of an earlier answer no longer counts,
    and its notice says so.
    """
    with lock_turn(lease) as turn:
        values = {"turns": turns, "text": make_storable(text), "model": model}
        known = _load_widest.first(turn.conversation_id)
        if known is not None and known.part.message_id == turn.answer_id:
            Summary.objects.filter(pk=known.pk).update(**values)
            entries = [_build_entry(known.part, is_new=False)]
        else:
            entries = [_build_entry(known.part, is_new=False)] if known else []
            part = _create_notice(turn)
            Summary.objects.create(conversation_id=turn.conversation_id, part=part, **values)
            entries.append(_build_entry(part))
        journal.append(turn.conversation_id, turn.pk, entries)


def _create_notice(turn: Turn) -> Part:
    return Part.objects.create(
        message_id=turn.answer_id,
        step=NOTICE_STEP,
        position=SUMMARISED,
        kind=Part.Kind.NOTICE,
        notice_kind=Part.NoticeKind.SUMMARY,
        text=str(NOTICE),
    )


def switch_summary(summary: Summary, *, is_used: bool) -> None:
    """Use this summary from the next model call on, or the whole chat again."""
    with transaction.atomic():
        # Lock the turn first, as everywhere: its worker holds the turn when it locks the
        # conversation.
        turn = Turn.objects.select_for_update().get(answer_id=summary.part.message_id)
        changed = Summary.objects.filter(pk=summary.pk).exclude(is_used=is_used)
        if not changed.update(is_used=is_used):
            return
        entry = _build_entry(summary.part, is_new=False)
        journal.append(summary.conversation_id, turn.pk, [entry])
    summary.is_used = is_used


def _build_entry(part: Part, *, is_new: bool = True) -> Entry:
    data = {"message": str(part.message_id), "step": part.step, "position": part.position}
    return Entry(kind=Kind.NOTICE, data=data if is_new else {**data, "is_new": False})
