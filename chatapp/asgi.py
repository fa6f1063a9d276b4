"""The ASGI application: pages, sockets, the MCP faces, the demo service, and the workplace that
lives as long as the server."""

import gc
import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
pages = get_asgi_application()

# Models can be imported only once Django is set up.
from channels.routing import URLRouter  # noqa: E402
from channels.sessions import CookieMiddleware  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path  # noqa: E402
from starlette.types import Receive, Scope, Send  # noqa: E402

from chatapp.consumers import ConversationConsumer, NoSocket, PersonConsumer  # noqa: E402
from chatapp.demo import application as demo  # noqa: E402
from chatapp.faces import mcp_application  # noqa: E402
from chatapp.request_bodies import within_bounds  # noqa: E402
from chatapp.turns.workplace import close_workplace, open_workplace  # noqa: E402

# Each word makes and drops some thousand objects. Looking for cycles among them after every 700, as
# Python does by itself, takes a twentieth of the time that relaying answers takes.
GARBAGE_OBJECTS = 50_000

sockets = CookieMiddleware(
    URLRouter(
        [
            path("ws/c/<uuid:conversation_id>/", ConversationConsumer.as_asgi()),  # type: ignore[arg-type, list-item]
            path("ws/me/", PersonConsumer.as_asgi()),  # type: ignore[arg-type, list-item]
            path("<path:anything>", NoSocket.as_asgi()),  # type: ignore[arg-type, list-item]
        ]
    )
)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass on by kind of connection; the lifespan is ours."""
    match scope["type"]:
        case "lifespan":
            await lifespan(receive, send)
        case "websocket":
            await sockets(scope, receive, send)  # type: ignore[arg-type]
        case "http" if settings.DEMO and scope["path"] == "/demo/mcp":
            await demo.application(scope, receive, send)
        case "http" if scope["path"] in mcp_application.PATHS:
            await mcp_application.application(scope, receive, send)
        case _:
            await within_bounds(pages, scope, receive, send)  # type: ignore[arg-type]


async def lifespan(receive: Receive, send: Send) -> None:
    await receive()
    workplace = await open_workplace()
    gc.collect()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.freeze()  # looking through all that start-up made would stop every stream for 0.1 s
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await close_workplace(workplace)
    await demo.close()
    await mcp_application.close()
    await send({"type": "lifespan.shutdown.complete"})
