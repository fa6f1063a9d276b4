"""Reads a streamed answer: deadlines around each event, and values that are fit to be stored."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from django.conf import settings

from .account import Account
from .events import ProviderError
from .failures import provider_error

EVENTS_BEFORE_OTHERS = 64
# What a proxy or a wrong address sends with status 200. The SDKs read it as an empty answer.
DOCUMENT_TYPES = ("text/html", "application/json")
# The largest number in an integer column.
MAX_COUNT = 2_147_483_647

Outcome = TypeVar("Outcome")
Event = TypeVar("Event")
# Returns None for an error that is not the provider's.
Translation = Callable[[Exception, Account], ProviderError | None]


async def run_step(
    deadline: float, step: Awaitable[Outcome], account: Account, translate: Translation
) -> Outcome:
    """Await one step until a deadline in the loop's time.

    An error that `translate` does not know is a bug of ours and is raised unchanged.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await step
    except TimeoutError as error:
        raise provider_error("timeout", account.names) from error
    except ProviderError:
        raise
    except Exception as error:
        known = translate(error, account)
        if known is None:
            raise
        raise known from error


async def read_events(
    step: Callable[[], Awaitable[Event | None]], account: Account, translate: Translation
) -> AsyncGenerator[Event, None]:
    """Yield one event after another until `step` returns None. The first may take longer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.MODEL_FIRST_BYTE_SECONDS
    count = 0
    while (event := await run_step(deadline, step(), account, translate)) is not None:
        yield event
        count += 1
        if count % EVENTS_BEFORE_OTHERS == 0:
            # An SDK does not yield to the loop while its buffer has events.
            await asyncio.sleep(0)
        deadline = loop.time() + settings.MODEL_IDLE_SECONDS


async def drain(source: AsyncGenerator[Event, None], seconds: float) -> list[Event]:
    """Read what follows the end of an answer, for some seconds at most.

    The count of tokens may follow, and a connection that was read to its end is used again.
    """
    found = []
    with contextlib.suppress(TimeoutError, ProviderError):
        async with asyncio.timeout(seconds):
            async for event in source:
                found.append(event)
    return found


def refuse_document(content_type: str, account: Account) -> None:
    """Raise ProviderError for a page or a document in place of a stream."""
    if content_type.lower().startswith(DOCUMENT_TYPES):
        detail = f"status 200 with content type {content_type}"
        raise provider_error("protocol", account.names, detail=detail)


def clean_text(value: object) -> str:
    """Return text that every database stores: no lone surrogates, no NUL.

    A value of another type becomes an empty text.
    """
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value.replace("\0", "")


def as_object(value: object) -> dict[str, Any]:
    """Return the object, or an empty one for a value of another type."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= MAX_COUNT else 0


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of a call as strict JSON: without NaN, which Python accepts, and without
    lone surrogates."""
    value = json.loads(text, parse_constant=str)
    plain: dict[str, Any] = json.loads(clean_text(json.dumps(value, ensure_ascii=False)))
    return plain
