"""Embeddings: vectors of texts whose distance says how close the texts are in meaning."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .account import Account
from .estimate import count_text_tokens
from .failures import provider_error

# Some models make different vectors for the texts that are searched and for those that ask.
Purpose = Literal["passage", "query"]
EMBED_SECONDS = 60.0
MAX_DIMENSIONS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """Texts for one model, at most `MOST_TEXTS`, none of them empty. `dimensions` is None for the
    model's own number."""

    model: str
    texts: tuple[str, ...]
    purpose: Purpose
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """A vector for each text of the request, all of the same length."""

    vectors: tuple[tuple[float, ...], ...]
    input_tokens: int


class EmbeddingModule(Protocol):
    """What the module of a provider with embeddings offers."""

    async def embed(self, request: EmbeddingRequest, account: Account) -> Embeddings:
        """Return the embeddings; raise ProviderError. `request` is sent once."""
        ...


# Google takes 100 texts at once, and Cohere 96.
MOST_TEXTS = 64


def build_embeddings(
    request: EmbeddingRequest, vectors: Sequence[object], tokens: int, account: Account
) -> Embeddings:
    """Check what a provider sent. Raises ProviderError for anything but one vector of the same
    length for each text. `tokens` is estimated if it is 0."""
    read = tuple(vector for vector in map(_read_vector, vectors) if vector)
    lengths = {len(vector) for vector in read}
    if len(read) != len(request.texts) or len(lengths) != 1:
        detail = f"{len(read)} vectors of {sorted(lengths)[:3]} numbers for {len(request.texts)}"
        raise provider_error("protocol", account.names, detail=f"{detail} texts")
    return Embeddings(
        vectors=read, input_tokens=tokens or sum(map(count_text_tokens, request.texts))
    )


def _read_vector(value: object) -> tuple[float, ...]:
    """Return the numbers, or none for anything but a vector with a direction."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_DIMENSIONS:
        return ()
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in value):
        return ()
    return tuple(map(float, value)) if any(value) else ()
