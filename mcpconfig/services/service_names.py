"""Short names for new services, which prefix the names of their tools."""

from collections.abc import Collection
from urllib.parse import urlsplit

from django.utils.text import slugify

MAX_CHARACTERS = 40
# Parts of a host name that say nothing about the service.
_COMMON = frozenset(("www", "mcp", "api", "app", "server", "remote"))


def propose_name(url: str, server_name: str, taken: Collection[str]) -> str:
    """Return a short name that no service has: from the server's own name, or from its host."""
    base = slugify(server_name)[:MAX_CHARACTERS].strip("-_") or _read_host(url) or "service"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def _read_host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    parts = host.split(".")
    if host.replace(".", "").isdigit():
        return ""
    named = parts[:-1] if len(parts) > 1 else parts
    chosen = next((part for part in reversed(named) if part not in _COMMON), "")
    return slugify(chosen)[:MAX_CHARACTERS].strip("-_")
