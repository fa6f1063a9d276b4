"""A model server beside the processes of a flow, in a thread with an event loop of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.wire.server import WireServer

Model = TypeVar("Model", bound=WireServer)


@contextmanager
def answering(model: Model) -> Iterator[Model]:
    """Within, the model answers at its `url`."""
    loop = asyncio.new_event_loop()
    is_up, is_over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        listener = await asyncio.start_server(model.serve, "127.0.0.1", 0)
        model.port = listener.sockets[0].getsockname()[1]
        is_up.set()
        await is_over.wait()
        listener.close()
        await model.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert is_up.wait(60)
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(60)
        loop.close()
