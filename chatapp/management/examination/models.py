"""Examines the models: whether there is one to ask, whether providers have their keys, and which
models their providers are about to end. Keys are not tried: that would cost a request."""

from chatapp.models import ModelProvider
from chatapp.providers.default_models import end_of
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import DEMO_MODEL
from chatapp.turns.accounts import account_of
from chatapp.turns.model_choice import OfferedModel, chosen_model, default_model, offered_models

from .findings import Finding, doubtful, good, wrong

SUBJECT = "models"


def models() -> list[Finding]:
    """What a member of no group meets."""
    chosen = default_model(None)
    try:
        chosen_model(chosen, None)
    except ProviderError as error:
        return [wrong(SUBJECT, error.message, error.hint), *_providers()]
    offered = offered_models(None)
    found = [good(SUBJECT, f"New chats begin with {chosen}; offered: {len(offered)}.")]
    if {model.id for model in offered} == {DEMO_MODEL}:
        hint = "Set the key of a provider, such as OPENAI_API_KEY, or add one in the admin."
        found.append(doubtful(SUBJECT, "Only the demo assistant is there.", hint))
    return [*found, *_providers(), *_ending(offered)]


def _providers() -> list[Finding]:
    found = []
    for provider in ModelProvider.objects.filter(is_enabled=True):
        try:
            account_of(provider)
        except ProviderError as error:
            found.append(wrong(SUBJECT, error.message, error.hint))
    return found


def _ending(offered: list[OfferedModel]) -> list[Finding]:
    ends = {model.id: end_of(model.id.partition(":")[2]) for model in offered}
    hint = "Offer its successor, and take this one out of the list."
    return [
        doubtful(SUBJECT, f"Its provider ends {model_id} on {end:%Y-%m-%d}.", hint)
        for model_id, end in ends.items()
        if end
    ]
