"""The only file that imports Amazon's SDK: clients, one streamed answer, and its errors.

The SDK blocks, so that all of its work is done in threads.
"""

import asyncio
import functools
import json
import os
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import boto3
import botocore.session
import urllib3
from botocore import UNSIGNED
from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
    AWSPreparedRequest,
)
from botocore.config import Config
from botocore.eventstream import ParserError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.parsers import ResponseParserError
from django.conf import settings
from django.utils.translation import gettext as _

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import CONNECT_SECONDS
from chatapp.providers.embeddings import EMBED_SECONDS
from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import (
    KIND_OF_CODE,
    classify,
    missing_key_error,
    provider_error,
    read_retry_after,
)
from chatapp.providers.refusals import Simplify
from chatapp.providers.stream_reading import read_events, refuse_document, run_step

from .threaded_reader import Event, Reader, do_nothing, get_current_reader

DRAIN_SECONDS = 2.0
LIST_SECONDS = 20.0
# More than the deadlines around a stream, in case the event loop abandons its streams.
SPARE_SECONDS = 10.0
CLIENTS_KEPT = 32
NOT_THE_KEY = ("access to the model", "model identifier is invalid")
# The operator's files and profiles do not apply to an account.
NO_FILES = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}

Body = dict[str, Any]

_clients_lock = threading.Lock()


def get_client(service: str, account: Account) -> Any:
    """Return the client of an account, for any thread. The SDK builds only one at a time."""
    if not account.key:
        raise missing_key_error(account.names)
    with _clients_lock:
        return _build_client(service, account)


@functools.lru_cache(CLIENTS_KEPT)
def _build_client(service: str, account: Account) -> Any:
    """Return a client that never retries, with the address and key of this account only.

    The environment may have others, which are for all processes of the operator.
    """
    client = _get_session().client(
        service,
        region_name=account.region or None,
        endpoint_url=account.base_url or None,
        aws_access_key_id=account.key_id or None,
        aws_secret_access_key=account.key if account.key_id else None,
        aws_session_token=account.session_token or None,
        config=Config(
            signature_version="v4" if account.key_id else UNSIGNED,
            ignore_configured_endpoint_urls=True,
            max_pool_connections=settings.BEDROCK_STREAMS,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=SPARE_SECONDS
            + max(settings.MODEL_FIRST_BYTE_SECONDS, settings.MODEL_IDLE_SECONDS),
            retries={"total_max_attempts": 1, "mode": "standard"},
            tcp_keepalive=True,
        ),
    )
    client.meta.events.register("before-send", functools.partial(_add_headers, account))
    # The only way to reach the connection of a request that has no response yet.
    client._endpoint.http_session._pool_classes_by_scheme.update(http=_Pool, https=_TlsPool)
    return client


@functools.cache
def _get_session() -> boto3.Session:
    return boto3.Session(botocore_session=botocore.session.Session(NO_FILES))


def _add_headers(account: Account, request: AWSPreparedRequest, **_: object) -> None:
    """Add the headers of the account and its token: the SDK would use the environment's token."""
    if not account.key_id:
        request.headers["Authorization"] = f"Bearer {account.key}"
    for name, value in account.headers:
        request.headers[name] = value


class _Interruptible:
    """A connection whose wait for a response the reader of its thread can interrupt."""

    sock: socket.socket

    def getresponse(self) -> Any:
        reader = get_current_reader()
        if reader is None:
            return super().getresponse()  # type: ignore[misc]
        reader.set_interrupt(functools.partial(self.sock.shutdown, socket.SHUT_RDWR))
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            # The connection may be used for another request now.
            reader.set_interrupt(do_nothing)


