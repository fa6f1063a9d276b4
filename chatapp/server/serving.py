"""Runs the server for `manage.py serve`: a listening socket, then uvicorn with one or several
processes."""

import ipaddress
import math
import signal
import socket
from collections.abc import Callable

import uvicorn
from django.conf import settings
from uvicorn.supervisors import Multiprocess

from mcpconfig.management.failures import Failure

from .address import PORTS

APPLICATION = "chatapp.asgi:application"
BACKLOG = 2048
WORKER_START_SECONDS = 60


class CannotServe(Failure):
    """The server cannot start."""


def check_can_serve(host: str, workers: int) -> None:
    """Raise CannotServe if these options are unsafe together with the settings."""
    if settings.DEBUG and not is_loopback(host):
        raise CannotServe(
            "configuration",
            f"DEBUG is on and {host} can be reached by others, who would be shown the program's "
            "inside.",
            "Unset DEBUG, or serve on 127.0.0.1.",
        )
    if workers > 1 and not settings.REDIS_URL:
        raise CannotServe(
            "configuration",
            "Several workers find each other through Redis, and REDIS_URL is not set.",
            "Set it, or serve with one worker.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket on `port`, or on the first free one of PORTS."""
    for candidate in PORTS if port is None else [port]:
        try:
            return open_socket(host, candidate)
        except PermissionError as error:
            what = f"This user may not listen on port {candidate}."
            raise CannotServe("address", what, "Choose a port above 1023.") from error
        except socket.gaierror as error:
            raise CannotServe("address", f"{host} is not an address of this machine.") from error
        except OSError as error:
            refusal = error
    hint = "Stop the other server, or choose another port with --port."
    what = f"Cannot listen on {host} port {port}"
    if port is None:
        what = f"None of the ports {PORTS[0]} to {PORTS[-1]} is free on {host}"
    raise CannotServe("address", f"{what}: {refusal.strerror}.", hint) from refusal


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket. Reuse of the address lets a server start right after one was killed.

    It listens at once, since two sockets can share an address until one of them listens.
    """
    family, kind, protocol, _name, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener


def run(listener: socket.socket, workers: int, announce: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT. `announce` is called once the server accepts connections."""
    config = build_config(workers)
    if workers > 1:
        Workers(config, [listener], announce).run()
        return
    # After the shutdown uvicorn raises the signal again, which would end this process as killed.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    OneProcess(config, announce).run([listener])


def build_config(workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        APPLICATION,
        workers=workers,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=262_144,
        ws_per_message_deflate=True,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        lifespan="on",
        timeout_graceful_shutdown=max(1, math.ceil(settings.SHUTDOWN_SECONDS)),
        # Without a public address there is no proxy, so forwarded addresses are not trusted.
        proxy_headers=bool(settings.PUBLIC_URL),
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="warning",
    )


class OneProcess(uvicorn.Server):
    """A server in this process that announces its start."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.announce()


class Workers(Multiprocess):
    """Several servers in processes of their own. One that dies is replaced."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], announce: Callable[[], None]
    ) -> None:
        super().__init__(config, sockets)
        self.announce = announce

    def init_processes(self) -> None:
        super().init_processes()
        if all(worker.wait_until_ready(WORKER_START_SECONDS) for worker in self.processes):
            self.announce()
