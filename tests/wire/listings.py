"""The lists of models that providers offer, each in its own form."""

from collections.abc import Callable
from typing import Any

from .bedrock_format import bedrock_models, bedrock_profiles
from .gemini_format import gemini_models
from .http import Request

Listing = Callable[[Request], Any]


def _openai(_: Request) -> Any:
    return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}


def _anthropic(request: Request) -> Any:
    """Two pages of one model each."""
    is_first = "after_id" not in request.query
    name = "scripted" if is_first else "scripted-small"
    return {
        "data": [_anthropic_model(name, has_eyes=is_first)],
        "has_more": is_first,
        "first_id": name,
        "last_id": name,
    }


def _anthropic_model(name: str, *, has_eyes: bool) -> Any:
    yes, eyes = {"supported": True}, {"supported": has_eyes}
    return {
        "type": "model",
        "id": name,
        "display_name": name.title(),
        "created_at": "2026-09-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000 if has_eyes else 8_000,
        "capabilities": {"image_input": eyes, "pdf_input": eyes, "thinking": yes},
    }


def _google(request: Request) -> Any:
    return gemini_models(request.query.get("pageToken"))


AMAZON: dict[str, Listing] = {
    "/foundation-models": lambda _: bedrock_models(),
    "/inference-profiles": lambda request: bedrock_profiles(request.query.get("nextToken")),
}


def listing_of(request: Request) -> Listing | None:
    """What lists the models that this request asks for. OpenAI, Anthropic and Google share a
    path."""
    if request.path == "/v1/models" and "x-goog-api-key" in request.headers:
        return _google
    if request.path == "/v1/models":
        return _anthropic if "anthropic-version" in request.headers else _openai
    return AMAZON.get(request.path)
