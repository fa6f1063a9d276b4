"""The only file that imports Anthropic's SDK: clients, one streamed answer, and its errors."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2

from chatapp.providers.account import Account
from chatapp.providers.connections import Clients, OwnHeaders
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import classify, missing_key_error, provider_error, read_retry_after
from chatapp.providers.http_client import TIMEOUT, create_http_client, post_stream
from chatapp.providers.refusals import Simplify
from chatapp.providers.server_sent_events import EventReader, SentEvent
from chatapp.providers.stream_reading import read_events, refuse_document, run_step

ANTHROPIC_URL = "https://api.anthropic.com"
VERSION = {"anthropic-version": "2023-06-01"}
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0
MAX_PAGES = 10
# A server that is still working sends a ping every few seconds. One that sends only pings for
# minutes does not work on an answer.
MAX_PINGS = 60

Body = dict[str, Any]
Event = dict[str, Any]


def _new_client(account: Account) -> anthropic.AsyncAnthropic:
    """Return a client that never retries, traces, or follows a redirect with the key."""
    own = {"authorization": f"Bearer {account.key}"} if account.key else {}
    hook = OwnHeaders(account, own, kept=frozenset({"anthropic-version"}))
    return anthropic.AsyncAnthropic(
        # Without a key, the SDK reads the operator's from the environment and the disk.
        api_key=account.key or "none",
        base_url=(account.base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1"),
        max_retries=0,
        timeout=TIMEOUT,
        open_telemetry=False,
        http_client=create_http_client([hook]),
    )


_clients = Clients(_new_client)


def _get_client(account: Account) -> anthropic.AsyncAnthropic:
    if not (account.key or account.base_url):
        raise missing_key_error(account.names)
    return _clients.get(account)


def stream_events(account: Account, body: Body, simplify: Simplify) -> AsyncGenerator[Event, None]:
    """Yield the events of one streamed answer as plain dictionaries.

    When the provider refuses the request, `simplify` gets the body and the complaint. It returns a
    body without the cause, or None.
    """
    return read_events(_Reader(account, body, simplify), account, _translate_error)


class _Reader:
    """One request and the stream of its answer.

    The SDK's own reader hides the pings, which show that the server is alive, and drops the events
    of gateways that have no name beside the data.
    """

    def __init__(self, account: Account, body: Body, simplify: Simplify) -> None:
        self._account = account
        self._body = body
        self._simplify = simplify
        self._response: httpx2.Response | None = None
        self._source: EventReader | None = None
        self._pings = 0

    async def next(self) -> list[SentEvent]:
        if self._source is None:
            self._source = EventReader((await self._open_stream()).aiter_bytes())
        return await self._source.next()

    def parse(self, sent: SentEvent) -> Event | None:
        name, data = sent
        event = json.loads(data) if data else {}
        if not isinstance(event, dict):
            return None
        event = {"type": name, **event}
        if event["type"] == "error":
            raise _build_stream_error(event.get("error"), self._account)
        self._pings = self._pings + 1 if event["type"] == "ping" else 0
        if self._pings > MAX_PINGS:
            raise provider_error("timeout", self._account.names, detail="nothing but pings")
        return None if self._pings else event

    async def _open_stream(self) -> httpx2.Response:
        client = _get_client(self._account)
        while self._response is None:
            try:
                self._response = await post_stream(
                    client, "/v1/messages", self._body, headers=VERSION
                )
            except (anthropic.BadRequestError, anthropic.UnprocessableEntityError) as error:
                smaller = self._simplify(self._body, _read_message(error))
                if smaller is None:
                    raise
                self._body = smaller
        refuse_document(self._response.headers.get("content-type", ""), self._account)
        return self._response

    async def aclose(self) -> None:
        if self._source is not None:
            await self._source.aclose()
        if self._response is not None:
            await self._response.aclose()


async def fetch_models(account: Account) -> list[dict[str, Any]]:
    """Return the rows of the list of models, page by page."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    rows: list[dict[str, Any]] = []
    query: dict[str, object] = {"limit": 1000}
    for _ in range(MAX_PAGES):
        page = await run_step(deadline, _fetch_page(account, query), account, _translate_error)
        rows += [row for row in page["data"] if isinstance(row, dict)]
        if not page.get("has_more") or not page.get("last_id"):
            break
        query["after_id"] = page["last_id"]
    return rows


async def _fetch_page(account: Account, query: dict[str, object]) -> dict[str, Any]:
    page = await _get_client(account).get("/v1/models", cast_to=object, options={"params": query})
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise ValueError("the response is not a list of models")
    return page


def _translate_error(error: Exception, account: Account) -> ProviderError | None:
    """Translate an error of the SDK. Inside a stream, errors of the transport are not wrapped."""
    detail = account.mask_secrets(_read_message(error))
    match error:
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return provider_error("timeout", account.names)
        case anthropic.APIConnectionError():
            return provider_error("network", account.names, detail=repr(error.__cause__))
        case anthropic.APIStatusError() if error.status_code >= 400:
            codes = tuple(code for code in (error.error_code, error.type) if code)
            wait = read_retry_after(error.response.headers)
            kind = classify(error.status_code, codes, detail)
            return provider_error(kind, account.names, detail=detail, retry_after=wait)
        case UnicodeEncodeError():
            return provider_error("bad_request", account.names, detail="text is not Unicode")
        case anthropic.AnthropicError() | httpx2.DecodingError() | ValueError():
            return provider_error("protocol", account.names, detail=detail)
        case httpx2.HTTPError() | OSError():
            return provider_error("network", account.names, detail=detail)
    return None


def _read_message(error: Exception) -> str:
    """Return the provider's message, without the HTML page of a proxy."""
    body = getattr(error, "body", None)
    match body:
        case {"error": {"message": str(message)}} | {"message": str(message)} if message:
            return message
        case dict() | list():
            return json.dumps(body, ensure_ascii=False)
        case str() if body and not body.lstrip().startswith("<"):
            return body
    return str(getattr(error, "message", "") or error)


def _build_stream_error(error: object, account: Account) -> ProviderError:
    """Return the error of an event in the stream."""
    error = error if isinstance(error, dict) else {}
    details = error.get("details")
    known = details.get("error_code") if isinstance(details, dict) else None
    codes = tuple(str(code) for code in (known, error.get("type")) if code)
    words = account.mask_secrets(str(error.get("message") or ""))
    kind = classify(None, codes, words)
    return provider_error(kind, account.names, detail=words or " ".join(codes))
