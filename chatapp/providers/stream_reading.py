"""Reads a streamed answer: deadlines around each event, and values that are fit to be stored."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

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
Sent = TypeVar("Sent")
Event = TypeVar("Event")
Parsed = TypeVar("Parsed", covariant=True)
# Returns None for an error that is not the provider's.
Translation = Callable[[Exception, Account], ProviderError | None]


async def run_step(
    deadline: float, step: Awaitable[Outcome], account: Account, translate: Translation
) -> Outcome:
    """Await one step until a deadline in the loop's time.

    An error that `translate` does not know is a bug of ours and is raised unchanged.
    """
    with _translate_errors(account, translate):
        async with asyncio.timeout_at(deadline):
            return await step


class EventSource(Protocol[Sent, Parsed]):
    """One request and the stream of its answer, in the provider's form."""

    async def next(self) -> Sequence[Sent]:
        """Return all that has arrived, nothing at the end. The first call sends the request."""

    def parse(self, sent: Sent) -> Parsed | None:
        """Return the event, or None for what is no event."""

    async def aclose(self) -> None: ...


async def read_events(
    source: EventSource[Sent, Event], account: Account, translate: Translation
) -> AsyncGenerator[Event, None]:
    """Yield one event after another until the end, and close the source. The first may take
    longer."""
    limit, seconds, count = WaitLimit(), settings.MODEL_FIRST_BYTE_SECONDS, 0
    try:
        with _translate_errors(account, translate):
            while True:
                with limit.within(seconds):
                    arrived = await source.next()
                if not arrived:
                    return
                for sent in arrived:
                    event = source.parse(sent)
                    if event is None:
                        continue
                    yield event
                    count += 1
                    if count % EVENTS_BEFORE_OTHERS == 0:
                        # Reading does not yield to the loop while the buffer has events.
                        await asyncio.sleep(0)
                seconds = settings.MODEL_IDLE_SECONDS
    finally:
        limit.close()
        await source.aclose()


class WaitLimit:
    """Limits the waits of a task, one after another, as `asyncio.timeout` limits one.

    That would set and cancel a timer for each event. This timer stays, and when it fires too early
    for the wait of that moment, it is set again.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._has_expired = False

    def within(self, seconds: float) -> Self:
        """Set the limit of the next wait, which is the block of a `with` statement."""
        self._deadline = self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self.close()
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._expire)
        return self

    def __enter__(self) -> None:
        if (task := asyncio.current_task()) is not None:
            self._task, self._cancelling = task, task.cancelling()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self._has_expired and task is not None:
            self._has_expired = False
            is_ours = task.uncancel() <= self._cancelling
            if is_ours and isinstance(error, asyncio.CancelledError):
                raise TimeoutError from error

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._expire)
        else:
            self._has_expired = True
            self._task.cancel()


@contextlib.contextmanager
def _translate_errors(account: Account, translate: Translation) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise provider_error("timeout", account.names) from error
    except ProviderError:
        raise
    except Exception as error:
        known = translate(error, account)
        if known is None:
            raise
        raise known from error


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
