"""The only file that imports Google's SDK: clients, one streamed answer, and its errors."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from typing import Any, cast

import httpx2
from google import genai
from google.genai import errors, types

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import CONNECT_SECONDS, Clients, OwnHeaders, get_tls_context
from chatapp.providers.embeddings import EMBED_SECONDS
from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import classify, missing_key_error, provider_error, read_retry_after
from chatapp.providers.http_client import create_http_client
from chatapp.providers.refusals import Simplify
from chatapp.providers.server_sent_events import EventReader, SentEvent
from chatapp.providers.stream_reading import read_events, refuse_document, run_step

GOOGLE_URL = "https://generativelanguage.googleapis.com/"
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0

Body = dict[str, Any]
Chunk = dict[str, Any]
# The fields of a part that is only text.
PLAIN = {"text", "thought"}

_current: ContextVar["_Stream | None"] = ContextVar("asking", default=None)


def _new_client(account: Account) -> genai.Client:
    """Return a client that never retries and never follows a redirect with the key.

    The SDK gets no deadline, because it would send it to Google as a limit for the whole answer.
    With HTTP clients given, it does not use another library that is installed. Without an address,
    it would read one from the environment.
    """
    own = OwnHeaders(account, {"x-goog-api-key": account.key})
    base_url, version = _split_version(account.base_url)
    return genai.Client(
        api_key=account.key,
        enterprise=False,
        http_options=types.HttpOptions(
            base_url=base_url,
            api_version=version,
            httpx_client=httpx2.Client(verify=get_tls_context()),
            httpx_async_client=create_http_client([own, _limit_connecting], [_keep_response]),
        ),
    )


def _split_version(base_url: str) -> tuple[str, str | None]:
    """Return the address, and the version of the API in it, which the SDK adds itself."""
    found = re.fullmatch(r"(.+?)(?:/(v\d\w*))?/?", base_url or GOOGLE_URL)
    return (found[1], found[2]) if found else (base_url, None)


_clients = Clients(_new_client)


def _get_client(account: Account) -> genai.Client:
    if not account.key:
        # The SDK would use a key of the operator's environment.
        raise missing_key_error(account.names)
    return _clients.get(account)


async def _limit_connecting(request: httpx2.Request) -> None:
    """Set the deadline for connecting. `read_events` has the deadlines for reading."""
    request.extensions["timeout"] = dict.fromkeys(("connect", "pool"), CONNECT_SECONDS)


async def _keep_response(response: httpx2.Response) -> None:
    answer = _current.get()
    if answer is not None:
        answer.keep_response(response)


def stream_chunks(account: Account, body: Body, simplify: Simplify) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of one streamed answer.

    When the provider refuses the request, `simplify` gets the body and the complaint. It returns a
    body without the cause, or None.
    """
    return read_events(_Stream(account, body, simplify), account, _translate_error)


class _NoBytes(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: tuple[bytes, ...] = ()
        for piece in pieces:
            yield piece


class _Stream:
    """One request and the stream of its answer.

    The SDK sends the request and raises its errors, but gets an empty body: with its own reader a
    chunk costs five times as much, and an iterator that is left holds the connection until the next
    garbage collection.
    """

    def __init__(self, account: Account, body: Body, simplify: Simplify) -> None:
        self._account = account
        self._body = body
        self._simplify = simplify
        self._response: httpx2.Response | None = None
        self._source: EventReader | None = None

    async def next(self) -> list[SentEvent]:
        if self._source is None:
            self._source = EventReader((await self._open()).aiter_bytes(), keeps_last=True)
        sent = await self._source.next()
        if not sent and self._source.others:
            # Google also sends an error without the form of an event.
            sent = [("", "\n".join(self._source.others))]
            self._source.others.clear()
        return sent

    def parse(self, sent: SentEvent) -> Chunk | None:
        """Return the chunk as JSON, in which parts that are not only text are of the SDK's type."""
        _name, data = sent
        if not data:
            return None
        chunk: Chunk = json.loads(data)
        if "error" in chunk:
            code = chunk["error"]["code"]
            raise errors.APIError(code, chunk, self._response)
        for candidate in (chunk.get("candidates") or [])[:1]:
            content = candidate.get("content") or {}
            content["parts"] = [
                part if part.keys() <= PLAIN else _read_part(part)
                for part in content.get("parts") or ()
            ]
        return chunk

    async def _open(self) -> httpx2.Response:
        client = _get_client(self._account)
        while True:
            try:
                return await self._send(client)
            except errors.ClientError as error:
                smaller = self._simplify(self._body, f"{error.status} {error.message}")
                if error.code != 400 or smaller is None:
                    raise
                await self.aclose()
                self._body = smaller

    async def _send(self, client: genai.Client) -> httpx2.Response:
        """Send the request, which the SDK does for the first chunk."""
        try:
            chunks = await _open_stream(client, self._body)
        except ValueError as error:
            raise answer_error(self._account, "bad_request", str(error)) from error
        token = _current.set(self)
        try:
            await anext(chunks, None)
        finally:
            _current.reset(token)
            await chunks.aclose()
        if self._response is None:
            raise ValueError("the SDK sent no request")
        return self._response

    def keep_response(self, response: httpx2.Response) -> None:
        self._response = response
        if response.status_code != httpx2.codes.OK:
            return
        refuse_document(response.headers.get("content-type", ""), self._account)
        self._response = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            request=response.request,
        )
        response.stream = _NoBytes()

    async def aclose(self) -> None:
        if self._source is not None:
            await self._source.aclose()
        if self._response is not None:
            await self._response.aclose()


