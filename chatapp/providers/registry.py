"""The providers. A provider is a folder with a declaration and one line here.

Its module is imported on first use, because an SDK takes long to import.
"""

import asyncio
import importlib
import re
from collections.abc import AsyncGenerator
from typing import Protocol, cast

from .account import Account, ListedModel
from .anthropic.provider import ANTHROPIC
from .bedrock.provider import BEDROCK
from .embeddings import EmbeddingModule
from .events import ModelEvent
from .google.provider import GOOGLE
from .openai.provider import OPENAI, OPENAI_CHAT
from .provider import FileSupport, Provider
from .request import ModelRequest
from .tools.toolbox import Dialect

DEMO_MODEL = "demo:assistant"
DEMO = Provider(
    kind="demo",
    label="Demo",
    module="chatapp.demo.assistant.provider",
    files=FileSupport(without_pictures=re.compile(r"")),
)
PROVIDERS: dict[str, Provider] = {
    provider.kind: provider
    for provider in (
        OPENAI,
        OPENAI_CHAT,
        ANTHROPIC,
        GOOGLE,
        BEDROCK,
        DEMO,
    )
}
DIALECTS: dict[str, Dialect] = {
    kind: provider.dialect for kind, provider in PROVIDERS.items() if provider.dialect
}


class ProviderModule(Protocol):
    """What the module of a provider offers."""

    def stream(self, request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
        """The events of one answer. The first `anext` sends the request; `aclose` ends it."""
        ...

    async def list_models(self, account: Account) -> tuple[ListedModel, ...]:
        """Return the models that this account may use now; raise ProviderError."""
        ...


_loaded: dict[str, object] = {}


async def load_provider(kind: str) -> ProviderModule:
    """Import the module of a provider."""
    return cast(ProviderModule, await _load(PROVIDERS[kind].module))


async def load_embeddings(kind: str) -> EmbeddingModule:
    """Import the embeddings of a provider that has them."""
    return cast(EmbeddingModule, await _load(PROVIDERS[kind].embeddings))


async def _load(name: str) -> object:
    """Import a module in a thread, as an SDK has hundreds of files. Later calls do not wait for a
    thread."""
    if name not in _loaded:
        _loaded[name] = await asyncio.to_thread(importlib.import_module, name)
    return _loaded[name]
