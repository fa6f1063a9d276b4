"""The origins that an admin lets apps reach. They end up in a header, so their form is strict."""

import re

from django.core.exceptions import ValidationError

MOST = 50
ORIGIN = re.compile(
    r"(https?|wss?)://(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:\d{1,5})?"
)


def origins_in(text: str) -> frozenset[str]:
    """The origins of a text with one a line; what has not the form of one is left out."""
    lines = (line.strip().lower().rstrip("/") for line in text.splitlines())
    return frozenset(line for line in lines if ORIGIN.fullmatch(line))


def check_origins(text: str) -> None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MOST:
        raise ValidationError(f"Name at most {MOST} origins.")
    for line in lines:
        if not origins_in(line):
            raise ValidationError(
                "“%(line)s” is not an origin. Write https://host, https://host:port or https://*.host.",
                params={"line": line[:100]},
            )
