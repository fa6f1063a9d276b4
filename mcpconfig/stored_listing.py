"""The SDK's cache of tool lists, filled with what is stored here."""

import time

import mcp_types as types
from mcp.client import CacheEntry, CacheKey


class StoredListing:
    """A list of one tool: the one that is about to be called.

    Without it the SDK lists a service's tools after each call, to check the result against the
    output schema. When that fails, the result of a tool that has run is lost.
    """

    def __init__(self, tool: types.Tool) -> None:
        self._listing = types.ListToolsResult(tools=[tool])

    async def get(self, key: CacheKey) -> CacheEntry | None:
        if key.method != "tools/list":
            return None
        return CacheEntry(value=self._listing, scope="private", expires_at=time.time() + 3600)

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        """Nothing is cached here: lists are stored by the ledger."""

    async def delete(self, key: CacheKey) -> None:
        """As for `set`."""

    async def clear(self) -> None:
        """As for `set`."""
