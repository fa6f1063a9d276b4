"""The HTTP client of the SDKs: connections of aiohttp, whose parser is written in C.

It is imported on first use, together with an SDK.
"""

import asyncio
import contextlib
import functools
import json
import math
import weakref
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import aiohttp
import httpx2
from httpx_aiohttp.httpx2 import AiohttpTransport, Httpx2AiohttpClient
from httpx_aiohttp.httpx2.transport import AiohttpResponseStream

from .connections import CONNECT_SECONDS, get_tls_context

Hook = Callable[..., Awaitable[None]]

LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
# `read_events` has a deadline for each event, so that the client needs none for reads.
TIMEOUT = httpx2.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
MAX_HEADER_BYTES = 64 * 1024
JSON_HEADERS = {"accept": "application/json", "content-type": "application/json"}
# What aiohttp would add. A request has the headers that the SDK and `OwnHeaders` give it.
ADDED_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
# What is asked for. httpx2 would add Brotli, which is installed for our static files only.
ENCODINGS = "gzip, deflate"
# Shorter than the time between two commits of text, so that each has what came since the last.
PAUSE_SECONDS = 0.08
# The first text is shown as soon as it comes.
EAGER_SECONDS = 0.3
# After so many bytes at once, more are probably waiting.
LARGE_PIECE_BYTES = 16 * 1024


def create_http_client(
    request_hooks: Sequence[Hook], response_hooks: Sequence[Hook] = ()
) -> httpx2.AsyncClient:
    """Return a client that never follows a redirect with the key."""
    return _Client(
        headers={"accept-encoding": ENCODINGS},
        verify=get_tls_context(),
        follow_redirects=False,
        limits=LIMITS,
        timeout=TIMEOUT,
        event_hooks={"request": list(request_hooks), "response": list(response_hooks)},
    )


class StreamClient(Protocol):
    """What the clients of OpenAI's and Anthropic's SDKs have in common."""

    _client: httpx2.AsyncClient

    @property
    def base_url(self) -> httpx2.URL: ...

    def _make_status_error_from_response(self, response: httpx2.Response) -> Exception: ...


async def post_stream(
    sdk: StreamClient, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
) -> httpx2.Response:
    """Post a JSON body and return the response before its body is read. Raises the SDK's error
    unless the status is 2xx. `headers` are those of the API, beside those of the account.

    The SDKs rebuild the whole request each time, which takes longer than sending it and delays the
    first text.
    """
    client = sdk._client
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    request = httpx2.Request(
        "POST",
        _parse_address(f"{str(sdk.base_url).rstrip('/')}{path}"),
        content=text.encode(),
        headers={**client.headers, **JSON_HEADERS, **headers},
        extensions={"timeout": TIMEOUT.as_dict()},
    )
    response = await client.send(request, stream=True)
    if not response.is_success:
        await response.aread()
        raise sdk._make_status_error_from_response(response)
    return response


@functools.lru_cache(maxsize=256)
def _parse_address(address: str) -> httpx2.URL:
    return httpx2.URL(address)


class _Client(Httpx2AiohttpClient):
    """Has transports of its own, also for the proxies of the environment."""

    def _init_transport(self, *_: Any, **options: Any) -> httpx2.AsyncBaseTransport:
        return _Transport(**options)

    def _init_proxy_transport(
        self, proxy: httpx2.Proxy, *_: Any, **options: Any
    ) -> httpx2.AsyncBaseTransport:
        if proxy.url.scheme in ("http", "https"):
            return _Transport(proxy=proxy, **options)
        # aiohttp has no others.
        return httpx2.AsyncHTTPTransport(proxy=proxy, **options)


class _Transport(AiohttpTransport):
    """Sends requests through a session that adds nothing to them and keeps no cookies."""

    def get_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self.limits.max_connections or 0,
            keepalive_timeout=self.limits.keepalive_expiry,
            ssl=self.ssl_context,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=ADDED_HEADERS,
            max_field_size=MAX_HEADER_BYTES,
        )
        weakref.finalize(self, _abandon, session, connector)
        return session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # aiohttp would make credentials in the address a header, or refuse them beside one.
        request.url = request.url.copy_with(userinfo=b"")
        with _translate_errors():
            response = await super().handle_async_request(request)
        if isinstance(response.stream, AiohttpResponseStream):
            response.stream = _Stream(response.stream._aiohttp_response)
        return response


def _abandon(session: aiohttp.ClientSession, connector: aiohttp.TCPConnector) -> None:
    """Close a session after its event loop, to which a client belongs.

    Nothing is awaited there any more, and a session that is not closed writes errors to the log.
    """
    session.detach()
    connector._close()


class _Stream(httpx2.AsyncByteStream):
    """The body of a response: all that has arrived, and after a while not more often than text is
    shown, because each read costs more than the text it reads."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        now, paused_from = asyncio.get_running_loop().time, math.inf
        content = self._response.content
        while piece := await _read(content):
            last = now()
            paused_from = min(paused_from, last + EAGER_SECONDS)
            yield piece
            if last >= paused_from and len(piece) < LARGE_PIECE_BYTES and not content.is_eof():
                await sleep(last + PAUSE_SECONDS - now())

    async def aclose(self) -> None:
        with _translate_errors():
            await self._response.__aexit__(None, None, None)


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Return all that has arrived, nothing at the end."""
    try:
        return await content.readany()
    except Exception as error:
        # After a failure the reader withholds what arrived before it, which may be the end of the
        # answer. Malformed chunks end the connection, and reading on is a RuntimeError.
        if arrived := content._read_nowait(-1):
            return arrived
        raise httpx2.ReadError(repr(error)) from error


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise errors of `httpx2` for those of aiohttp.

    The transport's own translation makes a timeout of every connection that was refused or closed.
    """
    try:
        yield
    except (aiohttp.ClientError, httpx2.TransportError) as error:
        match cause := error.__cause__ if isinstance(error, httpx2.TransportError) else error:
            case TimeoutError():
                raise httpx2.ConnectTimeout(str(cause)) from cause
            case aiohttp.ClientConnectorError():
                raise httpx2.ConnectError(str(cause)) from cause
        raise httpx2.NetworkError(repr(cause)) from cause
