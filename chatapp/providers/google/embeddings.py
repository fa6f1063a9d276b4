"""The embeddings of Gemini."""

from chatapp.providers.account import Account
from chatapp.providers.embeddings import EmbeddingRequest, Embeddings, build_embeddings
from chatapp.providers.stream_reading import clean_text

from .client import embed_texts

TASKS = {"passage": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}
# Models after the first have no field for the task: the text begins with it.
WITH_TASK = "gemini-embedding-001"
BEGINNINGS = {"passage": "title: none | text: ", "query": "task: search result | query: "}


async def embed(request: EmbeddingRequest, account: Account) -> Embeddings:
    has_task = request.model.removeprefix("models/").startswith(WITH_TASK)
    beginning = "" if has_task else BEGINNINGS[request.purpose]
    vectors, tokens = await embed_texts(
        account,
        request.model,
        [f"{beginning}{clean_text(text)}" for text in request.texts],
        task=TASKS[request.purpose] if has_task else None,
        dimensions=request.dimensions,
    )
    return build_embeddings(request, vectors, tokens, account)
