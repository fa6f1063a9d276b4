"""Reads settings from the environment. An invalid one stops the start with its name.

The message never contains the value, which may hold a password.
"""

import ipaddress
import json
import logging
import os
import zoneinfo
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import environ
from django.core.exceptions import ImproperlyConfigured

TRUE = ("1", "true", "yes", "on")
FALSE = ("0", "false", "no", "off", "")
DATABASES = ("sqlite", "postgres", "postgresql")
MAIL_SERVERS = ("smtp", "smtps", "smtp+tls", "smtp+ssl")
MAIL_FORMS = (
    "smtp+tls://user:password@host:587, smtp+ssl://user:password@host:465 or smtp://host:25"
)
DATABASE_FORMS = "sqlite:///path or postgresql://user:password@host/name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSetting:
    """A setting that was read. `text` is its value, or None where the value could be a secret."""

    name: str
    source: Literal["environment", "file", "default"]
    text: str | None


class Environment(environ.Env):  # type: ignore[misc]  # the library has no types
    """Reads one setting with `env.KIND(NAME, default=…)`."""

    def __init__(self) -> None:
        super().__init__()
        self._defaults: dict[str, object] = {}
        self._from_file: set[str] = set()
        # Settings whose kind cannot hold a secret.
        self._plain: set[str] = set()

    def read_file(self, path: Path) -> None:
        """Read settings from a `.env` file. What the environment has already stays."""
        before = set(os.environ)
        self.read_env(path)
        self._from_file = set(os.environ) - before

    def get_value(
        self, var: str, cast: Any = None, default: Any = environ.Env.NOTSET, *rest: Any
    ) -> Any:
        self._defaults[var] = default
        return super().get_value(var, cast, default, *rest)

    def list_read(self) -> list[ReadSetting]:
        """Return every setting that was read, by name."""
        return [self._describe(name) for name in sorted(self._defaults)]

    def _describe(self, name: str) -> ReadSetting:
        given = os.environ.get(name)
        shown = given if given is not None else str(self._defaults[name])
        return ReadSetting(
            name=name,
            source=(
                "default" if given is None else "file" if name in self._from_file else "environment"
            ),
            text=shown if name in self._plain else None,
        )

    def int(self, var: str, default: int) -> int:
        self._plain.add(var)
        return int(_read_number(super().int, var, default, "a whole number"))

    def float(self, var: str, default: float) -> float:
        self._plain.add(var)
        return float(_read_number(super().float, var, default, "a number"))

    def bool(self, var: str, default: bool) -> bool:
        """Read a switch. The library would read every unknown word as no."""
        self._plain.add(var)
        word = self.str(var, default=str(default)).strip().lower()
        if word not in TRUE + FALSE:
            raise make_error(var, "1 or 0")
        return word in TRUE

    def json_object(self, var: str) -> dict[str, Any]:
        """Read an object of JSON; empty if there is none."""
        try:
            found = json.loads(self.str(var, default="") or "{}")
        except ValueError as error:
            raise make_error(var, "an object of JSON") from error
        if not isinstance(found, dict):
            raise make_error(var, "an object of JSON")
        return found

    def text_map(self, var: str) -> dict[str, str]:
        """Read a JSON object of texts that are not empty."""
        found = self.json_object(var)
        if not all(isinstance(each, str) and each for each in found.values()):
            raise make_error(var, "a JSON object whose values are texts")
        return found

    def json_list(self, var: str) -> list[Any]:
        """Read a list of JSON; empty if there is none."""
        try:
            found = json.loads(self.str(var, default="") or "[]")
        except ValueError as error:
            raise make_error(var, "a list of JSON") from error
        if not isinstance(found, list):
            raise make_error(var, "a list of JSON")
        return found

    def db(self, var: str, default: str) -> dict[str, Any]:
        """Read a database address. The library would log an unknown form with its password."""
        address = self.str(var, default="") or default
        if address.partition("://")[0] not in DATABASES:
            raise make_error(var, DATABASE_FORMS)
        try:
            config: dict[str, Any] = self.db_url_config(address)
        except ValueError as error:
            raise make_error(var, DATABASE_FORMS) from error
        return config

    def mail_server(self, var: str) -> dict[str, Any]:
        """Read the address of a mail server as Django's settings; empty if no mail is sent."""
        address = self.str(var, default="")
        if not address:
            return {}
        if address.partition("://")[0] not in MAIL_SERVERS:
            raise make_error(var, MAIL_FORMS)
        try:
            config: dict[str, Any] = self.email_url_config(address)
        except ValueError as error:
            raise make_error(var, MAIL_FORMS) from error
        if not config["EMAIL_HOST"]:
            raise make_error(var, MAIL_FORMS)
        return config

    def choice(self, var: str, default: str, *others: str) -> str:
        """Read one of these words."""
        self._plain.add(var)
        word = str(self.str(var, default=default)).strip().lower()
        if word not in (default, *others):
            raise make_error(var, " or ".join((default, *others)))
        return word

    def networks(self, var: str, default: list[str]) -> list[str]:
        """Read addresses and networks. One of all addresses is refused."""
        self._plain.add(var)
        wanted = "IP addresses or networks, such as 10.0.0.5,10.1.0.0/16, and not all addresses"
        words = [str(word).strip() for word in self.list(var, default=default)]
        try:
            networks = [ipaddress.ip_network(word) for word in words]
        except ValueError as error:
            raise make_error(var, wanted) from error
        if any(network.prefixlen == 0 for network in networks):
            raise make_error(var, wanted)
        return words

    def log_level(self, var: str, default: str) -> str:
        self._plain.add(var)
        level = str(self.str(var, default=default)).upper()
        if level not in logging.getLevelNamesMapping():
            raise make_error(var, "DEBUG, INFO, WARNING or ERROR")
        return level

    def time_zone(self, var: str, default: str) -> str:
        self._plain.add(var)
        name = str(self.str(var, default=default))
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise make_error(var, "the name of a time zone, such as Europe/Berlin") from error
        return name


def _read_number(read: Any, var: str, default: object, wanted: str) -> Any:
    try:
        return read(var, default=default)
    except ValueError as error:
        raise make_error(var, wanted) from error


def make_error(variable: str, wanted: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{variable} cannot be used: it must be {wanted}.")
