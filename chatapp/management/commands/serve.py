"""`manage.py serve`: brings the installation up to date and serves it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from chatapp import links, serving, static_files
from chatapp.demo.seed import seed


class Command(BaseCommand):
    help = "Serve the chat; the first start also sets it up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        first, last = links.PORTS[0], links.PORTS[-1]
        parser.add_argument(
            "--port", type=int, help=f"default: the first free of {first} to {last}"
        )
        parser.add_argument("--workers", type=int, default=1, help="more than one needs REDIS_URL")

    def handle(self, *, host: str, port: int | None, workers: int, **options: Any) -> None:
        try:
            serving.refuse_to_serve(host, workers)
            listener = serving.listen(host, port)
        except serving.CannotServe as refusal:
            raise CommandError(str(refusal)) from refusal
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


def migrate() -> None:
    """Bring the database up to date; a start with nothing to do costs one query."""
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=0)


def shown(host: str) -> str:
    """The host as a browser on this machine names it."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
