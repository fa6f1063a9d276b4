"""The parameters of a chat at each provider: which it takes, and under which names."""

from typing import Any

import pytest

from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.request import ModelRequest, Parameters
from tests.wire.server import WireServer

from .stories import HELLO, said_by

NAMES = ProviderNames(label="a provider", key_variable="KEY", url_variable="URL")


@pytest.mark.parametrize(
    ("kind", "name", "effort", "sent"),
    [
        ("openai", "gpt-4.1", "", 1.5),
        ("openai", "gpt-6-sol", "", None),
        ("openai", "gpt-6-sol", "off", 1.5),
        ("openai", "gpt-5-mini", "off", None),
        ("openai", "gpt-5-chat-latest", "", 1.5),
        ("openai-chat", "openai/o3", "low", None),
        ("openai-chat", "qwen3", "high", 1.5),
        ("anthropic", "claude-opus-4-6", "", 1.0),
        ("anthropic", "claude-sonnet-4-20250514", "off", 1.0),
        ("anthropic", "claude-opus-4-6", "low", None),
        ("anthropic", "claude-opus-4-7", "", None),
        ("anthropic", "claude-sonnet-5-5", "off", None),
        ("bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0", "", 1.0),
        ("bedrock", "eu.anthropic.claude-opus-5-5-v1:0", "", None),
        ("bedrock", "amazon.nova-pro-v1:0", "high", 1.0),
        ("google", "gemini-4-argon", "high", 1.5),
    ],
)
def test_a_model_gets_no_temperature_that_it_refuses(
    kind: str, name: str, effort: str, sent: float | None
) -> None:
    model = ChosenModel(kind=kind, name=name, account=Account(names=NAMES))
    asked = model.set_parameters(effort, 1.5, 300)
    assert (asked.temperature, asked.output_tokens) == (sent, 300)
    assert model.takes_temperature(effort) == (sent is not None)


WIRE: dict[str, Any] = {
    "openai": (None, {"temperature": 0.25, "max_output_tokens": 300}),
    "openai-chat": (None, {"temperature": 0.25, "max_tokens": 300}),
    "anthropic": (None, {"temperature": 0.25, "max_tokens": 300}),
    "google": ("generationConfig", {"temperature": 0.25, "maxOutputTokens": 300}),
    "bedrock": ("inferenceConfig", {"temperature": 0.25, "maxTokens": 300}),
}


@pytest.mark.parametrize("form", WIRE)
async def test_each_provider_sends_them_by_its_own_names(wire: WireServer, form: str) -> None:
    model = ChosenModel(kind=form, name="scripted", account=Account(names=NAMES))
    parameters = model.set_parameters("", 0.25, 300)
    assert parameters == Parameters(temperature=0.25, output_tokens=300)
    request = ModelRequest(model="scripted", system="", history=HELLO, parameters=parameters)
    await said_by(form, request)
    place, expected = WIRE[form]
    (sent,) = wire.requests
    body = sent.body[place] if place else sent.body
    assert {name: body.get(name) for name in expected} == expected
    assert "thinking" not in sent.body  # Claude refuses it beside a temperature.
