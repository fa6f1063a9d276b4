"""Embeddings of each provider that has them: what it is sent, and what is read of its answer."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers.account import Account
from chatapp.providers.embeddings import EmbeddingRequest, Embeddings, Purpose
from chatapp.providers.environment import find_account
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import PROVIDERS, load_embeddings
from tests.wire.embeddings import make_vector
from tests.wire.script import Answer
from tests.wire.server import WireServer

TEXTS = ("The car is red.", "Leave is 30 days.")
MODELS = {
    "openai": "text-embedding-3-small",
    "openai-chat": "nomic-embed-text",
    "google": "gemini-embedding-001",
    "bedrock": "amazon.titan-embed-text-v2:0",
}


async def embed(
    kind: str,
    *texts: str,
    model: str = "",
    purpose: Purpose = "passage",
    dimensions: int | None = None,
) -> Embeddings:
    request = EmbeddingRequest(
        model=model or MODELS[kind],
        texts=texts or TEXTS,
        purpose=purpose,
        dimensions=dimensions,
    )
    return await (await load_embeddings(kind)).embed(request, find_embedding_account(kind))


def find_embedding_account(kind: str) -> Account:
    return find_account(f"{kind}:model")


@pytest.mark.parametrize("kind", MODELS)
async def test_each_text_has_its_vector(wire: WireServer, kind: str) -> None:
    found = await embed(kind)
    assert [list(vector) for vector in found.vectors] == [make_vector(text) for text in TEXTS]
    assert found.input_tokens >= 6


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        *MODELS.items(),
        ("bedrock", "cohere.embed-v4:0"),
        ("bedrock", "amazon.nova-2-multimodal-embeddings-v1:0"),
        ("google", "gemini-embedding-2"),
    ],
)
async def test_vectors_are_as_long_as_was_asked(wire: WireServer, kind: str, model: str) -> None:
    found = await embed(kind, model=model, dimensions=128)
    assert [len(vector) for vector in found.vectors] == [128, 128]


async def test_openai_is_asked_for_all_texts_at_once(wire: WireServer) -> None:
    await embed("openai")
    [request] = wire.embedded
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": list(TEXTS),
        "encoding_format": "float",
    }


@pytest.mark.parametrize(("purpose", "task"), [("passage", "DOCUMENT"), ("query", "QUERY")])
async def test_google_is_told_the_task(wire: WireServer, purpose: Purpose, task: str) -> None:
    await embed("google", purpose=purpose)
    [request] = wire.embedded
    asked = request.body["requests"]
    assert [each["taskType"] for each in asked] == [f"RETRIEVAL_{task}"] * 2
    assert [each["content"]["parts"][0]["text"] for each in asked] == list(TEXTS)


@pytest.mark.parametrize(
    ("purpose", "beginning"),
    [("passage", "title: none | text: "), ("query", "task: search result | query: ")],
)
async def test_newer_models_of_google_read_the_task_in_the_text(
    wire: WireServer, purpose: Purpose, beginning: str
) -> None:
    found = await embed("google", model="gemini-embedding-2", purpose=purpose)
    [request] = wire.embedded
    assert [each["content"]["parts"][0]["text"] for each in request.body["requests"]] == [
        f"{beginning}{text}" for text in TEXTS
    ]
    assert "taskType" not in str(request.body)
    assert len(found.vectors) == 2


async def test_each_family_at_bedrock_has_its_own_form(wire: WireServer) -> None:
    await embed("bedrock", "a", "b", dimensions=256)
    await embed("bedrock", "a", "b", model="eu.cohere.embed-v4:0", purpose="query")
    await embed("bedrock", "a", model="amazon.nova-2-multimodal-embeddings-v1:0")
    bodies: list[Any] = [request.body for request in wire.embedded]
    assert bodies == [
        {"inputText": "a", "dimensions": 256},
        {"inputText": "b", "dimensions": 256},
        {"texts": ["a", "b"], "input_type": "search_query", "embedding_types": ["float"]},
        {
            "taskType": "SINGLE_EMBEDDING",
            "singleEmbeddingParams": {
                "embeddingPurpose": "GENERIC_INDEX",
                "text": {"truncationMode": "END", "value": "a"},
            },
        },
    ]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, "auth"), (404, "not_found"), (429, "rate_limit"), (500, "server")],
)
async def test_an_error_is_the_providers(
    wire: WireServer, kind: str, status: int, expected: str
) -> None:
    wire.play(Answer(status=status, error={"code": "", "message": "No."}))
    with pytest.raises(ProviderError) as raised:
        await embed(kind)
    assert raised.value.kind == expected


@pytest.mark.parametrize(
    "vectors",
    ["[]", "[[0.1, 0.2]]", "[[0.1], [0.1, 0.2]]", "[[0, 0], [0, 0]]", '["x", "y"]', "null"],
)
async def test_anything_but_a_vector_for_each_text_is_an_error(
    wire: WireServer, vectors: str
) -> None:
    rows = json.loads(vectors)
    data = None if rows is None else [{"embedding": row, "index": n} for n, row in enumerate(rows)]
    wire.play(Answer(document=json.dumps({"data": data}), content_type="application/json"))
    with pytest.raises(ProviderError) as raised:
        await embed("openai")
    assert raised.value.kind == "protocol"


async def test_tokens_are_estimated_if_the_provider_does_not_count(wire: WireServer) -> None:
    found = await embed("google", "word " * 200)
    assert 150 < found.input_tokens < 400


async def test_nothing_is_sent_with_another_key(wire: WireServer) -> None:
    account = replace(find_embedding_account("openai"), key="own-key-0123456789")
    request = EmbeddingRequest(model="m", texts=("a",), purpose="query")
    await (await load_embeddings("openai")).embed(request, account)
    assert wire.embedded[0].headers["authorization"] == "Bearer own-key-0123456789"


def test_every_usual_model_belongs_to_a_provider_with_embeddings() -> None:
    for provider in PROVIDERS.values():
        assert bool(provider.embeddings) == bool(provider.embedding_models)


def test_synonyms_are_close_for_the_model_of_the_tests() -> None:
    def compare(one: str, other: str) -> float:
        a, b = make_vector(one), make_vector(other)
        return sum(map(float.__mul__, a, b)) / math.hypot(*a) / math.hypot(*b)

    assert compare("my car", "an automobile") > 0.9 > 0.5 > compare("my car", "a holiday")
