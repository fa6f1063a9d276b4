"""The only file that imports OpenAI's SDK: clients, one streamed answer, models, and its errors."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import Clients, OwnHeaders
from chatapp.providers.embeddings import EMBED_SECONDS
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import classify, provider_error, read_retry_after
from chatapp.providers.http_client import TIMEOUT, create_http_client, post_stream
from chatapp.providers.refusals import Simplify, is_llama_cpp_refusal
from chatapp.providers.server_sent_events import EventReader, SentEvent
from chatapp.providers.stream_reading import read_events, refuse_document, run_step

from .listing import read_models

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0
END = "[DONE]"
# OpenRouter's error for a model that exists and does not support the request.
NO_ENDPOINT = "No endpoints found that support"
EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high"}

Body = dict[str, Any]
Event = dict[str, Any]


def _new_client(account: Account) -> openai.AsyncOpenAI:
    """Return a client that never retries and never follows a redirect with the key."""
    own = {"authorization": f"Bearer {account.key}"} if account.key else {}
    return openai.AsyncOpenAI(
        # Without a key, the SDK reads the operator's from the environment.
        api_key=account.key or "none",
        base_url=account.base_url or OPENAI_URL,
        max_retries=0,
        timeout=TIMEOUT,
        http_client=create_http_client([OwnHeaders(account, own)]),
    )


_clients = Clients(_new_client)


def stream_events(
    account: Account, path: str, body: Body, simplify: Simplify
) -> AsyncGenerator[Event, None]:
    """Yield the events of one streamed answer as plain dictionaries.

    When the provider refuses the request, `simplify` gets the body and the complaint. It returns a
    body without the cause, or None.
    """
    return read_events(_Reader(account, path, body, simplify), account, _translate_error)


class _Reader:
    """One request and the stream of its answer.

    The errors are the SDK's. Its own reader makes an event cost twice as much.
    """

    def __init__(self, account: Account, path: str, body: Body, simplify: Simplify) -> None:
        self._account = account
        self._path = path
        self._body = body
        self._simplify = simplify
        self._response: httpx2.Response | None = None
        self._source: EventReader | None = None
        self._is_done = False

    async def next(self) -> list[SentEvent]:
        if self._source is None:
            self._source = EventReader((await self._open_stream()).aiter_bytes())
        if self._is_done:
            await self._read_to_end(self._source)
            return []
        return await self._source.next()

    def parse(self, sent: SentEvent) -> Event | None:
        _name, data = sent
        if data.startswith(END):
            self._is_done = True
        if self._is_done or not data:
            return None
        event = json.loads(data)
        if not isinstance(event, dict):
            return None
        if self._response is not None and (error := event.get("error")):
            message = error.get("message") if isinstance(error, dict) else error
            raise openai.APIError(str(message or ""), self._response.request, body=error)
        return event

    async def _read_to_end(self, source: EventReader) -> None:
        """Read what follows the mark of the end, so that the connection can be used again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while await source.next():
                    pass

    async def _open_stream(self) -> httpx2.Response:
        client = _clients.get(self._account)
        while self._response is None:
            try:
                self._response = await post_stream(client, self._path, self._body, headers={})
            except (
                openai.BadRequestError,
                openai.NotFoundError,
                openai.UnprocessableEntityError,
                openai.InternalServerError,
            ) as error:
                complaint = f"{error.code} {error.param} {error.message}"
                if not is_refusal(error.status_code, complaint, self._account):
                    raise
                smaller = self._simplify(self._body, complaint)
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


def is_refusal(status: int, complaint: str, account: Account) -> bool:
    """Whether the server refuses this request, and may accept a simpler one."""
    if status == 404:  # otherwise there is no such model
        return NO_ENDPOINT in complaint
    if status < 500:
        return True
    return status in {500, 501} and not is_openai(account) and is_llama_cpp_refusal(complaint)


def is_openai(account: Account) -> bool:
    """Whether this is OpenAI itself, which takes options that compatible servers refuse."""
    return account.host in {"", OPENAI_HOST} or account.host.endswith(f".{OPENAI_HOST}")


async def list_models(account: Account) -> tuple[ListedModel, ...]:
    """Return the models that the server lists for this account."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    asking = _clients.get(account).get("/models", cast_to=object)
    answer = await run_step(deadline, asking, account, _translate_error)
    models = read_models(answer)
    if models is None:
        raise provider_error(
            "protocol", account.names, detail="the response is not a list of models"
        )
    return tuple(sorted(models, key=lambda model: model.name))


async def post_json(account: Account, path: str, body: Body) -> object:
    """Return what the server answers to a request that is no stream, as JSON."""
    deadline = asyncio.get_running_loop().time() + EMBED_SECONDS
    asking = _clients.get(account).post(path, cast_to=object, body=body)
    return await run_step(deadline, asking, account, _translate_error)


def _translate_error(error: Exception, account: Account) -> ProviderError | None:
    """Translate an error of the SDK, or inside a stream of the transport."""
    detail = account.mask_secrets(_read_message(error))
    match error:
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return provider_error("timeout", account.names)
        case httpx2.HTTPError():
            return provider_error("network", account.names, detail=repr(error))
        case openai.APIConnectionError():
            return provider_error("network", account.names, detail=repr(error.__cause__))
        case openai.APIStatusError() if error.status_code < 400:
            return provider_error("protocol", account.names, detail=detail)
        case openai.APIError():
            response = getattr(error, "response", None)
            status = response.status_code if response else None
            codes = tuple(
                code for code in (error.code, error.type, _read_filter_code(error.body)) if code
            )
            wait = read_retry_after(response.headers) if response else None
            kind = classify(status, codes, detail)
            return provider_error(kind, account.names, detail=detail, retry_after=wait)
        case UnicodeEncodeError():
            return provider_error("bad_request", account.names, detail="text is not Unicode")
        case ValueError():
            return provider_error("protocol", account.names, detail=detail)
        case openai.OpenAIError() | OSError():
            return provider_error("network", account.names, detail=detail)
    return None


def _read_filter_code(body: object) -> str:
    """Return a code for the moderation of OpenRouter, which has none in its error."""
    match body:
        case {"metadata": {"flagged_input": _}}:
            return "content_filter"
    return ""


def _read_message(error: Exception) -> str:
    """Return the provider's message, without the HTML page of a proxy."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        words = str(body.get("message") or body.get("detail") or body)
        # llama.cpp has the size in a field of its own.
        return f"{words} (n_ctx: {body['n_ctx']})" if "n_ctx" in body else words
    if isinstance(body, str) and body and not body.lstrip().startswith("<"):
        return body
    return str(getattr(error, "message", "") or error)


def stream_error(account: Account, error: Event) -> ProviderError:
    """Return the error of an event in the stream."""
    code = str(error.get("code") or "")
    message = account.mask_secrets(str(error.get("message") or ""))
    kind = classify(None, (code,), message)
    return provider_error(kind, account.names, detail=message or code)
