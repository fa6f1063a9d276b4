"""The one file that knows Google's SDK: a client for each account, one bounded stream of chunks,
and the SDK's errors in our own words."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, cast

import httpx2
from google import genai
from google.genai import errors, types

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import CONNECT_SECONDS, Clients, OwnHeaders, tls
from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import (
    classify,
    missing_key,
    provider_error,
    retry_after_seconds,
)
from chatapp.providers.reading import paced, refuse_document, within
from chatapp.providers.words import without_secrets

GOOGLE_URL = "https://generativelanguage.googleapis.com/"
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0

Body = dict[str, Any]
Chunk = types.GenerateContentResponse
Simpler = Callable[[Body, str], Body | None]

_asking: ContextVar["_Answer | None"] = ContextVar("asking", default=None)


def _new_client(account: Account) -> genai.Client:
    """A client that never repeats and never follows a redirect with the key.

    The SDK sets no deadline of its own: one would also be sent to Google as a limit for the whole
    answer. With its own HTTP clients given, it never turns to another library that happens to be
    installed. The address is always named, or the operator's environment would choose it.
    """
    own = OwnHeaders(account, {"x-goog-api-key": account.key})
    hooks: list[Callable[..., Any]] = [own, _limit_connecting]
    base_url, version = _parted(account.base_url)
    return genai.Client(
        api_key=account.key,
        enterprise=False,
        http_options=types.HttpOptions(
            base_url=base_url,
            api_version=version,
            httpx_client=httpx2.Client(verify=tls()),
            httpx_async_client=httpx2.AsyncClient(
                verify=tls(),
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
                event_hooks={"request": hooks, "response": [_note]},
            ),
        ),
    )


def _parted(base_url: str) -> tuple[str, str | None]:
    """The address and, where it names one, the version of the API, which the SDK adds itself."""
    found = re.fullmatch(r"(.+?)(?:/(v\d\w*))?/?", base_url or GOOGLE_URL)
    return (found[1], found[2]) if found else (base_url, None)


_clients = Clients(_new_client)


def _client(account: Account) -> genai.Client:
    if not account.key:
        # The SDK would take a key of the operator's environment instead.
        raise missing_key(account.names)
    return _clients.of(account)


async def _limit_connecting(request: httpx2.Request) -> None:
    """Deadlines are kept around each event by `paced`; only connecting has one of its own."""
    request.extensions["timeout"] = dict.fromkeys(("connect", "pool"), CONNECT_SECONDS)


async def _note(response: httpx2.Response) -> None:
    answer = _asking.get()
    if answer is not None:
        answer.begins_with(response)


async def chunks(account: Account, body: Body, simpler: Simpler) -> AsyncGenerator[Chunk, None]:
    """The chunks of one streamed answer.

    `simpler` is asked when the provider does not take the request: given the body and the
    complaint, it returns a body without what was complained about, or None.
    """
    answer = _Answer(account, body, simpler)
    try:
        async with aclosing(paced(answer.next, account, _translated)) as source:
            async for chunk in source:
                yield chunk
    finally:
        await answer.close()


class _Answer:
    """The SDK's iterator and the response below it.

    Closing the iterator is not enough: between two chunks the SDK keeps the response in a cycle of
    references, so that the connection would stay open until the garbage collector comes.
    """

    def __init__(self, account: Account, body: Body, simpler: Simpler) -> None:
        self._account = account
        self._body = body
        self._simpler = simpler
        self._source: AsyncGenerator[Chunk, None] | None = None
        self._response: httpx2.Response | None = None

    async def next(self) -> Chunk | None:
        if self._source is not None:
            return await anext(self._source, None)
        client = _client(self._account)
        while True:
            try:
                return await self._begin(client)
            except errors.ClientError as error:
                smaller = self._simpler(self._body, f"{error.status} {error.message}")
                if error.code != 400 or smaller is None:
                    raise
                await self.close()
                self._body = smaller

    async def _begin(self, client: genai.Client) -> Chunk | None:
        """Send the request, which the SDK does for the first chunk."""
        try:
            self._source = await _asked(client, self._body)
        except ValueError as error:
            raise failed(self._account, "bad_request", str(error)) from error
        token = _asking.set(self)
        try:
            return await anext(self._source, None)
        finally:
            _asking.reset(token)

    def begins_with(self, response: httpx2.Response) -> None:
        self._response = response
        if response.status_code == httpx2.codes.OK:
            refuse_document(response.headers.get("content-type", ""), self._account)

    async def close(self) -> None:
        if self._source is not None:
            await self._source.aclose()
        if self._response is not None:
            await self._response.aclose()


async def _asked(client: genai.Client, body: Body) -> AsyncGenerator[Chunk, None]:
    source = await client.aio.models.generate_content_stream(
        model=body["model"],
        contents=[_content(each) for each in body["contents"]],
        config=types.GenerateContentConfig(
            **body["config"],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        ),
    )
    return cast(AsyncGenerator[Chunk, None], source)


def _content(content: dict[str, Any]) -> types.Content:
    """From JSON, where bytes are base64."""
    return types.Content.model_validate_json(json.dumps(content))


async def listed_models(account: Account) -> tuple[ListedModel, ...]:
    """The models that answer in a chat, with their sizes."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    return await within(deadline, _listed(account), account, _translated)


