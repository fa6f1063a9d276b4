"""The models that a provider lists: fetched, and stored with the facts that it gives."""

from collections.abc import Collection, Iterable

from django.db import transaction

from chatapp.models import ChatModel, ModelProvider
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.registry import PROVIDERS, load_provider
from chatapp.providers.stream_reading import MAX_COUNT

from .local_servers import KIND, LocalServer

# Fields of `ListedModel` and `ChatModel` that a provider may fill in.
FACTS = ("context_tokens", "output_tokens", "takes_pictures", "takes_documents", "reasons")


async def fetch_models(kind: str, account: Account) -> tuple[ListedModel, ...]:
    """Return the models that this account may use now, or raise ProviderError."""
    return await (await load_provider(kind)).list_models(account)


@transaction.atomic
def save_models(
    provider: ModelProvider, models: Iterable[ListedModel], names: Collection[str]
) -> int:
    """Add the models with these names, and fill in facts that stored models lack.

    Returns the number of new models.
    """
    known = {model.name: model for model in provider.chat_models.all()}
    added = 0
    for found in models:
        if found.name not in names:
            continue
        facts = _read_facts(found)
        model = known.get(found.name)
        if model is None:
            label = found.label[:100]
            ChatModel.objects.create(provider=provider, name=found.name, label=label, **facts)
            added += 1
            continue
        missing = {fact: value for fact, value in facts.items() if getattr(model, fact) is None}
        if missing:
            ChatModel.objects.filter(pk=model.pk).update(**missing)
    return added


def _read_facts(found: ListedModel) -> dict[str, int]:
    """Return the facts of a model without numbers that a column cannot store."""
    said = {fact: getattr(found, fact) for fact in FACTS}
    return {
        fact: value for fact, value in said.items() if value is not None and 0 <= value <= MAX_COUNT
    }


@transaction.atomic
def save_server(server: LocalServer) -> ModelProvider:
    """Return a provider with all models of this server. The same server is not added twice."""
    provider = ModelProvider.objects.filter(kind=KIND, base_url=server.base_url).first()
    if provider is None:
        provider = ModelProvider.objects.create(
            slug=_free_slug(server.label),
            kind=KIND,
            label=server.label,
            base_url=server.base_url,
            key_place=ModelProvider.KeyPlace.NONE,
        )
    save_models(provider, server.models, {model.name for model in server.models})
    return provider


def _free_slug(label: str) -> str:
    wanted = "".join(letter for letter in label.lower() if letter.isalnum())
    taken = {*PROVIDERS, *ModelProvider.objects.values_list("slug", flat=True)}
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(slug for slug in (wanted, *numbered) if slug not in taken)
