"""What is said once at the top of an answer, before the parts of any step: what it had to do
without."""

from chatapp.models import Part, Turn

from .journal import Entry, Kind

STEP = 0
# Each has its place, so that a turn that begins anew says it once.
MISSING, LEFT_OUT, UNSEEN, SHORTENED, MENTIONED, CHANGED, SUMMARISED = 0, 1, 2, 3, 4, 5, 100
INFO = Part.NoticeKind.INFO


def note_once(
    turn: Turn, position: int, text: str, hint: str = "", kind: Part.NoticeKind = INFO
) -> list[Entry]:
    """Store the notice inside the caller's transaction, unless it is there or there is nothing to
    say; returns what the journal must say."""
    place = {"message_id": turn.answer_id, "step": STEP, "position": position}
    if not text or Part.objects.filter(**place).exists():
        return []
    Part.objects.create(
        **place,
        kind=Part.Kind.NOTICE,
        notice_kind=kind,
        text=text,
        hint=hint,
    )
    data = {"message": str(turn.answer_id), "step": STEP, "position": position}
    return [Entry(kind=Kind.NOTICE, data=data)]
