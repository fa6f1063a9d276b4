"""Runs `manage.py mcp` in this process and keeps what it said."""

import json
from io import StringIO
from typing import Any

from django.core.management import call_command


class Ran:
    """A finished command: exit code, output and complaints."""

    def __init__(self, *words: str) -> None:
        out, err = StringIO(), StringIO()
        self.code = 0
        try:
            call_command("mcp", *words, stdout=out, stderr=err)
        except SystemExit as ended:
            self.code = int(str(ended.code or 0))
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def json(self) -> Any:
        return json.loads(self.out)
