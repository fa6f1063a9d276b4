"""The HTTP client of one operation at one URL. It sends requests and keeps cookies.

The HTTP library's own client also prepares redirects, authentication and proxies, none of which is
used here. That takes a tenth of the time of a tool call.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

# As the HTTP library's own client, so that a service always receives the same.
_USER_AGENT = f"python-httpx2/{httpx2.__version__}"


class OperationClient:
    """Sends `headers` with every request. `aclose` closes the transport."""

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport,
        *,
        url: httpx2.URL,
        headers: Mapping[str, str],
        timeout: httpx2.Timeout,
    ) -> None:
        self._transport = transport
        self._url = url
        self._headers = httpx2.Headers({"user-agent": _USER_AGENT})
        self._headers.update(headers)
        self._timeout = timeout.as_dict()
        self._cookies = httpx2.Cookies()

    @asynccontextmanager
    async def stream(
        self, method: str, headers: Mapping[str, str], message: Any = None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request, with the message as JSON if there is one. The answer is open within."""
        own = self._headers.copy()
        own.update(headers)
        request = httpx2.Request(
            method,
            self._url,
            headers=own,
            cookies=self._cookies,
            json=message,
            extensions={"timeout": self._timeout},
        )
        response = await self._transport.handle_async_request(request)
        try:
            response.request = request
            self._cookies.extract_cookies(response)
            yield response
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()
