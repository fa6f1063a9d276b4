"""The one file that knows Anthropic's SDK: a client for each account, one bounded stream of plain
events, and the SDK's errors in our own words."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anthropic
import httpx2

from chatapp.providers.account import Account
from chatapp.providers.connections import CONNECT_SECONDS, Clients, OwnHeaders, tls
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import (
    classify,
    missing_key,
    provider_error,
    retry_after_seconds,
)
from chatapp.providers.reading import paced, refuse_document, within
from chatapp.providers.words import without_secrets

ANTHROPIC_URL = "https://api.anthropic.com"
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0
MOST_PAGES = 10
# A server that has nothing to say yet says so every few seconds. One that does nothing else for
# minutes is not working on an answer.
MOST_PINGS = 60

Body = dict[str, Any]
Event = dict[str, Any]
Simpler = Callable[[Body, str], Body | None]
Stream = anthropic.AsyncStream[object]


def _new_client(account: Account) -> anthropic.AsyncAnthropic:
    """A client that never repeats, never traces and never follows a redirect with the key."""
    # Deadlines are kept around each event by `paced`, so a read of its own has none.
    timeout = anthropic.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
    own = {"authorization": f"Bearer {account.key}"} if account.key else {}
    hook = OwnHeaders(account, own, kept=frozenset({"anthropic-version"}))
    return anthropic.AsyncAnthropic(
        # Without one, the SDK looks for the operator's in the environment and on the disk.
        api_key=account.key or "none",
        base_url=(account.base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1"),
        max_retries=0,
        timeout=timeout,
        open_telemetry=False,
        http_client=anthropic.DefaultAsyncHttpxClient(
            verify=tls(), timeout=timeout, follow_redirects=False, event_hooks={"request": [hook]}
        ),
    )


_clients = Clients(_new_client)


def _client(account: Account) -> anthropic.AsyncAnthropic:
    if not (account.key or account.base_url):
        raise missing_key(account.names)
    return _clients.of(account)


async def events(account: Account, body: Body, simpler: Simpler) -> AsyncGenerator[Event, None]:
    """The events of one streamed answer as plain dictionaries.

    `simpler` is asked when the provider does not take the request: given the body and the
    complaint, it returns a body without what was complained about, or None.
    """
    pings = 0
    reader = _Reader(account, body, simpler)
    async with aclosing(reader), aclosing(paced(reader.next, account, _translated)) as source:
        async for event in source:
            pings = pings + 1 if event["type"] == "ping" else 0
            if pings > MOST_PINGS:
                raise provider_error("timeout", account.names, detail="nothing but pings")
            if not pings:
                yield event


class _Reader:
    """One request and the stream that answers it."""

    def __init__(self, account: Account, body: Body, simpler: Simpler) -> None:
        self._account = account
        self._body = body
        self._simpler = simpler
        self._stream: Stream | None = None
        self._source: AsyncIterator[Any] | None = None

    async def next(self) -> Event | None:
        """The next event, None at the end; the first sends the request.

        The SDK's own reader would hide the pings, which show that the server is alive, and drop
        what gateways send without the event's name beside the data.
        """
        if self._source is None:
            self._source = await self._open()
        async for sent in self._source:
            event = json.loads(sent.data) if sent.data else {}
            if isinstance(event, dict):
                return _without_error({"type": sent.event, **event}, self._account)
        return None

    async def _open(self) -> AsyncIterator[Any]:
        client = _client(self._account)
        while self._stream is None:
            try:
                self._stream = await client.post(
                    "/v1/messages", body=self._body, cast_to=object, stream=True, stream_cls=Stream
                )
            except (anthropic.BadRequestError, anthropic.UnprocessableEntityError) as error:
                smaller = self._simpler(self._body, _own_words(error))
                if smaller is None:
                    raise
                self._body = smaller
        response = self._stream.response
        refuse_document(response.headers.get("content-type", ""), self._account)
        return Stream.raw_events(response)

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.close()


async def model_rows(account: Account) -> list[dict[str, Any]]:
    """What the provider says of each model, page by page."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    rows: list[dict[str, Any]] = []
    query: dict[str, object] = {"limit": 1000}
    for _ in range(MOST_PAGES):
        page = await within(deadline, _page(account, query), account, _translated)
        rows += [row for row in page["data"] if isinstance(row, dict)]
        if not page.get("has_more") or not page.get("last_id"):
            break
        query["after_id"] = page["last_id"]
    return rows


async def _page(account: Account, query: dict[str, object]) -> dict[str, Any]:
    page = await _client(account).get("/v1/models", cast_to=object, options={"params": query})
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise ValueError("what came is no list of models")
    return page


def _translated(error: Exception, account: Account) -> ProviderError | None:
    """Inside a stream the errors of the transport come as they are."""
    detail = without_secrets(_own_words(error), account)
    match error:
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return provider_error("timeout", account.names)
        case anthropic.APIConnectionError():
            return provider_error("network", account.names, detail=repr(error.__cause__))
        case anthropic.APIStatusError() if error.status_code >= 400:
            codes = tuple(code for code in (error.error_code, error.type) if code)
            wait = retry_after_seconds(error.response.headers)
            kind = classify(error.status_code, codes, detail)
            return provider_error(kind, account.names, detail=detail, retry_after=wait)
        case UnicodeEncodeError():
            return provider_error("bad_request", account.names, detail="text is not Unicode")
        case anthropic.AnthropicError() | httpx2.DecodingError() | ValueError():
            return provider_error("protocol", account.names, detail=detail)
        case httpx2.HTTPError() | OSError():
            return provider_error("network", account.names, detail=detail)
    return None


def _own_words(error: Exception) -> str:
    """What the provider said, without the page of HTML that a proxy says instead."""
    body = getattr(error, "body", None)
    match body:
        case {"error": {"message": str(message)}} | {"message": str(message)} if message:
            return message
        case dict() | list():
            return json.dumps(body, ensure_ascii=False)
        case str() if body and not body.lstrip().startswith("<"):
            return body
    return str(getattr(error, "message", "") or error)


def _without_error(event: Event, account: Account) -> Event:
    """The event, unless it says that the answer failed."""
    if event["type"] != "error":
        return event
    error = event.get("error")
    error = error if isinstance(error, dict) else {}
    details = error.get("details")
    known = details.get("error_code") if isinstance(details, dict) else None
    codes = tuple(str(code) for code in (known, error.get("type")) if code)
    words = without_secrets(str(error.get("message") or ""), account)
    kind = classify(None, codes, words)
    raise provider_error(kind, account.names, detail=words or " ".join(codes))
