"""The base class of the management commands, which turns exceptions into messages."""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from django.apps.config import AppConfig
from django.core import checks
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error

from mcpconfig.output.services import replace_controls

from .database import explain_database_error
from .failures import INTERRUPTED, OUTPUT_CLOSED, Failure, to_failure

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class OperatorCommand(BaseCommand):
    """A command whose exceptions become an exit code and a message instead of a traceback.

    Kind, message and hint go to standard error, and with `--json` to standard output as well.
    """

    # Translated when the parser is made, since argparse needs a string.
    help: "StrOrPromise"  # type: ignore[assignment]

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        self.help = str(self.help)
        return super().create_parser(prog_name, subcommand, **kwargs)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            output = super().execute(*args, **options)
            self.stdout.flush()
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            discard_output()
            raise SystemExit(OUTPUT_CLOSED) from None
        except Exception as error:
            if options.get("traceback"):
                raise
            self._fail(_to_failure(error), options)
        return output

    def check(
        self,
        app_configs: Sequence[AppConfig] | None = None,
        tags: Sequence[str] | None = None,
        display_num_errors: bool = False,
        include_deployment_checks: bool = False,
        fail_level: int = checks.ERROR,
        databases: Sequence[str] | None = None,
    ) -> None:
        """End the command if settings are unsafe. Warnings are left to `manage.py check`."""
        results = checks.run_checks(app_configs, tags, include_deployment_checks, databases)
        serious = [
            result
            for result in results
            if result.is_serious(fail_level) and not result.is_silenced()
        ]
        # Prefer the checks of this application to those of Django, as their messages are clearer.
        serious = [result for result in serious if "countersign" in (result.id or "")] or serious
        if serious:
            messages = dict.fromkeys(result.msg for result in serious)
            hints = dict.fromkeys(result.hint for result in serious if result.hint)
            raise Failure("configuration", " ".join(messages), " ".join(hints))

    def _fail(self, failure: Failure, options: dict[str, Any]) -> NoReturn:
        try:
            self.stderr.write(replace_controls(str(failure)))
            if options.get("json") or options.get("as_json"):
                self.stdout.write(json.dumps(failure.value, ensure_ascii=False))
                self.stdout.flush()
        except BrokenPipeError:
            discard_output()
        raise SystemExit(failure.returncode)


def _to_failure(error: Exception) -> Failure:
    return explain_database_error(error) if isinstance(error, Error) else to_failure(error)


def discard_output() -> None:
    """Redirect the output to the null device, so that flushing at exit does not fail."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null_device, stream.fileno())
    os.close(null_device)
