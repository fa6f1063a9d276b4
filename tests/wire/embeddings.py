"""Embeddings in the form of each provider, by a small model of meaning: texts about the same things
have close vectors, also if they share no word."""

import hashlib
import re
from typing import Any

from .http import Request

# Words that mean the same to this model.
MEANINGS = (
    {"car", "cars", "automobile", "vehicle", "vehicles"},
    {"holiday", "holidays", "vacation", "leave"},
    {"fire", "fired", "dismissed", "dismissal", "notice"},
)
DIMENSIONS = 256
# A text with this word is refused, as one that a filter does not accept.
REFUSED = "unspeakable"


def make_vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The sum of a direction for each word, which its synonyms share."""
    sums = [0.01] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        meaning = next((min(each) for each in MEANINGS if word in each), word)
        seed = hashlib.shake_128(meaning.encode()).digest(dimensions)
        # Rare things count more than small words.
        weight = 4.0 if meaning != word or any(word in each for each in MEANINGS) else 0.2
        sums = [
            total + weight * (byte - 127.5) / 128 for total, byte in zip(sums, seed, strict=True)
        ]
    return sums


def embed(request: Request) -> tuple[int, Any] | None:
    """The status and the answer to a request for embeddings, or None for another request."""
    body = request.body if isinstance(request.body, dict) else {}
    match request.path.split("/"):
        case [*_, "embeddings"]:
            return _openai(body)
        case [*_, last] if last.endswith(":batchEmbedContents"):
            return _google(body)
        case [*_, "invoke"]:
            return _bedrock(request.path, body)
    return None


def _openai(body: dict[str, Any]) -> tuple[int, Any]:
    texts = body["input"]
    if any(REFUSED in text for text in texts):
        message = "The input was refused."
        return 400, {"error": {"message": message, "type": "invalid_request_error", "code": None}}
    size = body.get("dimensions") or DIMENSIONS
    rows = [
        {"object": "embedding", "index": index, "embedding": make_vector(text, size)}
        for index, text in enumerate(texts)
    ]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    # The order of the rows is not that of the texts.
    return 200, {"object": "list", "data": rows[::-1], "model": body["model"], "usage": usage}


def _google(body: dict[str, Any]) -> tuple[int, Any]:
    vectors = []
    for asked in body["requests"]:
        [part] = asked["content"]["parts"]
        size = asked.get("outputDimensionality") or DIMENSIONS
        vectors.append({"values": make_vector(part["text"], size)})
    return 200, {"embeddings": vectors}


def _bedrock(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    if "cohere." in path:
        size = body.get("output_dimension") or DIMENSIONS
        vectors = [make_vector(text, size) for text in body["texts"]]
        return 200, {
            "id": "1",
            "response_type": "embeddings_by_type",
            "embeddings": {"float": vectors},
        }
    if "nova" in path:
        asked = body["singleEmbeddingParams"]
        size = asked.get("embeddingDimension") or DIMENSIONS
        vector = make_vector(asked["text"]["value"], size)
        return 200, {"embeddings": [{"embeddingType": "TEXT", "embedding": vector}]}
    vector = make_vector(body["inputText"], body.get("dimensions") or DIMENSIONS)
    return 200, {"embedding": vector, "inputTextTokenCount": len(body["inputText"].split())}
