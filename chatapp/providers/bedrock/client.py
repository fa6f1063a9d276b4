"""The one file that knows Amazon's SDK: a client for each account, one bounded stream of events,
and the SDK's errors in our own words.

Whatever the SDK does, it does in a thread: it blocks.
"""

import asyncio
import functools
import os
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
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

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.bedrock_reader import Event, Reader, each_of, nothing, reader_of_thread
from chatapp.providers.connections import CONNECT_SECONDS
from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import (
    KIND_OF_CODE,
    classify,
    missing_key,
    provider_error,
    retry_after_seconds,
)
from chatapp.providers.reading import paced, refuse_document, within
from chatapp.providers.words import without_secrets

DRAIN_SECONDS = 2.0
LIST_SECONDS = 20.0
# Beyond the deadlines that are kept around a stream; for a loop that forgot its streams.
SPARE_SECONDS = 10.0
CLIENTS_KEPT = 32
NOT_THE_KEY = ("access to the model", "model identifier is invalid")
# The operator's own files and profiles say nothing about an account.
NO_FILES = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}

Body = dict[str, Any]
Simpler = Callable[[Body, str], Body | None]

_clients_lock = threading.Lock()


def client_of(service: str, account: Account) -> Any:
    """The client of an account, for any thread. The SDK makes one at a time."""
    if not account.key:
        raise missing_key(account.names)
    with _clients_lock:
        return _made_client(service, account)


@functools.lru_cache(CLIENTS_KEPT)
def _made_client(service: str, account: Account) -> Any:
    """A client that never repeats, for the address and the key of this account and no other: the
    environment may name both for all that the operator's processes do."""
    client = _session().client(
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
    client.meta.events.register("before-send", functools.partial(_show, account))
    # The one way to reach the connection of a request that has no answer yet.
    client._endpoint.http_session._pool_classes_by_scheme.update(http=_Pool, https=_TlsPool)
    return client


@functools.cache
def _session() -> boto3.Session:
    return boto3.Session(botocore_session=botocore.session.Session(NO_FILES))


def _show(account: Account, request: AWSPreparedRequest, **_: object) -> None:
    """A token goes as it is: the SDK knows but one, the environment's, and takes it for all."""
    if not account.key_id:
        request.headers["Authorization"] = f"Bearer {account.key}"
    for name, value in account.headers:
        request.headers[name] = value


class _Watched:
    """A connection that tells the reader of its thread how to break it off while it waits."""

    sock: socket.socket

    def getresponse(self) -> Any:
        reader = reader_of_thread()
        if reader is None:
            return super().getresponse()  # type: ignore[misc]
        reader.stop_by(functools.partial(self.sock.shutdown, socket.SHUT_RDWR))
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            # From here on the connection may be on its way to somebody else.
            reader.stop_by(nothing)


class _Connection(_Watched, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TlsConnection(_Watched, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Connection


class _TlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _TlsConnection


async def events(account: Account, body: Body, simpler: Simpler) -> AsyncGenerator[Event, None]:
    """The events of one streamed answer.

    `simpler` is asked when the provider does not take the request: given the body and the
    complaint, it returns a body without what was complained about, or None.
    """
    reader = Reader(functools.partial(_read, account, body, simpler))
    try:
        async with aclosing(paced(reader.next, account, _translated)) as batches:
            async for event in each_of(batches):
                yield event
    finally:
        reader.stop()


def _read(account: Account, body: Body, simpler: Simpler, reader: Reader) -> Iterator[Event]:
    """The events, in the thread of the reader."""
    response = _asked(client_of("bedrock-runtime", account), body, simpler)
    stream = response["stream"]
    try:
        reader.stop_by(stream._raw_stream.shutdown)
        headers = response["ResponseMetadata"]["HTTPHeaders"]
        refuse_document(headers.get("content-type", ""), account)
        yield from stream
    finally:
        stream.close()


def _asked(client: Any, body: Body, simpler: Simpler) -> Any:
    while True:
        try:
            return client.converse_stream(**body)
        except ClientError as error:
            refused = _code(error) == "validationexception"
            smaller = simpler(body, _words(error)) if refused else None
            if smaller is None:
                raise
            body = smaller


async def listed_models(account: Account) -> tuple[ListedModel, ...]:
    """The models and inference profiles that can be asked in a chat."""
    if account.base_url:
        raise ProviderError(
            kind="not_found",
            message="Bedrock lists its models at another address than the one that was set.",
            hint="An admin can add the models by their names.",
        )
    deadline = asyncio.get_running_loop().time() + LIST_SECONDS
    return await within(deadline, asyncio.to_thread(_listed, account), account, _translated)


def _listed(account: Account) -> tuple[ListedModel, ...]:
    return models_of(client_of("bedrock", account))


def models_of(client: Any) -> tuple[ListedModel, ...]:
    rows = client.list_foundation_models(byOutputModality="TEXT")["modelSummaries"]
    models = {row["modelId"]: row for row in rows if row.get("responseStreamingSupported")}
    by_name = [
        _model(name, row.get("modelName", ""), row)
        for name, row in models.items()
        if "ON_DEMAND" in row.get("inferenceTypesSupported", [])
    ]
    pages = client.get_paginator("list_inference_profiles").paginate()
    by_profile = [
        _model(profile["inferenceProfileId"], profile["inferenceProfileName"], models[name])
        for page in pages
        for profile in page["inferenceProfileSummaries"]
        if (name := _model_behind(profile)) in models
    ]
    return (*by_profile, *by_name)


def _model_behind(profile: Any) -> str:
    """The model of a profile, which each of its regions names alike."""
    models = profile.get("models") or [{}]
    return str(models[0].get("modelArn", "")).rpartition("/")[2]


def _model(name: str, label: str, row: Any) -> ListedModel:
    takes_pictures = "IMAGE" in row.get("inputModalities", [])
    return ListedModel(name=name, label=label, takes_pictures=takes_pictures)


def _translated(error: Exception, account: Account) -> ProviderError | None:
    kind: ErrorKind
    match error:
        case ClientError():
            return _refused(error, account)
        case ReadTimeoutError() | ConnectTimeoutError() | urllib3.exceptions.TimeoutError():
            return provider_error("timeout", account.names)
        case HTTPClientError() | EndpointConnectionError() | ProxyConnectionError() | SSLError():
            kind = "network"
        case urllib3.exceptions.HTTPError() | OSError():
            kind = "network"
        case BotoCoreError():
            # It did not even send the request.
            kind = "bad_request"
        case ParserError() | ResponseParserError() | ValueError():
            kind = "protocol"
        case _:
            return None
    return provider_error(kind, account.names, detail=without_secrets(str(error), account))


def _refused(error: ClientError, account: Account) -> ProviderError:
    """An error before the stream has a status, one inside it only a name."""
    about = error.response.get("ResponseMetadata", {})
    status, code = about.get("HTTPStatusCode"), _code(error)
    words = without_secrets(_words(error), account)
    if status is not None and status < 400:
        kind: ErrorKind = "protocol"
    elif any(mark in words for mark in NOT_THE_KEY):
        kind = "not_found"
    else:
        kind = classify(None if code in KIND_OF_CODE else status, (code,), words)
    wait = retry_after_seconds(about.get("HTTPHeaders", {}))
    return provider_error(kind, account.names, detail=words or code, retry_after=wait)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "")).lower()


def _words(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message") or "")


def failed(account: Account, kind: ErrorKind, detail: str) -> ProviderError:
    """The answer itself says that it failed, or never says that it ended."""
    return provider_error(kind, account.names, detail=detail)
