"""Which providers there are, and how the environment's accounts reach them.

A provider is one module with one line here. It is imported on first use: an unused SDK costs
nothing.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator
from typing import Protocol, cast

from django.conf import settings

from chatapp.providers import environment
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.events import ModelEvent, ProviderError
from chatapp.providers.failures import ProviderNames
from chatapp.providers.request import ModelRequest

PROVIDERS: dict[str, str] = {
    "openai": "chatapp.providers.openai_responses",
    "openai-chat": "chatapp.providers.openai_chat",
    "anthropic": "chatapp.providers.anthropic_messages",
    "google": "chatapp.providers.google_gemini",
    "bedrock": "chatapp.providers.bedrock_converse",
    "demo": "chatapp.providers.demo",
}
LABELS = {
    "openai": "OpenAI",
    "openai-chat": "OpenAI-compatible (Chat Completions)",
    "anthropic": "Anthropic",
    "google": "Google Gemini",
    "bedrock": "Amazon Bedrock",
    "demo": "Demo",
}
DEMO_MODEL = "demo:assistant"
NO_ACCOUNT = Account(
    names=ProviderNames(label="the demo", key_variable="DEMO", url_variable="DEMO")
)


class Provider(Protocol):
    """What a provider module offers. The first `anext` sends the request; `aclose` ends it."""

    def stream(
        self, request: ModelRequest, account: Account
    ) -> AsyncGenerator[ModelEvent, None]: ...

    async def listed_models(self, account: Account) -> tuple[ListedModel, ...]: ...


def no_such_model(model_id: str) -> ProviderError:
    return ProviderError(
        kind="not_found",
        message=f"There is no model “{model_id}” here.",
        hint=f"Model names begin with one of: {', '.join(f'{p}:' for p in PROVIDERS)}",
    )


def account_for(model_id: str) -> Account:
    """The environment's account for this id; a ProviderError when its provider cannot be used.
    Whether the provider has the model, it says itself."""
    prefix, _, model = model_id.partition(":")
    if not model_id:
        raise ProviderError(
            kind="not_found",
            message="There is no model to ask yet.",
            hint="An admin adds a provider, sets a key such as OPENAI_API_KEY, or DEMO=1 for the "
            "demo assistant.",
        )
    if prefix not in PROVIDERS or not model or (prefix == "demo" and not settings.DEMO):
        raise no_such_model(model_id)
    return environment.account(prefix) if prefix in environment.VARIABLES else NO_ACCOUNT


async def provider_for(model_id: str) -> tuple[Provider, str, Account]:
    """The provider module of a model id, the provider's own name for the model, and the
    environment's account."""
    account = account_for(model_id)
    prefix, _, model = model_id.partition(":")
    return await provider_module(prefix), model, account


async def provider_module(kind: str) -> Provider:
    # An import reads hundreds of files; the event loop goes on meanwhile.
    module = await asyncio.to_thread(importlib.import_module, PROVIDERS[kind])
    return cast(Provider, module)


def is_offered(prefix: str) -> bool:
    """Whether its models are in the list. Chat Completions is for servers of one's own; OpenAI
    itself is asked by Responses, though both prefixes work with both."""
    if prefix == "openai-chat":
        return environment.has_own_address(prefix)
    return environment.is_set(prefix)
