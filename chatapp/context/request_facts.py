"""What a request depends on beside the history and the tools, read in one statement."""

import uuid
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from chatapp.models import Conversation, Memory, Step, Summary, Turn
from chatapp.server.compiled_queries import compiled

from .calibration import Calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """`calibration` is that of the last call of this chat to the same model that was counted."""

    has_memories: bool
    has_summaries: bool
    calibration: Calibration


def load_request_facts(turn: Turn) -> RequestFacts:
    [(has_memories, has_summaries, estimated, counted)] = _load_facts(
        turn.model, turn.conversation_id
    )
    return RequestFacts(
        has_memories=has_memories,
        has_summaries=has_summaries,
        calibration=Calibration(estimated or 0, counted or 0),
    )


@compiled
def _load_facts(
    model: str, conversation_id: uuid.UUID
) -> QuerySet[Conversation, tuple[bool, bool, int | None, int | None]]:
    last = Step.objects.filter(
        turn__conversation=OuterRef("pk"), turn__model=model, estimated_tokens__gt=0
    ).order_by("-started_at")
    return Conversation.objects.filter(pk=conversation_id).values_list(
        Exists(Memory.objects.filter(person=OuterRef("owner"))),
        Exists(Summary.objects.filter(conversation=OuterRef("pk"))),
        Subquery(last.values("estimated_tokens")[:1]),
        Subquery(last.values("input_tokens")[:1]),
    )
