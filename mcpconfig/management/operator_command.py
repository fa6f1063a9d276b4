"""How each command of ours ends: done, failed in words, or gone quietly; never in a traceback."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from django.apps.config import AppConfig
from django.core import checks
from django.core.management.base import BaseCommand
from django.db import Error

from mcpconfig.console import printable

from .database import failure_of_database
from .failures import INTERRUPTED, UNHEARD, Failure, failure_of


class OperatorCommand(BaseCommand):
    """A command of ours. `handle` raises what it likes; here it becomes an exit code and words.

    Kind, sentence and hint go to standard error; with `--json` standard output has them as well.
    """

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            said = super().execute(*args, **options)
            self.stdout.flush()
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            hang_up()
            raise SystemExit(UNHEARD) from None
        except Exception as error:
            if options.get("traceback"):
                raise
            self._fail(_failure(error), options)
        return said

    def check(
        self,
        app_configs: Sequence[AppConfig] | None = None,
        tags: Sequence[str] | None = None,
        display_num_errors: bool = False,
        include_deployment_checks: bool = False,
        fail_level: int = checks.ERROR,
        databases: Sequence[str] | None = None,
    ) -> None:
        """Settings that are unsafe end the command; warnings are for `manage.py check`."""
        found = checks.run_checks(app_configs, tags, include_deployment_checks, databases)
        serious = [each for each in found if each.is_serious(fail_level) and not each.is_silenced()]
        # Where Django complains of the same, our own words say more.
        serious = [each for each in serious if "countersign" in (each.id or "")] or serious
        if serious:
            messages = dict.fromkeys(each.msg for each in serious)
            hints = dict.fromkeys(each.hint for each in serious if each.hint)
            raise Failure("configuration", " ".join(messages), " ".join(hints))

    def _fail(self, failure: Failure, options: dict[str, Any]) -> NoReturn:
        try:
            self.stderr.write(printable(str(failure)))
            if options.get("json") or options.get("as_json"):
                self.stdout.write(json.dumps(failure.value, ensure_ascii=False))
                self.stdout.flush()
        except BrokenPipeError:
            hang_up()
        raise SystemExit(failure.returncode)


def _failure(error: Exception) -> Failure:
    return failure_of_database(error) if isinstance(error, Error) else failure_of(error)


def hang_up() -> None:
    """Nobody reads on: what is still in the buffer goes nowhere instead of failing at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