def _read_part(part: dict[str, object]) -> types.Part:
    """Read a part as the SDK does, which leaves out fields that it does not know."""
    return types.Part._from_response(response=part, kwargs={})


async def _open_stream(client: genai.Client, body: Body) -> AsyncGenerator[object, None]:
    source = await client.aio.models.generate_content_stream(
        model=body["model"],
        contents=[_build_content(each) for each in body["contents"]],
        config=types.GenerateContentConfig(
            **body["config"],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        ),
    )
    return cast(AsyncGenerator[object, None], source)


def _build_content(content: dict[str, Any]) -> types.Content:
    """Build the content from JSON, where bytes are base64."""
    return types.Content.model_validate_json(json.dumps(content))


async def list_models(account: Account) -> tuple[ListedModel, ...]:
    """Return the models for chats, with their sizes."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    return await run_step(deadline, _fetch_models(account), account, _translate_error)


async def _fetch_models(account: Account) -> tuple[ListedModel, ...]:
    client = _get_client(account)
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


async def embed_texts(
    account: Account, model: str, texts: list[str], *, task: str | None, dimensions: int | None
) -> tuple[list[object], int]:
    """Return a vector for each text, and the tokens that Google counted or 0."""
    deadline = asyncio.get_running_loop().time() + EMBED_SECONDS
    # Newer models would join plain texts into one content, with one vector.
    contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
    asking = _get_client(account).aio.models.embed_content(
        model=model,
        contents=contents,
        config=types.EmbedContentConfig(task_type=task, output_dimensionality=dimensions),
    )
    answer = await run_step(deadline, asking, account, _translate_error)
    usage = answer.usage_metadata
    tokens = (usage.prompt_token_count if usage else None) or 0
    return [each.values for each in answer.embeddings or ()], tokens


def _translate_error(error: Exception, account: Account) -> ProviderError | None:
    match error:
        case errors.APIError():
            return _build_error(error, account)
        case httpx2.TimeoutException():
            return provider_error("timeout", account.names)
        case httpx2.HTTPError() | OSError():
            kind: ErrorKind = "network"
        case ValueError() | TypeError() | AttributeError() | KeyError():
            # Errors of the SDK for malformed chunks.
            kind = "protocol"
        case _:
            return None
    return provider_error(kind, account.names, detail=account.mask_secrets(repr(error)))


def _build_error(error: errors.APIError, account: Account) -> ProviderError:
    words = str(error.message or error.details or "")
    detail = "a page" if words.lstrip().startswith("<") else account.mask_secrets(words)
    details = _read_details(error)
    kind = _classify(error, detail, details)
    wait = read_retry_after(getattr(error.response, "headers", None) or {})
    if wait is None:
        wait = next(filter(None, map(_read_delay, details)), None)
    return provider_error(kind, account.names, detail=detail, retry_after=wait)


def _read_details(error: errors.APIError) -> list[dict[str, Any]]:
    match error.details:
        case {"error": {"details": list(found)}}:
            return [each for each in found if isinstance(each, dict)]
    return []


def _classify(error: errors.APIError, words: str, details: list[dict[str, Any]]) -> ErrorKind:
    status = error.code if isinstance(error.code, int) else None
    if status is not None and status < 400:
        return "protocol"
    if any(each.get("reason") == "API_KEY_INVALID" for each in details):
        return "auth"
    if status == 429:
        # The sentence is about the quota in both cases.
        return "quota" if "PerDay" in json.dumps(details) else "rate_limit"
    return classify(status, (str(error.status),), words)


def _read_delay(detail: dict[str, Any]) -> float | None:
    """Return the wait in seconds of a detail such as `{"retryDelay": "14s"}`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)s", str(detail.get("retryDelay")))
    return float(found[1]) if found else None


def answer_error(account: Account, kind: ErrorKind, detail: str) -> ProviderError:
    """Return the error of an answer that reports a failure."""
    return provider_error(kind, account.names, detail=detail)
