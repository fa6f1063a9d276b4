"""The one file that knows the OpenAI SDK: clients for the account in the environment, one bounded
stream of plain events, and the SDK's errors in our own words."""

import asyncio
import functools
import os
import ssl
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import openai
from django.conf import settings

from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import (
    ProviderNames,
    classify,
    missing_key,
    provider_error,
    retry_after_seconds,
)

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_SECONDS = 10.0
DRAIN_SECONDS = 0.2
EVENTS_BEFORE_OTHERS = 64

Body = dict[str, Any]
Event = dict[str, Any]
Simpler = Callable[[Body, str], Body | None]
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where requests go and with which key. `operator_headers` names the headers that the operator
    set for OpenAI itself."""

    base_url: str
    key: str = field(repr=False)
    operator_headers: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_openai(self) -> bool:
        return self.host == "api.openai.com" or self.host.endswith(".api.openai.com")

    @property
    def names(self) -> ProviderNames:
        return ProviderNames(
            label="OpenAI" if self.is_openai else f"The model server at {self.host}",
            key_variable="OPENAI_API_KEY",
            url_variable="OPENAI_BASE_URL",
        )


def account_from_environment() -> Account:
    """The account as the environment says now. A server of one's own may do without a key."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    base_url = os.environ.get("OPENAI_BASE_URL", "").strip()
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    account = Account(
        base_url=base_url or OPENAI_URL,
        key=key or ("none" if base_url else ""),
        operator_headers=tuple(line.partition(":")[0].strip() for line in lines if ":" in line),
    )
    parts = urlsplit(account.base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _misconfigured("bad_request", "OPENAI_BASE_URL is not an http or https address.")
    if not account.key:
        raise missing_key(account.names)
    if not (account.key.isascii() and account.key.isprintable()):
        raise _misconfigured("auth", "OPENAI_API_KEY holds characters that no key has.")
    return account


def _misconfigured(kind: ErrorKind, message: str) -> ProviderError:
    return ProviderError(kind=kind, message=message, hint="An admin can correct it.")


_clients: dict[tuple[asyncio.AbstractEventLoop, Account], openai.AsyncOpenAI] = {}
_clients_lock = threading.Lock()


def _client(account: Account) -> openai.AsyncOpenAI:
    """The client of this event loop: its connections fail when another loop uses them."""
    loop = asyncio.get_running_loop()
    with _clients_lock:
        for known in [known for known in _clients if known[0].is_closed()]:
            del _clients[known]
        if (loop, account) not in _clients:
            _clients[loop, account] = _new_client(account)
        return _clients[loop, account]


@functools.cache
def _tls() -> ssl.SSLContext:
    """One for the process, as the SDK would make it: each takes a twentieth of a second."""
    return httpx2.create_ssl_context()


def _new_client(account: Account) -> openai.AsyncOpenAI:
    """A client that never repeats and never follows a redirect with the key.

    The SDK sends the operator's organisation, project and own headers to whatever address it is
    given; an address that is not OpenAI's must not see them.
    """
    private = ("OpenAI-Organization", "OpenAI-Project", *account.operator_headers)
    headers: dict[str, Any] = {} if account.is_openai else dict.fromkeys(private, openai.omit)
    if not account.is_openai:
        headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {account.key}"
    # Deadlines are kept around each event by `events`, so a read of its own has none.
    timeout = openai.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
    return openai.AsyncOpenAI(
        api_key=account.key,
        base_url=account.base_url,
        max_retries=0,
        timeout=timeout,
        default_headers=headers,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=_tls(), timeout=timeout, follow_redirects=False
        ),
    )