async def _listed(account: Account) -> tuple[ListedModel, ...]:
    client = _client(account)
    found = [model async for model in await client.aio.models.list()]
    return tuple(
        ListedModel(
            name=(model.name or "").removeprefix("models/"),
            label=model.display_name or "",
            context_tokens=model.input_token_limit,
            output_tokens=model.output_token_limit,
            reasons=model.thinking,
        )
        for model in found
        if "generateContent" in (model.supported_actions or ["generateContent"])
    )


def _translated(error: Exception, account: Account) -> ProviderError | None:
    match error:
        case errors.APIError():
            return _refused(error, account)
        case httpx2.TimeoutException():
            return provider_error("timeout", account.names)
        case httpx2.HTTPError() | OSError():
            kind: ErrorKind = "network"
        case ValueError() | TypeError() | AttributeError() | KeyError():
            # What the SDK makes of chunks that are none.
            kind = "protocol"
        case _:
            return None
    return provider_error(kind, account.names, detail=without_secrets(repr(error), account))


def _refused(error: errors.APIError, account: Account) -> ProviderError:
    words = str(error.message or error.details or "")
    detail = "a page" if words.lstrip().startswith("<") else without_secrets(words, account)
    details = _details(error)
    kind = _kind(error, detail, details)
    wait = retry_after_seconds(getattr(error.response, "headers", None) or {})
    if wait is None:
        wait = next(filter(None, map(_delay, details)), None)
    return provider_error(kind, account.names, detail=detail, retry_after=wait)


def _details(error: errors.APIError) -> list[dict[str, Any]]:
    match error.details:
        case {"error": {"details": list(found)}}:
            return [each for each in found if isinstance(each, dict)]
    return []


def _kind(error: errors.APIError, words: str, details: list[dict[str, Any]]) -> ErrorKind:
    status = error.code if isinstance(error.code, int) else None
    if status is not None and status < 400:
        return "protocol"
    if any(each.get("reason") == "API_KEY_INVALID" for each in details):
        return "auth"
    if status == 429:
        # Its sentence speaks of the quota in either case.
        return "quota" if "PerDay" in json.dumps(details) else "rate_limit"
    return classify(status, (str(error.status),), words)


def _delay(detail: dict[str, Any]) -> float | None:
    """The wait in seconds of a detail such as `{"retryDelay": "14s"}`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)s", str(detail.get("retryDelay")))
    return float(found[1]) if found else None


def failed(account: Account, kind: ErrorKind, detail: str) -> ProviderError:
    """The answer itself says that it failed, or never says that it ended."""
    return provider_error(kind, account.names, detail=detail)
