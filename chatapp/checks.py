"""System checks of the settings. Unsafe settings are errors, which stop every command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.translation import gettext as _

from chatapp.audit.anchors import describe_place, is_key, is_place
from mcpconfig.secrets import encryption

NETWORK_FILE_SYSTEMS = {
    "9p",
    "afs",
    "ceph",
    "cifs",
    "fuse.sshfs",
    "glusterfs",
    "nfs",
    "nfs4",
    "smb3",
}
KNOWN_SECRETS = ("django-insecure", "change", "secret", "example", "insecure", "your-")
ENGINES = {"chatapp.server.sqlite", "chatapp.server.postgresql"}


@register(Tags.security)
def check_allowed_hosts(
    app_configs: Sequence[AppConfig] | None, **_options: Any
) -> list[CheckMessage]:
    if settings.DEBUG or "*" not in settings.ALLOWED_HOSTS:
        return []
    return [
        Error(
            _("ALLOWED_HOSTS accepts every host, so attackers can use any host name."),
            hint=_("List the host names that people use, separated by commas."),
            id="countersign.E001",
        )
    ]


@register(Tags.security)
def check_secret_key(
    app_configs: Sequence[AppConfig] | None, **_options: Any
) -> list[CheckMessage]:
    key = settings.SECRET_KEY
    if len(key) >= 32 and len(set(key)) >= 8 and not key.lower().startswith(KNOWN_SECRETS):
        return []
    return [
        Error(
            _("SECRET_KEY is short or looks like an example, so sessions could be forged."),
            hint=_(
                "Leave the variable unset to have a key created, or set at least 50 random "
                "characters."
            ),
            id="countersign.E002",
        )
    ]


@register(Tags.security)
def check_encryption_keys(
    app_configs: Sequence[AppConfig] | None, **_options: Any
) -> list[CheckMessage]:
    if settings.ENCRYPTION_KEYS and all(map(encryption.is_key, settings.ENCRYPTION_KEYS)):
        return []
    return [
        Error(
            _("ENCRYPTION_KEYS has a key that can’t encrypt credentials."),
            hint=_(
                "Leave the variable unset to have a key created, or set keys made by "
                "Fernet.generate_key()."
            ),
            id="countersign.E003",
        )
    ]


@register(Tags.security)
def check_origins(app_configs: Sequence[AppConfig] | None, **_options: Any) -> list[CheckMessage]:
    addresses = [*settings.ALLOWED_ORIGINS, *([settings.PUBLIC_URL] if settings.PUBLIC_URL else [])]
    return [
        Error(
            _("%(address)s is not an exact origin.") % {"address": address},
            hint=_("PUBLIC_URL and ALLOWED_ORIGINS accept https://host or https://host:port."),
            id="countersign.E004",
        )
        for address in addresses
        if not is_origin(address)
    ]


def is_origin(address: str) -> bool:
    parts = urlsplit(address)
    is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and is_bare
        and "*" not in address
    )


@register(Tags.security)
def check_log_anchors(
    app_configs: Sequence[AppConfig] | None, **_options: Any
) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    if not is_key(settings.LOG_SIGNING_KEY):
        hint = _(
            "Leave the variable unset to have a key created, or set 32 random bytes as URL-safe "
            "base64."
        )
        found.append(
            Error(_("LOG_SIGNING_KEY can’t be used as a key."), hint=hint, id="countersign.E007")
        )
    for place in settings.LOG_ANCHORS:
        if not is_place(place):
            hint = _("It accepts stdout, file:/path, mailto:name@host and https://…")
            sentence = _("LOG_ANCHORS has %(place)s, which is not a valid destination.") % {
                "place": describe_place(place)
            }
            found.append(Error(sentence, hint=hint, id="countersign.E008"))
        elif place.startswith("mailto:") and not settings.SENDS_MAIL:
            hint = _("Set EMAIL_URL, or choose another destination.")
            sentence = _("LOG_ANCHORS has a mail address, but EMAIL_URL is not set.")
            found.append(Error(sentence, hint=hint, id="countersign.E009"))
    return found


@register(Tags.database)
def check_database(app_configs: Sequence[AppConfig] | None, **_options: Any) -> list[CheckMessage]:
    database = settings.DATABASES["default"]
    if database["ENGINE"] not in ENGINES:
        hint = _("DATABASE_URL accepts sqlite:///… or postgresql://…")
        return [Error(_("This database is not supported."), hint=hint, id="countersign.E005")]
    if database["ENGINE"].endswith("sqlite") and is_on_network(Path(database["NAME"])):
        return [
            Error(
                _("The SQLite file is on a network file system, whose locks are not reliable."),
                hint=_("Put it on a local disk, or use PostgreSQL."),
                id="countersign.E006",
            )
        ]
    return []


def is_on_network(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Return whether the longest mount point above `path` is a network file system (Linux only)."""
    if not mounts.exists():
        return False
    lines = [line.split() for line in mounts.read_text().splitlines()]
    above = [line for line in lines if path.resolve().is_relative_to(line[1])]
    return bool(above) and max(above, key=lambda line: len(line[1]))[2] in NETWORK_FILE_SYSTEMS
