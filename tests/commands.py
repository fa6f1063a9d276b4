"""Runs commands of `manage.py` in this process and keeps what they said."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections


class Ran:
    """A finished command: exit code, output and complaints."""

    def __init__(self, *words: str) -> None:
        out, err = StringIO(), StringIO()
        self.code = 0
        try:
            call_command(*words, stdout=out, stderr=err)
        except SystemExit as ended:
            self.code = int(str(ended.code or 0))
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@contextmanager
def database_at(path: Path) -> Iterator[None]:
    """Within, the database is the SQLite file at this path, whatever is there."""
    connection = connections["default"]
    connection.close()
    kept = connection.settings_dict["NAME"]
    connection.settings_dict["NAME"] = str(path)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = kept
