"""`manage.py policy classify FILE`: the risk of tools that are described one a line."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatapp.permissions.risk import ToolFacts, classify


class Command(BaseCommand):
    help = "Say how risky tools are, and why."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        one = verbs.add_parser("classify", help="One JSON object a line in, one a line out.")
        one.add_argument("file", type=Path, help="lines with name, description, inputSchema, …")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    self._classify(number, line)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} cannot be read: {error}.") from error

    def _classify(self, number: int, line: str) -> None:
        if not line.strip():
            return
        try:
            tool = tool_facts(line)
        except ValueError as error:
            raise CommandError(f"Line {number}: {error}") from error
        risk = classify(tool)
        judged = {"name": tool.name, "level": risk.level, "reasons": list(risk.reasons)}
        self.stdout.write(json.dumps(judged, ensure_ascii=False))


def tool_facts(line: str) -> ToolFacts:
    """The tool of one line; ValueError with a sentence where it is not one."""
    try:
        tool = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("It is not JSON.") from error
    if not isinstance(tool, dict):
        raise ValueError("It is not a JSON object.")
    description = tool.get("description")
    return ToolFacts(
        name=_name(tool.get("name")),
        description=description if isinstance(description, str) else "",
        input_schema=tool.get("inputSchema", {}),
        annotations=tool.get("annotations"),
        is_trusted=tool.get("trusted") is True,
    )


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError("It has no name.")
    return name
