"""The embeddings of OpenAI and of compatible servers such as Ollama, vLLM and llama.cpp."""

from chatapp.providers.account import Account
from chatapp.providers.embeddings import EmbeddingRequest, Embeddings, build_embeddings
from chatapp.providers.stream_reading import as_count, as_list, as_object, clean_text

from .client import Body, post_json


async def embed(request: EmbeddingRequest, account: Account) -> Embeddings:
    body: Body = {
        "model": request.model,
        "input": [clean_text(text) for text in request.texts],
        # Compatible servers do not all have the shorter form of OpenAI.
        "encoding_format": "float",
    }
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    answer = as_object(await post_json(account, "/embeddings", body))
    rows = [as_object(row) for row in as_list(answer.get("data"))]
    if all(isinstance(row.get("index"), int) for row in rows):
        rows.sort(key=lambda row: int(row["index"]))
    tokens = as_count(as_object(answer.get("usage")).get("prompt_tokens"))
    return build_embeddings(request, [row.get("embedding") for row in rows], tokens, account)
