"""Examines what an operator has set: addresses and files."""

import shutil
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings as values
from django.core.checks import ERROR, WARNING, run_checks
from django.http.request import validate_host

from chatapp.serving import is_loopback

from .findings import Finding, doubtful, good, wrong

LEAST_BYTES = 200 * 1024**2
KEPT_SECRETS = ("secret_key", "encryption_key")


def settings() -> list[Finding]:
    """What `manage.py check` says."""
    found = [check for check in run_checks() if check.level >= WARNING and not check.is_silenced()]
    if not found:
        return [good("settings", "They are safe to run with.")]
    return [
        (wrong if check.level >= ERROR else doubtful)("settings", check.msg, check.hint or "")
        for check in found
    ]


def addresses() -> list[Finding]:
    """Whether people who follow a link of ours arrive, and safely."""
    found = [_debugging()] if values.DEBUG else []
    if not values.PUBLIC_URL:
        return [*found, good("addresses", f"Answers to {', '.join(values.ALLOWED_HOSTS)}.")]
    public = urlsplit(values.PUBLIC_URL)
    host = public.hostname or ""
    if not validate_host(host, values.ALLOWED_HOSTS):
        hint = f"Add {host} to ALLOWED_HOSTS."
        found.append(wrong("addresses", f"{host} of PUBLIC_URL is not answered.", hint))
    if values.PUBLIC_URL not in values.ALLOWED_ORIGINS:
        hint = "Add it, or leave ALLOWED_ORIGINS unset."
        refused = "Forms and sockets of PUBLIC_URL are refused: ALLOWED_ORIGINS is without it."
        found.append(wrong("addresses", refused, hint))
    if public.scheme == "http" and not is_loopback(host):
        hint = "Serve it over https, from a proxy that has a certificate."
        found.append(doubtful("addresses", "PUBLIC_URL sends passwords in the clear.", hint))
    return found or [good("addresses", f"People reach this at {values.PUBLIC_URL}.")]


def _debugging() -> Finding:
    return doubtful("addresses", "DEBUG is on: errors show the program's inside.", "Unset DEBUG.")


def files() -> list[Finding]:
    """Whether VAR_DIR can be written, has room, and keeps its secrets."""
    folder = Path(values.VAR_DIR)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        hint = "Give this user the right to write there, or set VAR_DIR."
        return [wrong("files", f"{folder} cannot be written: {error.strerror}.", hint)]
    found = [_exposed(folder / name) for name in KEPT_SECRETS if _is_exposed(folder / name)]
    if shutil.disk_usage(folder).free < LEAST_BYTES:
        found.append(wrong("files", f"The disk of {folder} is nearly full.", "Make room."))
    return found or [good("files", f"{folder} can be written.")]


def _is_exposed(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _exposed(path: Path) -> Finding:
    return wrong("files", f"Other users of this machine can read {path}.", f"chmod 600 {path}")
