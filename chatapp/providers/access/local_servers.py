"""Model servers on this machine, found at the ports that they usually have."""

import asyncio
from dataclasses import dataclass, replace

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import ProviderNames
from chatapp.providers.registry import provider_module

LOOK_SECONDS = 2.0
KIND = "openai-chat"
# Inside a container, what runs beside it has another name.
HOSTS = ("127.0.0.1", "host.docker.internal")
PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
# Others refuse a request that is longer than what a model reads.
CUTS_SILENTLY = "Ollama"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    label: str
    base_url: str
    models: tuple[ListedModel, ...]

    @property
    def cuts_silently(self) -> bool:
        return self.label == CUTS_SILENTLY

    @property
    def has_unsized(self) -> bool:
        """Whether it has a model of which it does not say how much it reads."""
        return not all(model.context_tokens for model in self.models)

    def sized(self, context_tokens: int | None) -> "LocalServer":
        """With what a person says of the models of which it does not."""
        models = (
            model if model.context_tokens else replace(model, context_tokens=context_tokens)
            for model in self.models
        )
        return replace(self, models=tuple(models))


async def look() -> tuple[LocalServer, ...]:
    """The servers that answer with a list of models; the same one under two names once."""
    found = await asyncio.gather(*(_ask(*place) for place in _places()))
    first = {(server.label, server.models): server for server in reversed(found) if server}
    return tuple(reversed(first.values()))


async def ask(base_url: str) -> LocalServer | None:
    """The server at this address, if it is one where servers are looked for."""
    for label, host, port in _places():
        if _address(host, port) == base_url:
            return await _ask(label, host, port)
    return None


def _places() -> list[tuple[str, str, int]]:
    return [(label, host, port) for host in HOSTS for label, port in PORTS.items()]


async def _ask(label: str, host: str, port: int) -> LocalServer | None:
    base_url = _address(host, port)
    names = ProviderNames(label=label, key_variable="its key", url_variable="its address")
    provider = await provider_module(KIND)
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            models = await provider.listed_models(Account(names=names, base_url=base_url))
    except (ProviderError, TimeoutError):
        return None
    return LocalServer(label=label, base_url=base_url, models=models)


def _address(host: str, port: int) -> str:
    return f"http://{host}:{port}/v1"
