"""Which providers there are, and which models the environment offers.

A provider is one module with one line here. It is imported on first use: an unused SDK costs
nothing.
"""

import asyncio
import importlib
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, cast

from django.conf import settings

from chatapp.providers.events import ModelEvent, ProviderError
from chatapp.providers.failures import ProviderNames, missing_key
from chatapp.providers.request import ModelRequest

PROVIDERS: dict[str, str] = {
    "openai": "chatapp.providers.openai_responses",
    "openai-chat": "chatapp.providers.openai_chat",
    "demo": "chatapp.providers.demo",
}
LABELS = {
    "openai": "OpenAI",
    "openai-chat": "OpenAI-compatible (Chat Completions)",
    "demo": "Demo",
}
OPENAI_PREFIXES = ("openai", "openai-chat")
OPENAI_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
OPENAI_MODELS = {
    "gpt-6-sol": "GPT-6 Sol",
    "gpt-6-luna": "GPT-6 Luna",
    "gpt-6.1-sol": "GPT-6.1 Sol",
    "gpt-6.1-terra": "GPT-6.1 Terra",
    "gpt-6-astra": "GPT-6 Astra",
    "gpt-5.4-mini": "GPT-5.4 mini",
}
DEMO_MODEL = "demo:assistant"


class Provider(Protocol):
    """What a provider module offers. The first `anext` sends the request; `aclose` ends it."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model that a person can choose. `id` is `provider:model`."""

    id: str
    label: str
    provider_label: str


def check_model(model_id: str) -> None:
    """Raise ProviderError when the provider of this id cannot be used; whether it has the model,
    the provider itself says."""
    prefix, _, model = model_id.partition(":")
    if not model_id:
        raise ProviderError(
            kind="not_found",
            message="There is no model to ask yet.",
            hint="An admin sets OPENAI_API_KEY, or DEMO=1 for the demo assistant.",
        )
    if prefix not in PROVIDERS or not model or (prefix == "demo" and not settings.DEMO):
        raise ProviderError(
            kind="not_found",
            message=f"There is no model “{model_id}” here.",
            hint=f"Model names begin with one of: {', '.join(f'{p}:' for p in PROVIDERS)}",
        )
    if not _is_usable(prefix):
        names = ProviderNames(
            label=LABELS[prefix], key_variable="OPENAI_API_KEY", url_variable="OPENAI_BASE_URL"
        )
        raise missing_key(names)


async def provider_for(model_id: str) -> tuple[Provider, str]:
    """The provider module of a model id, and the provider's own name for the model."""
    check_model(model_id)
    prefix, _, model = model_id.partition(":")
    # An import reads hundreds of files; the event loop goes on meanwhile.
    module = await asyncio.to_thread(importlib.import_module, PROVIDERS[prefix])
    return cast(Provider, module), model


def offered_models() -> list[ModelChoice]:
    """What the environment offers at once; any other name of a usable provider works as well."""
    ids = [settings.DEFAULT_MODEL] if settings.DEFAULT_MODEL else []
    if _is_usable("openai"):
        ids += [f"openai:{model}" for model in OPENAI_MODELS]
    if os.environ.get("OPENAI_BASE_URL"):
        ids += [f"openai-chat:{model}" for model in OPENAI_MODELS]
    if settings.DEMO:
        ids.append(DEMO_MODEL)
    return [_choice(model_id) for model_id in dict.fromkeys(ids)]


def default_model() -> str:
    """The model of a new chat; empty when nothing is configured and the demo is off."""
    return next((choice.id for choice in offered_models()), "")


def _is_usable(prefix: str) -> bool:
    """Whether its key is there. A server of one's own may need none, the demo needs nothing."""
    if prefix not in OPENAI_PREFIXES:
        return True
    return any(os.environ.get(name) for name in OPENAI_VARIABLES)


def _choice(model_id: str) -> ModelChoice:
    prefix, _, model = model_id.partition(":")
    label = "Demo assistant" if model_id == DEMO_MODEL else OPENAI_MODELS.get(model, model)
    return ModelChoice(id=model_id, label=label, provider_label=LABELS.get(prefix, prefix))
