"""The lists of models that providers offer, each in its own form."""

from collections.abc import Callable
from typing import Any

from .bedrock_format import bedrock_models, bedrock_profiles
from .gemini_format import gemini_models
from .http import Request

Listing = Callable[[Request], Any]


def _openai(_: Request) -> Any:
    return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}


# What compatible servers answer to GET /v1/models, field by field. `first` is the model that each
# of them lists first; the others are for something else, or less used.
COMPATIBLE: dict[str, Any] = {
    "ollama": {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 1_790_000_000, "owned_by": "library"}
            for name in ("qwen3:4b", "nomic-embed-text:latest", "all-minilm:l6-v2", "gemma3:1b")
        ],
    },
    "vllm": {
        "object": "list",
        "data": [
            {
                "id": "Qwen/Qwen3-4B",
                "object": "model",
                "created": 1_790_000_000,
                "owned_by": "vllm",
                "root": "Qwen/Qwen3-4B",
                "parent": None,
                "max_model_len": 40_960,
                "permission": [{"id": "modelperm-1", "object": "model_permission"}],
            },
            {
                "id": "support-lora",
                "object": "model",
                "created": 1_790_000_000,
                "owned_by": "vllm",
                "root": "/loras/support",
                "parent": "Qwen/Qwen3-4B",
                "max_model_len": None,
                "permission": [],
            },
        ],
    },
    "llama.cpp": {
        "models": [
            {
                "name": "/models/gemma-3-1b-it-Q4_K_M.gguf",
                "model": "/models/gemma-3-1b-it-Q4_K_M.gguf",
                "modified_at": "",
                "size": "",
                "digest": "",
                "type": "model",
                "description": "",
                "tags": [""],
                "capabilities": ["completion"],
                "parameters": "",
                "details": {"parent_model": "", "format": "gguf", "family": "", "families": [""]},
            }
        ],
        "object": "list",
        "data": [
            {
                "id": "/models/gemma-3-1b-it-Q4_K_M.gguf",
                "object": "model",
                "created": 1_790_000_000,
                "owned_by": "llamacpp",
                "meta": {
                    "vocab_type": 1,
                    "n_vocab": 262_144,
                    "n_ctx": 8_192,
                    "n_ctx_train": 32_768,
                    "n_embd": 1_152,
                    "n_params": 999_885_952,
                    "size": 799_525_120,
                },
            }
        ],
    },
    "lm-studio": {
        "data": [
            {"id": "qwen/qwen3-4b", "object": "model", "owned_by": "organization_owner"},
            {
                "id": "text-embedding-nomic-embed-text-v1.5",
                "object": "model",
                "owned_by": "organization_owner",
            },
        ],
        "object": "list",
    },
}


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