async def events(path: str, body: Body, simpler: Simpler) -> AsyncGenerator[Event, None]:
    """The events of one streamed answer as plain dictionaries.

    `simpler` is asked when the provider does not take the request: given the body and the
    complaint, it returns a body without what was complained about, or None.
    """
    account = account_from_environment()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.MODEL_FIRST_BYTE_SECONDS
    stream = await _bounded(_open(account, path, body, simpler), deadline, account)
    count = 0
    try:
        while (event := await _bounded(_next(stream), deadline, account)) is not END:
            if isinstance(event, dict):
                yield event
            count += 1
            if count % EVENTS_BEFORE_OTHERS == 0:
                # The SDK does not yield to the loop while it has events in its buffer.
                await asyncio.sleep(0)
            deadline = loop.time() + settings.MODEL_IDLE_SECONDS
    finally:
        await stream.close()


async def drain(source: AsyncGenerator[Event, None]) -> None:
    """Read what follows the last event for a moment: a connection read to its end is used again."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in source:
                pass
    except (TimeoutError, ProviderError):
        pass


END = object()


async def _next(stream: openai.AsyncStream[object]) -> object:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return END


async def _open(
    account: Account, path: str, body: Body, simpler: Simpler
) -> openai.AsyncStream[object]:
    client = _client(account)
    while True:
        try:
            stream = await client.post(
                path,
                body=body,
                cast_to=object,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            smaller = simpler(body, f"{error.code} {error.param} {error.message}")
            if smaller is None:
                raise
            body = smaller
        else:
            await _refuse_documents(stream, account)
            return stream


async def _refuse_documents(stream: openai.AsyncStream[object], account: Account) -> None:
    """A page or a document instead of a stream: to the SDK that is an answer without events."""
    content_type = stream.response.headers.get("content-type", "").lower()
    if content_type.startswith(("text/html", "application/json")):
        await stream.close()
        raise provider_error(
            "protocol", account.names, detail=f"status 200 with content type {content_type}"
        )


async def _bounded(step: Awaitable[Outcome], deadline: float, account: Account) -> Outcome:
    try:
        async with asyncio.timeout_at(deadline):
            return await step
    except TimeoutError as error:
        raise provider_error("timeout", account.names) from error
    except (openai.OpenAIError, OSError, ValueError) as error:
        raise _translated(error, account) from error


def _translated(error: Exception, account: Account) -> ProviderError:
    detail = _own_words(error).replace(account.key, "…")
    match error:
        case openai.APITimeoutError():
            return provider_error("timeout", account.names)
        case openai.APIConnectionError():
            return provider_error("network", account.names, detail=repr(error.__cause__))
        case openai.APIStatusError() if error.status_code < 400:
            return provider_error("protocol", account.names, detail=detail)
        case openai.APIError():
            response = getattr(error, "response", None)
            status = response.status_code if response else None
            codes = tuple(code for code in (error.code, error.type) if code)
            wait = retry_after_seconds(response.headers) if response else None
            kind = classify(status, codes, detail)
            return provider_error(kind, account.names, detail=detail, retry_after=wait)
        case UnicodeEncodeError():
            return provider_error("bad_request", account.names, detail="text is not Unicode")
        case ValueError():
            return provider_error("protocol", account.names, detail=detail)
    return provider_error("network", account.names, detail=detail)


def _own_words(error: Exception) -> str:
    """What the provider said, without the page of HTML that a proxy says instead."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        return str(body.get("message") or body.get("detail") or body)
    if isinstance(body, str) and body and not body.lstrip().startswith("<"):
        return body
    return str(getattr(error, "message", "") or error)


def unfinished() -> ProviderError:
    """The stream ended without the event that ends an answer."""
    return provider_error(
        "protocol", account_from_environment().names, detail="the stream ended too early"
    )


def reported(code: str, message: str) -> ProviderError:
    """An error that came as an event of the stream."""
    kind = classify(None, (code,), message)
    return provider_error(kind, account_from_environment().names, detail=message or code)


def storable(value: object) -> str:
    """Text that every database takes: no half characters, no NUL. Anything but text is nothing."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value.replace("\0", "")
