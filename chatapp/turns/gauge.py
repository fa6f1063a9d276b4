"""How full a conversation is, and what it took and cost so far."""

from django.db.models import F, Sum

from chatapp.models import Conversation, Step
from chatapp.providers.events import ProviderError
from chatapp.rendering.figures import costs_of
from chatapp.rendering.page import Gauge

from .model_choice import chosen_model

ALL_TOKENS = (
    F("input_tokens") + F("output_tokens") + F("summary_input_tokens") + F("summary_output_tokens")
)


def gauge_of(conversation: Conversation | None) -> Gauge:
    if conversation is None:
        return Gauge()
    steps = Step.objects.filter(turn__conversation=conversation)
    last = steps.filter(input_tokens__gt=0).order_by("started_at").last()
    spent = list(steps.values_list("currency").annotate(cost=Sum("cost"), tokens=Sum(ALL_TOKENS)))
    return Gauge(
        tokens=last.input_tokens + last.output_tokens if last else 0,
        saved_tokens=last.saved_tokens if last else 0,
        context_tokens=_context_of(conversation) if last else None,
        total_tokens=sum(tokens for _, _, tokens in spent),
        costs=costs_of({currency: cost for currency, cost, _ in spent if cost}),
    )


def _context_of(conversation: Conversation) -> int | None:
    """What the chosen model can read, where somebody said so."""
    try:
        return chosen_model(conversation.model, conversation.owner).context_tokens
    except ProviderError:
        return None
