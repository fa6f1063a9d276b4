"""Summaries as rows: which one counts, keeping a new one with its notice, undoing it."""

import uuid

from django.db import transaction

from chatapp.models import Conversation, Part, Summary, Turn
from mcpconfig.results import storable

from . import journal
from .journal import Entry, Kind
from .lease import Lease, fenced
from .top_notices import STEP, SUMMARISED

NOTICE = (
    "The older part of this chat was summarised, because all of it is longer than the model can "
    "read. Everything is still here for you; the model is told the summary instead."
)


def summary_for(conversation: Conversation) -> Summary | None:
    """The one that a model is told now: the widest, unless the person took it back."""
    widest = _widest(conversation.pk)
    return widest if widest is not None and widest.is_used else None


def was_undone(conversation: Conversation) -> bool:
    """Whether the person took the summary back: then no other is made behind their back."""
    widest = _widest(conversation.pk)
    return widest is not None and not widest.is_used


def _widest(conversation_id: uuid.UUID) -> Summary | None:
    summaries = Summary.objects.filter(conversation_id=conversation_id)
    return summaries.select_related("part").last()


def keep(lease: Lease, turns: int, text: str, model: str) -> None:
    """Store a summary and tell of it at the top of the answer that needed it. One that this answer
    needed before grows; one of an earlier answer no longer counts, and its notice says so."""
    with fenced(lease) as turn:
        values = {"turns": turns, "text": storable(text), "model": model}
        known = _widest(turn.conversation_id)
        if known is not None and known.part.message_id == turn.answer_id:
            Summary.objects.filter(pk=known.pk).update(**values)
            entries = [_entry(known.part, is_new=False)]
        else:
            entries = [_entry(known.part, is_new=False)] if known else []
            part = _notice(turn)
            Summary.objects.create(conversation_id=turn.conversation_id, part=part, **values)
            entries.append(_entry(part))
        journal.append(turn.conversation_id, turn.pk, entries)


def _notice(turn: Turn) -> Part:
    return Part.objects.create(
        message_id=turn.answer_id,
        step=STEP,
        position=SUMMARISED,
        kind=Part.Kind.NOTICE,
        notice_kind=Part.NoticeKind.SUMMARY,
        text=NOTICE,
    )


def use(summary: Summary, *, is_used: bool) -> None:
    """Let the model be told this summary from the next question on, or the whole chat again."""
    with transaction.atomic():
        # The turn first, as everywhere: its worker holds it when it wants the conversation.
        turn = Turn.objects.select_for_update().get(answer_id=summary.part.message_id)
        changed = Summary.objects.filter(pk=summary.pk).exclude(is_used=is_used)
        if not changed.update(is_used=is_used):
            return
        entry = _entry(summary.part, is_new=False)
        journal.append(summary.conversation_id, turn.pk, [entry])
    summary.is_used = is_used


def _entry(part: Part, *, is_new: bool = True) -> Entry:
    data = {"message": str(part.message_id), "step": part.step, "position": part.position}
    return Entry(kind=Kind.NOTICE, data=data if is_new else {**data, "is_new": False})
