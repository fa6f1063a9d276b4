"""How settings are read from the environment: one that cannot be used is named and stops the start.

A value is never repeated in the message: it may hold a password.
"""

import logging
import zoneinfo
from typing import Any

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


class Environment(environ.Env):  # type: ignore[misc]  # the library has no types
    """`env.KIND(NAME, default=…)`, as settings.py asks for each."""

    def int(self, var: str, default: int) -> int:
        return int(_number(super().int, var, default, "a whole number"))

    def float(self, var: str, default: float) -> float:
        return float(_number(super().float, var, default, "a number"))

    def bool(self, var: str, default: bool) -> bool:
        """Not as the library does it, which takes every word that it does not know for a no."""
        word = self.str(var, default=str(default)).strip().lower()
        if word not in TRUE + FALSE:
            raise unusable(var, "1 or 0")
        return word in TRUE

    def db(self, var: str, default: str) -> dict[str, Any]:
        """The library would warn of other forms with the whole address, password and all."""
        address = self.str(var, default="") or default
        if address.partition("://")[0] not in DATABASES:
            raise unusable(var, DATABASE_FORMS)
        try:
            read: dict[str, Any] = self.db_url_config(address)
        except ValueError as error:
            raise unusable(var, DATABASE_FORMS) from error
        return read

    def mail_server(self, var: str) -> dict[str, Any]:
        """Django's names for a mail server; none where no mail is sent."""
        address = self.str(var, default="")
        if not address:
            return {}
        if address.partition("://")[0] not in MAIL_SERVERS:
            raise unusable(var, MAIL_FORMS)
        try:
            read: dict[str, Any] = self.email_url_config(address)
        except ValueError as error:
            raise unusable(var, MAIL_FORMS) from error
        if not read["EMAIL_HOST"]:
            raise unusable(var, MAIL_FORMS)
        return read

    def log_level(self, var: str, default: str) -> str:
        level = str(self.str(var, default=default)).upper()
        if level not in logging.getLevelNamesMapping():
            raise unusable(var, "DEBUG, INFO, WARNING or ERROR")
        return level

    def time_zone(self, var: str, default: str) -> str:
        name = str(self.str(var, default=default))
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise unusable(var, "the name of a time zone, such as Europe/Berlin") from error
        return name


def _number(read: Any, var: str, default: object, wanted: str) -> Any:
    try:
        return read(var, default=default)
    except ValueError as error:
        raise unusable(var, wanted) from error


def unusable(variable: str, wanted: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{variable} cannot be used: it must be {wanted}.")
