"""Runs the server for `manage.py serve`: a listening socket, then uvicorn with one or several
processes."""

import asyncio
import contextlib
import ipaddress
import math
import resource
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from django.conf import settings
from django.utils.translation import gettext as _
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from chatapp.telemetry import metrics
from mcpconfig.management.failures import Failure

from .address import PORTS
from .http_protocol import BoundedHttpProtocol
from .runtime import current_runtime

APPLICATION = "chatapp.asgi:application"
BACKLOG = 2048
WORKER_START_SECONDS = 60
READY_WAIT_SECONDS = 0.2
TICK_SECONDS = 1.0
DRAIN_TICK_SECONDS = 0.1


class CannotServe(Failure):
    """The server cannot start."""


def check_can_serve(host: str, workers: int) -> None:
    """Raise CannotServe if these options are unsafe together with the settings."""
    if settings.DEBUG and not is_loopback(host):
        raise CannotServe(
            "configuration",
            (
                _(
                    "DEBUG is on, and others can reach %(host)s. Errors would show them internal "
                    "details."
                )
                % {"host": host}
            ),
            _("Unset DEBUG, or serve on 127.0.0.1."),
        )
    if workers > 1 and not settings.CHANNEL_LAYERS:
        raise CannotServe(
            "configuration",
            _("Several workers need PostgreSQL or Redis, and neither is set."),
            _("Set DATABASE_URL to PostgreSQL or set REDIS_URL, or serve with one worker."),
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
            what = _("This user can’t listen on port %(port)s.") % {"port": candidate}
            raise CannotServe("address", what, _("Choose a port above 1023.")) from error
        except socket.gaierror as error:
            raise CannotServe(
                "address", _("%(host)s is not an address of this machine.") % {"host": host}
            ) from error
        except OSError as error:
            refusal = error
    hint = _("Stop the other server, or choose another port with --port.")
    values = {"host": host, "port": port, "first": PORTS[0], "last": PORTS[-1]}
    values["reason"] = refusal.strerror
    if port is None:
        what = _("None of the ports %(first)s to %(last)s is free on %(host)s: %(reason)s.")
    else:
        what = _("Can’t listen on %(host)s port %(port)s: %(reason)s.")
    raise CannotServe("address", what % values, hint) from refusal


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


def raise_file_limit() -> None:
    """Allow as many open files as the system admits. Each connection is one, and many systems begin
    with 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(listener: socket.socket, workers: int, announce: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT. `announce` is called once the server accepts connections."""
    raise_file_limit()
    config = build_config(workers)
    if workers > 1:
        folder = metrics.open_shared_folder(settings.VAR_DIR / "metrics")
        try:
            Workers(config, [listener], announce).run()
        finally:
            metrics.remove_shared_folder(folder)
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
        http=BoundedHttpProtocol,
        ws="websockets-sansio",
        ws_max_size=262_144,
        ws_per_message_deflate=True,
        ws_ping_interval=60,  # pages hear from us more often, and a ping costs as much as a message
        ws_ping_timeout=20,
        lifespan="on",
        limit_concurrency=settings.CONNECTIONS_MAX,
        timeout_graceful_shutdown=max(1, math.ceil(settings.SHUTDOWN_SECONDS)),
        # Without a public address there is no proxy, so forwarded addresses are not trusted.
        proxy_headers=bool(settings.PUBLIC_URL),
        forwarded_allow_ips=settings.TRUSTED_PROXIES,
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
        self.exits_at = 0.0
        self.ends = asyncio.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """After the first SIGTERM, answer requests for DRAIN_SECONDS, and `/readyz` with 503."""
        runtime = current_runtime()
        drains = sig == signal.SIGTERM and not runtime.is_stopping
        self.exits_at = time.monotonic() + settings.DRAIN_SECONDS if drains else 0.0
        runtime.is_stopping = True
        super().handle_exit(sig, frame)
        self.ends.set()

    async def main_loop(self) -> None:
        """Tick once a second instead of ten times, until a signal comes."""
        while not await self.on_tick(0):
            if self.ends.is_set():
                await asyncio.sleep(DRAIN_TICK_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self.ends.wait()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) and time.monotonic() >= self.exits_at

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
        self.pids: set[int] = set()  # of the workers at the last look
        self.ended: set[int] = set()  # of those whose metrics are still in files of their own
        # When the workers that have not served yet must serve, by their process ids.
        self.deadlines: dict[int | None, float] = {}

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or hang. uvicorn takes a worker that has not answered for five
        seconds for one that hangs, also while it starts: on a busy machine it would kill each new
        one, and the server would never come back."""
        self.pids |= self._list_pids()  # one may die before the first look
        starting = [process for process in self.processes if self._is_starting(process)]
        self.processes = [process for process in self.processes if process not in starting]
        super().keep_subprocess_alive()
        self.processes += starting
        now = self._list_pids()
        self.ended |= self.pids - now
        self.ended = {pid for pid in self.ended if not metrics.forget_process(pid)}
        self.pids = now

    def _list_pids(self) -> set[int]:
        return {process.pid for process in self.processes if process.pid is not None}

    def _is_starting(self, process: Process) -> bool:
        """Return whether a worker runs, has not served yet, and has time left to begin."""
        deadline = self.deadlines.setdefault(process.pid, time.monotonic() + WORKER_START_SECONDS)
        if not process.process.is_alive() or time.monotonic() > deadline:
            return False
        if _is_ready(process):
            self.deadlines[process.pid] = float("-inf")
            return False
        return True

    def init_processes(self) -> None:
        super().init_processes()
        if all(worker.wait_until_ready(WORKER_START_SECONDS) for worker in self.processes):
            self.announce()


def _is_ready(process: Process) -> bool:
    """Return whether a worker serves. It also answers what it was asked before it could."""
    is_ready = process.is_ready(timeout=READY_WAIT_SECONDS)
    with contextlib.suppress(OSError, EOFError):
        while process.parent_conn.poll():
            is_ready = bool(process.parent_conn.recv())
    return is_ready
