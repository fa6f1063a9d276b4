"""How a model id finds its provider, and what the environment must hold for it."""

import subprocess
import sys

import pytest
from pytest_django import Settings

from chatapp.models import ModelProvider
from chatapp.providers.environment import VARIABLES, find_account, is_offered
from chatapp.providers.events import ProviderError
from chatapp.providers.model_facts import DEFAULT_MODELS, find_end_date
from chatapp.providers.registry import PROVIDERS

from .accounts import BASE_URLS, KEYS, find_provider, forget_environment

SDKS = ("openai", "anthropic", "google.genai", "boto3", "aiohttp")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """An environment without keys, and settings as they come."""
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = True, ""


def refusal_of(model_id: str) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        find_account(model_id)
    return raised.value


def test_every_provider_has_its_variables_models_and_kind_of_row() -> None:
    assert set(VARIABLES) == set(DEFAULT_MODELS) == set(BASE_URLS) == set(PROVIDERS) - {"demo"}
    assert set(ModelProvider.Kind.values) == set(VARIABLES)


@pytest.mark.parametrize("prefix", ["anthropic", "google", "bedrock"])
def test_a_key_offers_its_provider(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    assert not is_offered(prefix)
    for name, value in KEYS[prefix].items():
        monkeypatch.setenv(name, value)
    assert [each for each in DEFAULT_MODELS if is_offered(each)] == [prefix]


def test_chat_completions_are_offered_for_a_server_of_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert (is_offered("openai"), is_offered("openai-chat")) == (True, False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert (is_offered("openai"), is_offered("openai-chat")) == (False, True)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://eu.api.openai.com/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert (is_offered("openai"), is_offered("openai-chat")) == (True, False)


async def test_any_model_name_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    provider, model, account = await find_provider("openai-chat:org/some:model")
    assert (model, account.key) == ("org/some:model", "sk-x")
    assert callable(provider.stream)
    assert callable(provider.list_models)


async def test_the_demo_needs_no_key() -> None:
    provider, model, account = await find_provider("demo:assistant")
    assert (model, account.key) == ("assistant", "")
    assert [each.name for each in await provider.list_models(account)] == ["assistant"]


@pytest.mark.parametrize("model_id", ["nobody:gpt", "gpt-6", "openai:"])
def test_an_unknown_model_is_told_by_name(model_id: str) -> None:
    error = refusal_of(model_id)
    assert error.kind == "not_found"
    assert "openai:" in error.hint


def test_no_model_at_all_says_what_an_admin_sets() -> None:
    error = refusal_of("")
    assert error.kind == "not_found"
    assert "OPENAI_API_KEY" in error.hint


def test_the_demo_that_is_off_cannot_be_chosen(settings: Settings) -> None:
    find_account("demo:assistant")
    settings.DEMO = False
    assert refusal_of("demo:assistant").kind == "not_found"


@pytest.mark.parametrize(
    ("model_id", "variable"),
    [
        ("openai:gpt-6-sol", "OPENAI_API_KEY"),
        ("openai-chat:llama", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-flash-latest", "GEMINI_API_KEY"),
        ("bedrock:amazon.nova-pro-v1:0", "AWS_BEARER_TOKEN_BEDROCK"),
    ],
)
def test_a_missing_key_is_told_with_its_variable(model_id: str, variable: str) -> None:
    error = refusal_of(model_id)
    assert error.kind == "auth"
    assert variable in error.hint


@pytest.mark.parametrize(
    ("model", "end"),
    [
        ("gpt-5", "2026-12-11"),
        ("gpt-5-mini-2025-08-07", "2026-12-11"),
        ("o3-mini", "2026-12-11"),
        ("gpt-4o-2024-11-20", "2027-01-14"),
        ("claude-sonnet-4-5-20250929", "2026-11-30"),
        ("gpt-5.5", "None"),
        ("gpt-6-sol", "None"),
    ],
)
def test_what_a_provider_is_about_to_end_is_known(model: str, end: str) -> None:
    assert str(find_end_date(model)) == end


def test_nothing_is_offered_that_is_about_to_end() -> None:
    offered = [model for models in DEFAULT_MODELS.values() for model in models]
    assert [model for model in offered if find_end_date(model)] == []


def test_an_unused_sdk_is_not_imported() -> None:
    code = (
        "import sys, chatapp.providers.registry, chatapp.providers.environment;"
        f"sys.exit(any(each in sys.modules for each in {SDKS}))"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=30, check=False)
    assert done.returncode == 0
