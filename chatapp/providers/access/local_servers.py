"""Finds model servers on this machine at their usual ports."""

import asyncio
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from chatapp.providers.account import Account, ListedModel, ProviderNames
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import load_provider

LOOK_SECONDS = 2.0
KIND = "openai-chat"
# Inside a container, the host has another name.
HOSTS = ("127.0.0.1", "host.docker.internal")
PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
# Truncates a request that is too long for the model. Other servers refuse it.
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
        """Whether the size of one of its models is unknown."""
        return not all(model.context_tokens for model in self.models)

    def with_context(self, context_tokens: int | None) -> "LocalServer":
        """Return the server with this size for models whose size is unknown."""
        models = (
            model if model.context_tokens else replace(model, context_tokens=context_tokens)
            for model in self.models
        )
        return replace(self, models=tuple(models))


async def find_servers() -> tuple[LocalServer, ...]:
    """Return the servers that list models. One that has two names is returned once."""
    found = await asyncio.gather(*(_fetch_server(*place) for place in _list_places()))
    first = {(server.label, server.models): server for server in reversed(found) if server}
    return tuple(reversed(first.values()))


async def find_server(base_url: str) -> LocalServer | None:
    """Return the server at this address, or None for an address that is not searched."""
    for label, host, port in _list_places():
        if _build_address(host, port) == base_url:
            return await _fetch_server(label, host, port)
    return None


def _list_places() -> list[tuple[str, str, int]]:
    return [(label, host, port) for host in HOSTS for label, port in PORTS.items()]


async def _fetch_server(label: str, host: str, port: int) -> LocalServer | None:
    base_url = _build_address(host, port)
    names = ProviderNames(label=label, key_variable=_("its key"), url_variable=_("its address"))
    provider = await load_provider(KIND)
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            models = await provider.list_models(Account(names=names, base_url=base_url))
    except (ProviderError, TimeoutError):
        return None
    return LocalServer(label=label, base_url=base_url, models=models)


def _build_address(host: str, port: int) -> str:
    return f"http://{host}:{port}/v1"
