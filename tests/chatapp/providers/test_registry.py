"""Which models the environment offers, and how a model id finds its provider."""

import subprocess
import sys

import pytest
from pytest_django import Settings

from chatapp.providers.events import ProviderError
from chatapp.providers.registry import (
    check_model,
    default_model,
    offered_models,
    provider_for,
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """An environment without keys, and settings as they come."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    settings.DEMO, settings.DEFAULT_MODEL = True, ""


def offered() -> list[str]:
    return [choice.id for choice in offered_models()]


def prefixes() -> set[str]:
    return {model_id.partition(":")[0] for model_id in offered()}


def test_without_a_key_only_the_demo_is_offered() -> None:
    assert [(c.id, c.label) for c in offered_models()] == [("demo:assistant", "Demo assistant")]
    assert default_model() == "demo:assistant"


def test_a_key_offers_its_provider_before_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert prefixes() == {"openai", "demo"}
    assert default_model().startswith("openai:")


def test_a_base_url_offers_both_forms_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert prefixes() == {"openai", "openai-chat", "demo"}


def test_the_default_model_comes_first_and_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    settings.DEFAULT_MODEL = "openai-chat:llama"
    assert default_model() == offered()[0] == "openai-chat:llama"
    settings.DEFAULT_MODEL = "demo:assistant"
    assert offered().count("demo:assistant") == 1


def test_without_demo_and_keys_nothing_is_offered(settings: Settings) -> None:
    settings.DEMO = False
    assert offered() == []
    assert default_model() == ""


async def test_any_model_name_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    provider, model = await provider_for("openai-chat:org/some:model")
    assert model == "org/some:model"
    assert callable(provider.stream)


async def test_the_demo_needs_no_key() -> None:
    _, model = await provider_for("demo:assistant")
    assert model == "assistant"


@pytest.mark.parametrize("model_id", ["nobody:gpt", "gpt-6", "openai:"])
async def test_an_unknown_model_is_told_by_name(model_id: str) -> None:
    with pytest.raises(ProviderError) as raised:
        await provider_for(model_id)
    assert raised.value.kind == "not_found"
    assert "openai:" in raised.value.hint


def test_no_model_at_all_says_what_an_admin_sets() -> None:
    with pytest.raises(ProviderError) as raised:
        check_model("")
    assert raised.value.kind == "not_found"
    assert "OPENAI_API_KEY" in raised.value.hint


def test_the_demo_that_is_off_cannot_be_chosen(settings: Settings) -> None:
    check_model("demo:assistant")
    settings.DEMO = False
    with pytest.raises(ProviderError) as raised:
        check_model("demo:assistant")
    assert raised.value.kind == "not_found"


@pytest.mark.parametrize("model_id", ["openai:gpt-6-sol", "openai-chat:llama"])
async def test_a_missing_key_is_told_with_its_variable(model_id: str) -> None:
    with pytest.raises(ProviderError) as raised:
        await provider_for(model_id)
    assert raised.value.kind == "auth"
    assert "OPENAI_API_KEY" in raised.value.hint


def test_an_unused_sdk_is_not_imported() -> None:
    code = "import sys, chatapp.providers.registry; sys.exit('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], timeout=30, check=False)
    assert done.returncode == 0
