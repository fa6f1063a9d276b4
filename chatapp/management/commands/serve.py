"""`manage.py serve`: migrate the database and serve the application."""

import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit import audit_log
from chatapp.demo.seed import seed
from chatapp.people import sign_in_links
from chatapp.server import address, serving, static_files
from chatapp.server.database import one_at_a_time
from mcpconfig.management.database import list_pending_migrations
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = gettext_lazy("Serve Countersign. The first start also sets it up.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        first, last = address.PORTS[0], address.PORTS[-1]
        parser.add_argument(
            "--port",
            type=port_number,
            help=_("default: the first free port from %(first)s to %(last)s")
            % {"first": first, "last": last},
        )
        parser.add_argument(
            "--workers",
            type=positive,
            default=1,
            help=_("more than one needs PostgreSQL or REDIS_URL"),
        )

    def handle(self, *, host: str, port: int | None, workers: int, **options: Any) -> None:
        serving.check_can_serve(host, workers)
        with serving.listen(host, port) as listener, audit_log.acting_as(lambda: audit_log.SERVER):
            self.serve_on(listener, host, workers)

    def serve_on(self, listener: socket.socket, host: str, workers: int) -> None:
        port: int = listener.getsockname()[1]
        address.store_port(port)
        with one_at_a_time():
            migrate()
            seed()
            static_files.collect(run_apart)
            first_link = sign_in_links.make_first_sign_in_link()
        connections.close_all()

        def announce() -> None:
            self.write_line(f"Serving on http://{format_host(host)}:{port}/")
            if first_link:
                self.write_line(f"First sign-in: {first_link}")

        serving.run(listener, workers, announce)

    def write_line(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def port_number(text: str) -> int:
    if not 0 <= int(text) < 65_536:
        raise ValueError
    return int(text)


def positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def migrate() -> None:
    """Apply pending migrations. Without any, this costs one query."""
    if list_pending_migrations():
        run_apart("migrate", "--noinput", "--verbosity=0")


def run_apart(*command: str) -> None:
    """Run a command of Django in a process of its own. The server would keep the memory that the
    command takes, a fifth of what it needs itself.

    A signal to end also ends the command, which would go on without the lock of this process.
    """
    words = [sys.executable, str(settings.BASE_DIR / "manage.py"), *command]
    child: subprocess.Popen[str] | None = None
    is_ended = False

    def end(*_: object) -> None:
        nonlocal is_ended
        is_ended = True
        if child:
            child.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:  # noqa: S603 (no input)
            if is_ended:  # before `child` was set
                child.terminate()
            said = child.communicate()[1].strip()
    finally:
        signal.signal(signal.SIGTERM, before)
    if is_ended:
        raise Failure("failed", f"{command[0]}: ended by SIGTERM")
    if child.returncode:
        reason = said.rpartition("\n")[2] or f"exit code {child.returncode}"
        raise Failure("failed", f"{command[0]}: {reason}")


def format_host(host: str) -> str:
    """Return the host as it is written in a URL for a browser on this machine."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
