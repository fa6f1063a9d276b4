"""What is not over, counted for the metrics: turns by state, and what waits for people."""

from dataclasses import dataclass

from django.db.models import Count, Q

from chatapp.journal.lease import is_free
from chatapp.models import Review, ToolCall, Turn
from chatapp.server.database import snapshot

State = ToolCall.State
# What a person has to do about a call in this state.
KINDS = {
    State.AWAITING_APPROVAL: "approval",
    State.AWAITING_INPUT: "question",
    State.AWAITING_SIGN_IN: "sign_in",
    State.UNKNOWN: "unknown_outcome",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Turns by state, how many running ones have no worker, and open requests by kind."""

    turns: dict[str, int]
    abandoned: int
    requests: dict[str, int]


def read_backlog() -> Backlog:
    with snapshot():
        turns = Turn.objects.filter(state__in=Turn.LIVE).aggregate(
            **{state.value: Count("pk", filter=Q(state=state)) for state in Turn.LIVE},
            abandoned=Count("pk", filter=is_free() & Q(state=Turn.State.RUNNING)),
        )
        # SQLite uses the index of the calls that wait for states joined by OR, and not for a list.
        waiting = Q()
        for state in KINDS:
            waiting |= Q(state=state)
        signed = Q(state=State.AWAITING_APPROVAL, approval__first_at__isnull=False)
        calls = ToolCall.objects.filter(waiting).aggregate(
            **{f"in_{state}": Count("pk", filter=Q(state=state)) for state in KINDS},
            signed=Count("pk", filter=signed),
        )
        reviews = Review.objects.filter(state=Review.State.OPEN).count()
    abandoned = turns.pop("abandoned")
    requests = {kind: calls[f"in_{state}"] for state, kind in KINDS.items()}
    requests["approval"] -= calls["signed"]
    requests |= {"second_signature": calls["signed"], "review": reviews}
    return Backlog(turns=turns, abandoned=abandoned, requests=requests)
