"""The model for embeddings that an admin chose for all projects: asked, counted and paid for."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.utils.translation import gettext as _

from chatapp.models import EmbeddingSettings, ModelProvider
from chatapp.providers import environment
from chatapp.providers.account import ListedModel
from chatapp.providers.embeddings import EmbeddingRequest, Embeddings, Purpose
from chatapp.providers.environment import unknown_model_error
from chatapp.providers.events import Finished, ProviderError, Usage
from chatapp.providers.failures import provider_error
from chatapp.providers.registry import PROVIDERS, load_embeddings
from chatapp.server.database import in_database

from .accounts import build_account
from .model_choice import ChosenModel
from .observed_calls import ObservedCall
from .usage import Price, add_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    """A model that can be asked for embeddings. `version` is that of its settings."""

    id: str
    model: ChosenModel
    dimensions: int | None
    price: Price | None
    version: int


def find_embedder() -> Embedder | None:
    """Return the model of the settings, or None if there is none. Raises ProviderError for one that
    cannot be asked."""
    settings = EmbeddingSettings.current()
    return build_embedder(settings) if settings.model else None


def find_label() -> str:
    """Return the name of the provider to which the text of files is sent, empty for none."""
    try:
        embedder = find_embedder()
    except ProviderError:
        return ""
    return embedder.model.account.names.label if embedder else ""


def build_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the model of these settings, without a request. Raises ProviderError."""
    prefix, _colon, name = settings.model.partition(":")
    row = ModelProvider.objects.filter(slug=prefix).first()
    kind = row.kind if row else prefix
    if not name or kind not in PROVIDERS or (row is not None and not row.is_enabled):
        raise unknown_model_error(settings.model)
    if not PROVIDERS[kind].embeddings:
        sentence = _("%(provider)s has no models for embeddings.")
        raise ProviderError(
            kind="bad_request",
            message=sentence % {"provider": PROVIDERS[kind].label},
            hint=_("Choose a model of another provider."),
        )
    return Embedder(
        id=settings.model,
        model=ChosenModel(
            kind=kind,
            name=name,
            account=build_account(row) if row else environment.read_account(kind),
            # An admin named it.
            listed=ListedModel(name=name),
        ),
        dimensions=settings.dimensions,
        price=_build_price(settings),
        version=settings.version,
    )


def _build_price(settings: EmbeddingSettings) -> Price | None:
    if settings.price is None:
        return None
    return Price(
        input=settings.price,
        cached=settings.price,
        kept=settings.price,
        output=Decimal(0),
        currency=settings.currency,
    )


async def embed(
    embedder: Embedder, texts: Sequence[str], purpose: Purpose, *, payer_id: int, seconds: float
) -> Embeddings:
    """Return the embeddings of these texts within a time, and count the tokens for the payer.
    Raises ProviderError."""
    request = EmbeddingRequest(
        model=embedder.model.name,
        texts=tuple(texts),
        purpose=purpose,
        dimensions=embedder.dimensions,
    )
    provider = await load_embeddings(embedder.model.kind)
    observed = ObservedCall(embedder.model, "embedding", embedder.price)
    with observed:
        try:
            async with asyncio.timeout(seconds):
                found = await provider.embed(request, embedder.model.account)
        except TimeoutError as error:
            raise provider_error("timeout", embedder.model.account.names) from error
        used = Usage(input_tokens=found.input_tokens)
        observed.note(used)
        observed.note(Finished(reason="stop"))
    await in_database(add_usage, payer_id, embedder.id, used, embedder.price)
    return found
