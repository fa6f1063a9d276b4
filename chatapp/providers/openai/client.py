"""The only file that imports OpenAI's SDK: clients, one streamed answer, models, and its errors."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import openai

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import CONNECT_SECONDS, Clients, OwnHeaders, get_tls_context
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import classify, provider_error, read_retry_after
from chatapp.providers.refusals import Simplify
from chatapp.providers.stream_reading import read_events, refuse_document, run_step

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
DRAIN_SECONDS = 0.2
LIST_SECONDS = 20.0
# OpenRouter's error for a model that exists and does not support the request.
NO_ENDPOINT = "No endpoints found that support"
# OpenAI lists all of its models at one address, not only those for chats.
NOT_FOR_CHAT = (
    *("embed", "whisper", "tts-", "-tts", "dall-e", "moderation", "transcribe", "realtime"),
    *("-image", "sora", "davinci-002", "babbage-002", "rerank", "gpt-audio", "-audio-"),
)
EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high"}

Body = dict[str, Any]
Event = dict[str, Any]


def _new_client(account: Account) -> openai.AsyncOpenAI:
    """Return a client that never retries and never follows a redirect with the key."""
    # `read_events` has a deadline for each event, so that the client needs none for reads.
    timeout = openai.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
    own = {"authorization": f"Bearer {account.key}"} if account.key else {}
    return openai.AsyncOpenAI(
        # Without a key, the SDK reads the operator's from the environment.
        api_key=account.key or "none",
        base_url=account.base_url or OPENAI_URL,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=get_tls_context(),
            timeout=timeout,
            follow_redirects=False,
            event_hooks={"request": [OwnHeaders(account, own)]},
        ),
    )


_clients = Clients(_new_client)


async def stream_events(
    account: Account, path: str, body: Body, simplify: Simplify
) -> AsyncGenerator[Event, None]:
    """Yield the events of one streamed answer as plain dictionaries.

    When the provider refuses the request, `simplify` gets the body and the complaint. It returns a
    body without the cause, or None.
    """
    reader = _Reader(account, path, body, simplify)
    async with (
        aclosing(reader),
        aclosing(read_events(reader.next, account, _translate_error)) as source,
    ):
        async for event in source:
            yield event


class _Reader:
    """One request and the stream of its answer."""

    def __init__(self, account: Account, path: str, body: Body, simplify: Simplify) -> None:
        self._account = account
        self._path = path
        self._body = body
        self._simplify = simplify
        self._stream: openai.AsyncStream[object] | None = None

    async def next(self) -> Event | None:
        """Return the next event, None at the end. The first call sends the request."""
        stream = self._stream or await self._open_stream()
        while (event := await anext(stream, None)) is not None:
            if isinstance(event, dict):
                return event
        return None

    async def _open_stream(self) -> openai.AsyncStream[object]:
        client = _clients.get(self._account)
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
                smaller = None if is_about_name else self._simplify(self._body, complaint)
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


async def list_models(account: Account) -> tuple[ListedModel, ...]:
    """Return the models that the server lists for this account."""
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    asking = _clients.get(account).get("/models", cast_to=object)
    answer = await run_step(deadline, asking, account, _translate_error)
    models = read_models(answer)
    if models is None:
        raise provider_error("protocol", account.names, detail="what came is no list of models")
    return models


def _translate_error(error: Exception, account: Account) -> ProviderError | None:
    detail = account.mask_secrets(_read_message(error))
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


def read_models(answer: object) -> tuple[ListedModel, ...] | None:
    """Return the models by name, or None for an answer that is no list of models."""
    rows = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        return None
    found = {model.name: model for row in rows if (model := _read_model(row)) is not None}
    return tuple(found[name] for name in sorted(found))


def _read_model(row: object) -> ListedModel | None:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not row["id"]:
        return None
    name: str = row["id"]
    if any(word in name.lower() for word in NOT_FOR_CHAT):
        return None
    label = row.get("name")
    takes = _read_words(row, ("architecture", "input_modalities"), ("input_modalities",))
    knows = _read_words(row, ("supported_parameters",), ("capabilities",))
    return ListedModel(
        name=name,
        label=label if isinstance(label, str) and label != name else "",
        context_tokens=_read_number(
            row,
            ("context_length",),
            ("max_model_len",),
            # The size with which llama.cpp was started. `n_ctx_train` is that of the training.
            ("meta", "n_ctx"),
            ("context_window",),
        ),
        output_tokens=_read_number(
            row, ("top_provider", "max_completion_tokens"), ("max_output_tokens",)
        ),
        takes_pictures=None if takes is None else "image" in takes,
        takes_documents=None if takes is None else "file" in takes,
        reasons=None if knows is None else bool({"reasoning", "thinking"} & knows),
    )


def _read_path(row: dict[str, Any], path: Iterable[str]) -> object:
    value: object = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _read_number(row: dict[str, Any], *paths: tuple[str, ...]) -> int | None:
    """Return the first of these fields that is a count."""
    values = (_read_path(row, path) for path in paths)
    return next(
        (v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), None
    )


def _read_words(row: dict[str, Any], *paths: tuple[str, ...]) -> set[str] | None:
    values = (_read_path(row, path) for path in paths)
    found = next((value for value in values if isinstance(value, list)), None)
    return None if found is None else {word for word in found if isinstance(word, str)}
