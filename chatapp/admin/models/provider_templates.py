"""Templates for well-known model providers: kind, address, and where the key is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import ModelProvider

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Kind = ModelProvider.Kind
KeyPlace = ModelProvider.KeyPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTemplate:
    """What the page *Add a provider* fills in. The check of the address has the last word."""

    key: str
    label: "StrOrPromise"
    kind: str
    advice: "StrOrPromise"
    base_url: str = ""
    key_place: str = KeyPlace.STORED


TEMPLATES = (
    ProviderTemplate(
        key="openai",
        label="OpenAI",
        kind=Kind.OPENAI,
        advice=_lazy("Create a key for a project at platform.openai.com, under “API keys”."),
    ),
    ProviderTemplate(
        key="anthropic",
        label="Anthropic",
        kind=Kind.ANTHROPIC,
        advice=_lazy("Create a key in a workspace at console.anthropic.com, under “API keys”."),
    ),
    ProviderTemplate(
        key="google",
        label="Google Gemini",
        kind=Kind.GOOGLE,
        advice=_lazy("Create a key at aistudio.google.com, under “API keys”."),
    ),
    ProviderTemplate(
        key="bedrock",
        label="Amazon Bedrock",
        kind=Kind.BEDROCK,
        advice=_lazy(
            "Enter the region, and a Bedrock API key, or the ID and the secret of an access key. "
            "Enable the models for the account first."
        ),
    ),
    ProviderTemplate(
        key="openrouter",
        label="OpenRouter",
        kind=Kind.OPENAI_CHAT,
        base_url="https://openrouter.ai/api/v1",
        advice=_lazy("Create a key at openrouter.ai, under “Keys”. It publishes its prices."),
    ),
    ProviderTemplate(
        key="azure",
        label="Azure OpenAI",
        kind=Kind.OPENAI,
        base_url="https://RESOURCE.openai.azure.com/openai/v1",
        key_place=KeyPlace.NONE,
        advice=_lazy(
            "Put the name of your resource into the address. Choose “No key needed” and enter the "
            "header “api-key: KEY”. Models are your deployments: enter their names below."
        ),
    ),
    ProviderTemplate(
        key="compatible",
        label=_lazy("Compatible server"),
        kind=Kind.OPENAI_CHAT,
        key_place=KeyPlace.NONE,
        advice=_lazy(
            "For vLLM, llama.cpp, LM Studio, Ollama and others that implement Chat Completions. "
            "“Find local model servers” finds those on this machine."
        ),
    ),
)


def get_template(key: str) -> ProviderTemplate:
    """Return the template, or the first if there is none of this key."""
    return next((each for each in TEMPLATES if each.key == key), TEMPLATES[0])