class _Connection(_Interruptible, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TlsConnection(_Interruptible, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Connection


class _TlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _TlsConnection


async def stream_events(
    account: Account, body: Body, simplify: Simplify
) -> AsyncGenerator[Event, None]:
    """Yield the events of one streamed answer.

    When the provider refuses the request, `simplify` gets the body and the complaint. It returns a
    body without the cause, or None.
    """
    reader = Reader(functools.partial(_read, account, body, simplify))
    async with aclosing(read_events(reader, account, _translate_error)) as source:
        async for event in source:
            yield event


def _read(account: Account, body: Body, simplify: Simplify, reader: Reader) -> Iterator[Event]:
    """Yield the events, in the thread of the reader."""
    response = _send(get_client("bedrock-runtime", account), body, simplify)
    stream = response["stream"]
    try:
        reader.set_interrupt(stream._raw_stream.shutdown)
        headers = response["ResponseMetadata"]["HTTPHeaders"]
        refuse_document(headers.get("content-type", ""), account)
        yield from stream
    finally:
        stream.close()


def _send(client: Any, body: Body, simplify: Simplify) -> Any:
    while True:
        try:
            return client.converse_stream(**body)
        except ClientError as error:
            refused = _read_code(error) == "validationexception"
            smaller = simplify(body, _read_text(error)) if refused else None
            if smaller is None:
                raise
            body = smaller


async def list_models(account: Account) -> tuple[ListedModel, ...]:
    """Return the models and inference profiles for chats."""
    if account.base_url:
        raise ProviderError(
            kind="not_found",
            message=_("Bedrock lists its models at a different address than the one that is set."),
            hint=_("An admin can add the models by name."),
        )
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    return await run_step(
        deadline, asyncio.to_thread(_fetch_models, account), account, _translate_error
    )


async def invoke_models(account: Account, model: str, bodies: list[Body]) -> list[object]:
    """Return the answers to requests in the form of a model, one after another, as JSON."""
    deadline = asyncio.get_running_loop().time() + EMBED_SECONDS
    answers = []
    for body in bodies:
        asking = asyncio.to_thread(_invoke_model, account, model, body)
        answers.append(await run_step(deadline, asking, account, _translate_error))
    return answers


def _invoke_model(account: Account, model: str, body: Body) -> object:
    client = get_client("bedrock-runtime", account)
    answer = client.invoke_model(modelId=model, body=json.dumps(body))
    return json.loads(answer["body"].read())


def _fetch_models(account: Account) -> tuple[ListedModel, ...]:
    return read_models(get_client("bedrock", account))


def read_models(client: Any) -> tuple[ListedModel, ...]:
    rows = client.list_foundation_models(byOutputModality="TEXT")["modelSummaries"]
    models = {row["modelId"]: row for row in rows if row.get("responseStreamingSupported")}
    by_name = [
        _build_model(name, row.get("modelName", ""), row)
        for name, row in models.items()
        if "ON_DEMAND" in row.get("inferenceTypesSupported", [])
    ]
    pages = client.get_paginator("list_inference_profiles").paginate()
    by_profile = [
        _build_model(profile["inferenceProfileId"], profile["inferenceProfileName"], models[name])
        for page in pages
        for profile in page["inferenceProfileSummaries"]
        if (name := _find_model_name(profile)) in models
    ]
    return (*by_profile, *by_name)


def _find_model_name(profile: Any) -> str:
    """Return the model of a profile. Its regions all have the same."""
    models = profile.get("models") or [{}]
    return str(models[0].get("modelArn", "")).rpartition("/")[2]


def _build_model(name: str, label: str, row: Any) -> ListedModel:
    takes_pictures = "IMAGE" in row.get("inputModalities", [])
    return ListedModel(name=name, label=label, takes_pictures=takes_pictures)


def _translate_error(error: Exception, account: Account) -> ProviderError | None:
    kind: ErrorKind
    match error:
        case ClientError():
            return _build_error(error, account)
        case ReadTimeoutError() | ConnectTimeoutError() | urllib3.exceptions.TimeoutError():
            return provider_error("timeout", account.names)
        case HTTPClientError() | EndpointConnectionError() | ProxyConnectionError() | SSLError():
            kind = "network"
        case urllib3.exceptions.HTTPError() | OSError():
            kind = "network"
        case BotoCoreError():
            # The request was not sent.
            kind = "bad_request"
        case ParserError() | ResponseParserError() | ValueError():
            kind = "protocol"
        case _:
            return None
    return provider_error(kind, account.names, detail=account.mask_secrets(str(error)))


def _build_error(error: ClientError, account: Account) -> ProviderError:
    """Translate an error: before the stream it has a status, inside it only a code."""
    about = error.response.get("ResponseMetadata", {})
    status, code = about.get("HTTPStatusCode"), _read_code(error)
    words = account.mask_secrets(_read_text(error))
    if status is not None and status < 400:
        kind: ErrorKind = "protocol"
    elif any(mark in words for mark in NOT_THE_KEY):
        kind = "not_found"
    else:
        kind = classify(None if code in KIND_OF_CODE else status, (code,), words)
    wait = read_retry_after(about.get("HTTPHeaders", {}))
    return provider_error(kind, account.names, detail=words or code, retry_after=wait)


def _read_code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "")).lower()


def _read_text(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message") or "")


def answer_error(account: Account, kind: ErrorKind, detail: str) -> ProviderError:
    """Return the error of an answer that reports a failure."""
    return provider_error(kind, account.names, detail=detail)
