"""`manage.py serve`: brings the installation up to date and serves it."""

import socket
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.db import connections

from chatapp import links, serving, static_files
from chatapp.demo.seed import seed
from chatapp.turns import log
from mcpconfig.management.database import pending_migrations
from mcpconfig.management.ending import OperatorCommand


class Command(OperatorCommand):
    help = "Serve the chat; the first start also sets it up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        first, last = links.PORTS[0], links.PORTS[-1]
        parser.add_argument(
            "--port", type=port_number, help=f"default: the first free of {first} to {last}"
        )
        parser.add_argument(
            "--workers", type=positive, default=1, help="more than one needs REDIS_URL"
        )

    def handle(self, *, host: str, port: int | None, workers: int, **options: Any) -> None:
        serving.refuse_to_serve(host, workers)
        with serving.listen(host, port) as listener, log.acting_as(lambda: log.SERVER):
            self.serve_on(listener, host, workers)

    def serve_on(self, listener: socket.socket, host: str, workers: int) -> None:
        number: int = listener.getsockname()[1]
        links.remember_port(number)
        migrate()
        seed()
        static_files.collect()
        first_link = links.first_sign_in_link()
        connections.close_all()

        def announce() -> None:
            self.say(f"Serving on http://{shown(host)}:{number}/")
            if first_link:
                self.say(f"First sign-in: {first_link}")

        serving.run(listener, workers, announce)

    def say(self, line: str) -> None:
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
    """Bring the database up to date; a start with nothing to do costs one query."""
    if pending_migrations():
        call_command("migrate", interactive=False, verbosity=0)


def shown(host: str) -> str:
    """The host as a browser on this machine names it."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
