"""The embeddings of Bedrock. Converse has none, so each family has a request of its own."""

from typing import Any

from chatapp.providers.account import Account
from chatapp.providers.embeddings import EmbeddingRequest, Embeddings, build_embeddings
from chatapp.providers.stream_reading import as_count, as_list, as_object, clean_text

from .client import Body, invoke_models

COHERE = "cohere."
NOVA = "nova"
INPUT_TYPES = {"passage": "search_document", "query": "search_query"}
NOVA_PURPOSES = {"passage": "GENERIC_INDEX", "query": "TEXT_RETRIEVAL"}


async def embed(request: EmbeddingRequest, account: Account) -> Embeddings:
    bodies = _build_bodies(request)
    answers = [as_object(each) for each in await invoke_models(account, request.model, bodies)]
    vectors = [vector for answer in answers for vector in _read_vectors(answer)]
    tokens = sum(as_count(answer.get("inputTextTokenCount")) for answer in answers)
    return build_embeddings(request, vectors, tokens, account)


def _build_bodies(request: EmbeddingRequest) -> list[Body]:
    """Return one body for all texts, or one for each: Amazon's models take one text at a time."""
    texts = [clean_text(text) for text in request.texts]
    if COHERE in request.model:
        body: Body = {"texts": texts, "input_type": INPUT_TYPES[request.purpose]}
        size = {"output_dimension": request.dimensions} if request.dimensions else {}
        return [body | {"embedding_types": ["float"]} | size]
    if NOVA in request.model:
        return [_build_nova_body(request, text) for text in texts]
    size = {"dimensions": request.dimensions} if request.dimensions else {}
    return [{"inputText": text, **size} for text in texts]


def _build_nova_body(request: EmbeddingRequest, text: str) -> Body:
    size = {"embeddingDimension": request.dimensions} if request.dimensions else {}
    return {
        "taskType": "SINGLE_EMBEDDING",
        "singleEmbeddingParams": {
            "embeddingPurpose": NOVA_PURPOSES[request.purpose],
            **size,
            "text": {"truncationMode": "END", "value": text},
        },
    }


def _read_vectors(answer: dict[str, Any]) -> list[Any]:
    """Return the vectors of Titan (`embedding`), Cohere (`embeddings`, perhaps by type) or Nova
    (`embeddings` of objects)."""
    if "embedding" in answer:
        return [answer["embedding"]]
    found = answer.get("embeddings")
    if isinstance(found, dict):
        return as_list(found.get("float"))
    return [row["embedding"] if "embedding" in as_object(row) else row for row in as_list(found)]
