"""The models that a provider lists: fetched, and stored with the facts that it gives."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction

from chatapp.models import ChatModel, ModelProvider
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.registry import PROVIDERS, load_provider
from chatapp.providers.stream_reading import MAX_COUNT

from .local_servers import KIND, LocalServer

# Fields of `ListedModel` and `ChatModel` that a provider may fill in.
FACTS = ("context_tokens", "output_tokens", "takes_pictures", "takes_documents", "reasons")
# Shorter than the column, so that a number fits behind it.
MAX_SLUG = 30
PRICES = ("input_price", "cached_price", "cache_write_price", "output_price")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Who may use new models, and the prices that an admin typed, by the name of the model: for a
    million tokens of input and of output. Models that nobody may use are added disabled."""

    access: str = "everyone"
    groups: Collection[Group] = ()
    prices: Mapping[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    currency: str = "USD"


FOR_EVERYONE = Terms()


async def fetch_models(kind: str, account: Account) -> tuple[ListedModel, ...]:
    """Return the models that this account may use now, or raise ProviderError."""
    return await (await load_provider(kind)).list_models(account)


@transaction.atomic
def save_models(
    provider: ModelProvider,
    models: Iterable[ListedModel],
    names: Collection[str],
    terms: Terms = FOR_EVERYONE,
) -> int:
    """Add the models with these names, and fill in facts and prices that stored models lack.

    Returns the number of new models. The terms are for these only.
    """
    known = {model.name: model for model in provider.chat_models.all()}
    added = 0
    for found in models:
        if found.name not in names:
            continue
        facts = _read_facts(found)
        model = known.get(found.name)
        if model is None:
            _add_model(provider, found, facts, terms)
            added += 1
            continue
        missing: dict[str, Any] = {
            fact: value for fact, value in facts.items() if getattr(model, fact) is None
        }
        if all(getattr(model, price) is None for price in PRICES):
            missing |= _read_prices(found)
        if missing:
            ChatModel.objects.filter(pk=model.pk).update(**missing)
    return added


def _add_model(
    provider: ModelProvider, found: ListedModel, facts: Mapping[str, Any], terms: Terms
) -> None:
    prices = _read_prices(found)
    if found.name in terms.prices:
        prices = dict(zip(("input_price", "output_price"), terms.prices[found.name], strict=True))
        prices["currency"] = terms.currency
    is_for_groups = terms.access == "groups"
    tools = {} if found.takes_tools is None else {"takes_tools": found.takes_tools}
    model = ChatModel.objects.create(
        provider=provider,
        name=found.name,
        label=found.label[:100],
        is_enabled=terms.access != "nobody",
        audience=ChatModel.Audience.GROUPS if is_for_groups else ChatModel.Audience.EVERYONE,
        **facts,
        **tools,
        **prices,
    )
    if is_for_groups:
        model.groups.set(terms.groups)


def _read_prices(found: ListedModel) -> dict[str, Any]:
    """Return the published prices as fields; none if the provider publishes none."""
    if found.price is None:
        return {}
    price = found.price
    amounts = (price.input, price.cached, price.cache_write, price.output)
    return dict(zip(PRICES, amounts, strict=True)) | {"currency": "USD"}


def _read_facts(found: ListedModel) -> dict[str, int]:
    """Return the facts of a model without numbers that a column cannot store."""
    said = {fact: getattr(found, fact) for fact in FACTS}
    return {
        fact: value for fact, value in said.items() if value is not None and 0 <= value <= MAX_COUNT
    }


@transaction.atomic
def save_server(server: LocalServer, terms: Terms = FOR_EVERYONE) -> ModelProvider:
    """Return a provider with all models of this server. The same server is not added twice."""
    provider = ModelProvider.objects.filter(kind=KIND, base_url=server.base_url).first()
    if provider is None:
        provider = ModelProvider.objects.create(
            slug=find_free_slug(server.label),
            kind=KIND,
            label=server.label,
            base_url=server.base_url,
            key_place=ModelProvider.KeyPlace.NONE,
        )
    save_models(provider, server.models, {model.name for model in server.models}, terms)
    return provider


def find_free_slug(label: str) -> str:
    """Return a short name for a provider of this label that no other has."""
    letters = (letter for letter in label.lower() if letter.isascii() and letter.isalnum())
    wanted = "".join(letters)[:MAX_SLUG] or "provider"
    taken = {*PROVIDERS, *ModelProvider.objects.values_list("slug", flat=True)}
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(slug for slug in (wanted, *numbered) if slug not in taken)
