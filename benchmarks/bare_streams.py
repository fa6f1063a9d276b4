"""The least that a streamed answer can cost: read with the SDK of each provider, requested as the
adapter does, with the events dropped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import boto3
import openai
from botocore.config import Config
from google import genai
from google.genai import types

from chatapp.providers.account import Account

Read = Callable[[], Awaitable[None]]

QUESTION = [{"role": "user", "content": "Hello"}]


@asynccontextmanager
async def open_reader(form: str, account: Account, streams: int) -> AsyncIterator[Read]:
    """Within, each call of the function reads one answer; at most so many run at the same time."""
    async with READERS[form](account, streams) as read:
        yield read


@asynccontextmanager
async def _open_openai(account: Account, _: int, path: str, body: Any) -> AsyncIterator[Read]:
    async with openai.AsyncOpenAI(
        api_key=account.key, base_url=account.base_url, max_retries=0
    ) as client:

        async def read() -> None:
            stream = await client.post(
                path, body=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
            )
            async for _event in stream:
                pass

        yield read


@asynccontextmanager
async def _open_responses(account: Account, streams: int) -> AsyncIterator[Read]:
    body = {"model": "bench", "input": QUESTION, "stream": True, "store": False}
    async with _open_openai(account, streams, "/responses", body) as read:
        yield read


@asynccontextmanager
async def _open_chat(account: Account, streams: int) -> AsyncIterator[Read]:
    body = {"model": "bench", "messages": QUESTION, "stream": True}
    async with _open_openai(account, streams, "/chat/completions", body) as read:
        yield read


@asynccontextmanager
async def _open_anthropic(account: Account, _: int) -> AsyncIterator[Read]:
    content = [{"type": "text", "text": "Hello"}]
    body = {
        "model": "bench",
        "max_tokens": 1_000,
        "messages": [{"role": "user", "content": content}],
        "stream": True,
    }
    async with anthropic.AsyncAnthropic(
        api_key=account.key, base_url=account.base_url, max_retries=0, open_telemetry=False
    ) as client:

        async def read() -> None:
            stream = await client.post(
                "/v1/messages",
                body=body,
                cast_to=object,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            async for _event in stream:
                pass

        yield read


@asynccontextmanager
async def _open_google(account: Account, _: int) -> AsyncIterator[Read]:
    options = types.HttpOptions(base_url=account.base_url)
    client = genai.Client(api_key=account.key, enterprise=False, http_options=options)
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(automatic_function_calling=off)

    async def read() -> None:
        async for _chunk in await client.aio.models.generate_content_stream(
            model="bench", contents="Hello", config=config
        ):
            pass

    try:
        yield read
    finally:
        await client.aio.aclose()
        client.close()


@asynccontextmanager
async def _open_bedrock(account: Account, streams: int) -> AsyncIterator[Read]:
    """One thread for each stream, because the SDK blocks."""
    client = boto3.Session().client(
        "bedrock-runtime",
        endpoint_url=account.base_url,
        region_name=account.region,
        aws_access_key_id=account.key_id,
        aws_secret_access_key=account.key,
        config=Config(signature_version="v4", max_pool_connections=streams),
    )
    messages = [{"role": "user", "content": [{"text": "Hello"}]}]

    def read_all() -> None:
        for _event in client.converse_stream(modelId="bench", messages=messages)["stream"]:
            pass

    with ThreadPoolExecutor(streams) as threads:

        async def read() -> None:
            await asyncio.get_running_loop().run_in_executor(threads, read_all)

        yield read


READERS = {
    "openai": _open_responses,
    "openai-chat": _open_chat,
    "anthropic": _open_anthropic,
    "google": _open_google,
    "bedrock": _open_bedrock,
}
