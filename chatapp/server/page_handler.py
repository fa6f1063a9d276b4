"""Django's handler of requests, which runs a page and all its middleware in one thread."""

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve


class PageHandler(ASGIHandler):
    """Runs asynchronous views as Django does, and synchronous ones in one step.

    Django would change between the event loop and the thread of the request for each middleware and
    each of its hooks. That took longer than most of our views.
    """

    def __init__(self) -> None:
        super().__init__()
        synchronous = BaseHandler()
        synchronous.load_middleware(is_async=False)
        self._get_page = sync_to_async(synchronous.get_response, thread_sensitive=True)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        if has_async_view(request.path_info):
            return await super().get_response_async(request)
        return await self._get_page(request)


def has_async_view(path: str) -> bool:
    try:
        return iscoroutinefunction(resolve(path).func)
    except Resolver404:
        return False
