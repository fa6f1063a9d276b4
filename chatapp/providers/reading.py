"""Reading one streamed answer, whatever the SDK: a deadline around each event, room for other tasks
on the loop, and what follows the end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from django.conf import settings

from chatapp.providers.account import Account
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import provider_error

EVENTS_BEFORE_OTHERS = 64
# What comes with status 200 from a proxy or a wrong address; to the SDKs, an answer without events.
DOCUMENT_TYPES = ("text/html", "application/json")

Outcome = TypeVar("Outcome")
Event = TypeVar("Event")
Translation = Callable[[Exception, Account], ProviderError | None]


async def within(
    deadline: float, step: Awaitable[Outcome], account: Account, translated: Translation
) -> Outcome:
    """The outcome of one step in the loop's time. An error that `translated` does not know is a bug
    of ours and goes on as it is."""
    try:
        async with asyncio.timeout_at(deadline):
            return await step
    except TimeoutError as error:
        raise provider_error("timeout", account.names) from error
    except ProviderError:
        raise
    except Exception as error:
        known = translated(error, account)
        if known is None:
            raise
        raise known from error


async def paced(
    step: Callable[[], Awaitable[Event | None]], account: Account, translated: Translation
) -> AsyncGenerator[Event, None]:
    """One event after another until `step` has none. The first may take longer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.MODEL_FIRST_BYTE_SECONDS
    count = 0
    while (event := await within(deadline, step(), account, translated)) is not None:
        yield event
        count += 1
        if count % EVENTS_BEFORE_OTHERS == 0:
            # An SDK does not yield to the loop while it has events in its buffer.
            await asyncio.sleep(0)
        deadline = loop.time() + settings.MODEL_IDLE_SECONDS


async def rest(source: AsyncGenerator[Event, None], seconds: float) -> list[Event]:
    """What follows the end of an answer within a moment: the count of tokens may, and a connection
    that was read to its end is used again."""
    found = []
    with contextlib.suppress(TimeoutError, ProviderError):
        async with asyncio.timeout(seconds):
            async for event in source:
                found.append(event)
    return found


def refuse_document(content_type: str, account: Account) -> None:
    """Raise ProviderError for a page or a document instead of a stream."""
    if content_type.lower().startswith(DOCUMENT_TYPES):
        detail = f"status 200 with content type {content_type}"
        raise provider_error("protocol", account.names, detail=detail)
