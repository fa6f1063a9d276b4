"""Environments that lead each provider to the scripted model server, and nowhere else."""

import pytest

from chatapp.providers.account import Account
from chatapp.providers.environment import find_account
from chatapp.providers.registry import ProviderModule, load_provider
from tests.wire.formats import FORMATS

BASE_URLS = {
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "bedrock": "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
}
SECRET = "secret-0123456789"
KEYS = {
    "openai": {},
    "openai-chat": {},
    "anthropic": {"ANTHROPIC_API_KEY": SECRET},
    "google": {"GEMINI_API_KEY": SECRET},
    "bedrock": {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "eu-central-1",
    },
}
PRIVATE = (
    *("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"),
    *("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE"),
    *("GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
    *("AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_DEFAULT_REGION", "AWS_PROFILE"),
)


def forget_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the variables of the person who runs the tests."""
    for name in (*PRIVATE, *BASE_URLS.values(), *(name for keys in KEYS.values() for name in keys)):
        monkeypatch.delenv(name, raising=False)


def point_at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """`url` is the model server's, as it prints it: OpenAI's, with `/v1` at its end."""
    for form in FORMATS:
        monkeypatch.setenv(BASE_URLS[form], url.removesuffix("/v1") + FORMATS[form].root)
        for name, value in KEYS[form].items():
            monkeypatch.setenv(name, value)


async def find_provider(model_id: str) -> tuple[ProviderModule, str, Account]:
    """The module, the provider's name of the model, and the environment's account."""
    account = find_account(model_id)
    kind, _, model = model_id.partition(":")
    return await load_provider(kind), model, account
