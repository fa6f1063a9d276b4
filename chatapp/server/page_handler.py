"""Django's handler of requests, which runs a page and all its middleware in one thread."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, iscoroutinefunction, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import FileResponse
from django.urls import Resolver404, resolve, set_script_prefix

# Pages that wait for a service keep their thread, so there are more threads than pages that compute
# at once. A thread is started when no other is free.
THREADS = 200


class PageHandler(ASGIHandler):
    """Runs asynchronous views as Django does, and synchronous ones in one step.

    Django would start a thread for each request, and change between it and the event loop for its
    signals, each middleware and each of their hooks. That took longer than most of our views.
    """

    def __init__(self) -> None:
        super().__init__()
        self._synchronous = BaseHandler()
        self._synchronous.load_middleware(is_async=False)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pages")
        self._answer_in_thread = sync_to_async(
            self._answer, thread_sensitive=False, executor=threads
        )

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if has_async_view(scope["path"].removeprefix(scope.get("root_path", ""))):
            return await super().__call__(scope, receive, send)
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return None
        set_script_prefix(get_script_prefix(scope))
        response = await self._answer_in_thread(scope, body)
        if not response.streaming:
            return await self.send_response(response, send)
        async with ThreadSensitiveContext():
            if not response.is_async:
                response.streaming_content = read_blocks(iter(response.streaming_content))
            try:
                await self.send_response(response, send)
            finally:
                await sync_to_async(response.close)()

    def _answer(self, scope: dict[str, Any], body: IO[bytes]) -> Any:
        """Return the response, which is closed if it is not streamed."""
        with body:
            signals.request_started.send(sender=type(self), scope=scope)
            request, refusal = self.create_request(scope, body)
            response: Any = self._synchronous.get_response(request) if request else refusal
            response._handler_class = type(self)
            if isinstance(response, FileResponse):
                response.block_size = self.chunk_size
            if not response.streaming:
                response.close()
        return response


async def read_blocks(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the blocks, each of which is read in a thread after the one before was sent. Django
    would read a whole file before it sends its first block, and warn about it."""
    read = sync_to_async(partial(next, blocks, None))
    while (block := await read()) is not None:
        yield block


def has_async_view(path: str) -> bool:
    try:
        return iscoroutinefunction(resolve(path).func)
    except Resolver404:
        return False
