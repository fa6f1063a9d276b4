"""The one file that knows the OpenAI SDK: a client for each account, one bounded stream of plain
events, and the SDK's errors in our own words."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import openai

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import CONNECT_SECONDS, Clients, OwnHeaders, tls
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import classify, provider_error, retry_after_seconds
from chatapp.providers.openai_listing import models_in
from chatapp.providers.reading import paced, refuse_document, within
from chatapp.providers.words import without_secrets

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0
# OpenRouter, of a model that is there and does not take what the request has.
NO_ENDPOINT = "No endpoints found that support"
EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high"}

Body = dict[str, Any]
Event = dict[str, Any]
Simpler = Callable[[Body, str], Body | None]


def _new_client(account: Account) -> openai.AsyncOpenAI:
    """A client that never repeats and never follows a redirect with the key."""
    # Deadlines are kept around each event by `paced`, so a read of its own has none.
    timeout = openai.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
    own = {"authorization": f"Bearer {account.key}"} if account.key else {}
    return openai.AsyncOpenAI(
        # Without one, the SDK looks for the operator's in the environment.
        api_key=account.key or "none",
        base_url=account.base_url or OPENAI_URL,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=tls(),
            timeout=timeout,
            follow_redirects=False,
            event_hooks={"request": [OwnHeaders(account, own)]},
        ),
    )


_clients = Clients(_new_client)


async def events(
    account: Account, path: str, body: Body, simpler: Simpler
) -> AsyncGenerator[Event, None]:
    """The events of one streamed answer as plain dictionaries.

    `simpler` is asked when the provider does not take the request: given the body and the
    complaint, it returns a body without what was complained about, or None.
    """
    reader = _Reader(account, path, body, simpler)
    async with aclosing(reader), aclosing(paced(reader.next, account, _translated)) as source:
        async for event in source:
            yield event


class _Reader:
    """One request and the stream that answers it."""

    def __init__(self, account: Account, path: str, body: Body, simpler: Simpler) -> None:
        self._account = account
        self._path = path
        self._body = body
        self._simpler = simpler
        self._stream: openai.AsyncStream[object] | None = None

    async def next(self) -> Event | None:
        """The next event, None at the end; the first sends the request."""
        stream = self._stream or await self._open()
        while (event := await anext(stream, None)) is not None:
            if isinstance(event, dict):
                return event
        return None

    async def _open(self) -> openai.AsyncStream[object]:
        client = _clients.of(self._account)
        while self._stream is None:
            try:
                self._stream = await client.post(
                    self._path,
                    body=self._body,
                    cast_to=object,
                    stream=True,
                    stream_cls=openai.AsyncStream[object],
                )
            except (
                openai.BadRequestError,
                openai.NotFoundError,
                openai.UnprocessableEntityError,
            ) as error:
                complaint = f"{error.code} {error.param} {error.message}"
                is_about_name = error.status_code == 404 and NO_ENDPOINT not in complaint
                smaller = None if is_about_name else self._simpler(self._body, complaint)
                if smaller is None:
                    raise
                self._body = smaller
        content_type = self._stream.response.headers.get("content-type", "")
        refuse_document(content_type, self._account)
        return self._stream

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.close()


def is_openai(account: Account) -> bool:
    """Whether this is OpenAI itself, which takes options that compatible servers refuse."""
    return account.host in {"", OPENAI_HOST} or account.host.endswith(f".{OPENAI_HOST}")


async def listed_models(account: Account) -> tuple[ListedModel, ...]:
    """The models that the account may use, as far as the server says."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    asking = _clients.of(account).get("/models", cast_to=object)
    answer = await within(deadline, asking, account, _translated)
    models = models_in(answer)
    if models is None:
        raise provider_error("protocol", account.names, detail="what came is no list of models")
    return models


def _translated(error: Exception, account: Account) -> ProviderError | None:
    detail = without_secrets(_own_words(error), account)
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
            codes = tuple(code for code in (error.code, error.type, _filter(error.body)) if code)
            wait = retry_after_seconds(response.headers) if response else None
            kind = classify(status, codes, detail)
            return provider_error(kind, account.names, detail=detail, retry_after=wait)
        case UnicodeEncodeError():
            return provider_error("bad_request", account.names, detail="text is not Unicode")
        case ValueError():
            return provider_error("protocol", account.names, detail=detail)
        case openai.OpenAIError() | OSError():
            return provider_error("network", account.names, detail=detail)
    return None


def _filter(body: object) -> str:
    """OpenRouter names only beside its sentence what it was that its moderation flagged."""
    match body:
        case {"metadata": {"flagged_input": _}}:
            return "content_filter"
    return ""


def _own_words(error: Exception) -> str:
    """What the provider said, without the page of HTML that a proxy says instead."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        words = str(body.get("message") or body.get("detail") or body)
        # llama.cpp names its size beside the sentence.
        return f"{words} (n_ctx: {body['n_ctx']})" if "n_ctx" in body else words
    if isinstance(body, str) and body and not body.lstrip().startswith("<"):
        return body
    return str(getattr(error, "message", "") or error)


def reported(account: Account, error: Event) -> ProviderError:
    """An error that came as an event of the stream."""
    code = str(error.get("code") or "")
    message = without_secrets(str(error.get("message") or ""), account)
    kind = classify(None, (code,), message)
    return provider_error(kind, account.names, detail=message or code)
