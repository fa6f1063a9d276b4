"""Models as their provider lists them: asked for, and kept with what it says of them."""

from collections.abc import Collection, Iterable

from django.db import transaction

from chatapp.models import ChatModel, ModelProvider
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.local_servers import KIND, LocalServer
from chatapp.providers.registry import PROVIDERS, provider_module
from chatapp.providers.words import LARGEST_COUNT

# What a provider may say of a model, and our field for it.
FACTS = ("context_tokens", "output_tokens", "takes_pictures", "takes_documents", "reasons")


async def listed(kind: str, account: Account) -> tuple[ListedModel, ...]:
    """The models that this account may use now; raises ProviderError."""
    return await (await provider_module(kind)).listed_models(account)


@transaction.atomic
def keep(provider: ModelProvider, models: Iterable[ListedModel], names: Collection[str]) -> int:
    """Add these models; of those that are there, fill in what nobody had said. Returns how many
    are new."""
    known = {model.name: model for model in provider.chat_models.all()}
    added = 0
    for found in models:
        if found.name not in names:
            continue
        facts = _facts(found)
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


def _facts(found: ListedModel) -> dict[str, int]:
    """What is said of a model, without numbers that no model has and no column holds."""
    said = {fact: getattr(found, fact) for fact in FACTS}
    return {
        fact: value
        for fact, value in said.items()
        if value is not None and 0 <= value <= LARGEST_COUNT
    }


@transaction.atomic
def keep_server(server: LocalServer) -> ModelProvider:
    """A provider for this server with all of its models. The same server is not added twice."""
    provider = ModelProvider.objects.filter(kind=KIND, base_url=server.base_url).first()
    if provider is None:
        provider = ModelProvider.objects.create(
            slug=_free_slug(server.label),
            kind=KIND,
            label=server.label,
            base_url=server.base_url,
            key_place=ModelProvider.KeyPlace.NONE,
        )
    keep(provider, server.models, {model.name for model in server.models})
    return provider


def _free_slug(label: str) -> str:
    wanted = "".join(letter for letter in label.lower() if letter.isalnum())
    taken = {*PROVIDERS, *ModelProvider.objects.values_list("slug", flat=True)}
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(slug for slug in (wanted, *numbered) if slug not in taken)
