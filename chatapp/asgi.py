"""The ASGI application: pages, sockets, the MCP servers, the demo service, and the engine's runtime
for the lifetime of the server."""

import asyncio
import gc
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
django.setup(set_prefix=False)

# Models can be imported only once Django is set up.
from channels.routing import URLRouter  # noqa: E402
from channels.sessions import CookieMiddleware  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path, re_path  # noqa: E402
from starlette.types import Receive, Scope, Send  # noqa: E402

from .background.heartbeat import Heartbeat  # noqa: E402
from .background.worker import BackgroundWorker  # noqa: E402
from .consumers import ConversationConsumer, NoSocket, PersonConsumer  # noqa: E402
from .conversations.queue_sender import QueueSender  # noqa: E402
from .demo import application as demo  # noqa: E402
from .engine.runtime import close_engine_runtime, open_engine_runtime  # noqa: E402
from .models import Worker  # noqa: E402
from .server.page_handler import PageHandler  # noqa: E402
from .server.request_bodies import limit_request_body  # noqa: E402
from .server.runtime import current_runtime  # noqa: E402
from .server.shutdown import end_with_parent, on_end_signals  # noqa: E402
from .telemetry.http_requests import watch_requests  # noqa: E402
from .views.api import mcp  # noqa: E402

# Each delta creates and drops some thousand objects. Python's own threshold, a search for cycles
# after every 700, takes a twentieth of the time of streaming.
GARBAGE_OBJECTS = 50_000

# How long the end of the heartbeat may wait for the database.
END_SECONDS = 5.0

pages = PageHandler()
sockets = CookieMiddleware(
    URLRouter(
        [
            path("ws/c/<uuid:conversation_id>/", ConversationConsumer.as_asgi()),  # type: ignore[arg-type, list-item]
            path("ws/me/", PersonConsumer.as_asgi()),  # type: ignore[arg-type, list-item]
            re_path(r"^", NoSocket.as_asgi()),  # type: ignore[arg-type, list-item]
        ]
    )
)


async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
    """Dispatch a connection by its kind."""
    match scope["type"]:
        case "lifespan":
            await lifespan(receive, send)
        case "websocket":
            await sockets(scope, receive, send)  # type: ignore[arg-type]
        case "http" if settings.DEMO and scope["path"] == "/demo/mcp":
            await demo.application(scope, receive, send)
        case "http" if scope["path"] in mcp.PATHS:
            await mcp.application(scope, receive, send)
        case _:
            await limit_request_body(pages, scope, receive, send)  # type: ignore[arg-type]


application = watch_requests(dispatch)


async def lifespan(receive: Receive, send: Send) -> None:
    await receive()
    runtime = await open_engine_runtime()
    sender = QueueSender(current_runtime())
    sender.start()
    gc.collect()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.freeze()  # a search through the objects of the start would stop every stream for 0.1 s
    await send({"type": "lifespan.startup.complete"})
    end_with_parent()
    worker = BackgroundWorker(runs_tasks=settings.TASKS_WORKER)
    worker.start()
    heartbeat = Heartbeat(
        Worker.Kind.SERVER,
        count_turns=runtime.engine.count_running,
        runs_task=lambda: worker.is_running_task,
    )
    beats = asyncio.create_task(heartbeat.keep_beating())

    def begin_shutdown(at_once: bool) -> None:
        runtime.engine.begin_shutdown(at_once=at_once)
        worker.begin_shutdown(at_once=at_once)

    with on_end_signals(begin_shutdown):
        await receive()
        await sender.close()
        beats.cancel()
        await asyncio.wait([beats], timeout=END_SECONDS)
        await asyncio.gather(
            close_engine_runtime(runtime, wait_seconds=settings.SHUTDOWN_SECONDS),
            worker.close(wait_seconds=settings.SHUTDOWN_SECONDS),
        )
    await demo.close()
    await mcp.close()
    await send({"type": "lifespan.shutdown.complete"})
