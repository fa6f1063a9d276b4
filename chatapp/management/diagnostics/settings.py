"""Checks of the settings, the addresses and the files of the installation."""

import shutil
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings as values
from django.core.checks import ERROR, WARNING, run_checks
from django.http.request import validate_host

from chatapp.server.serving import is_loopback

from .findings import Finding, report_doubtful, report_good, report_wrong

MIN_FREE_BYTES = 200 * 1024**2
SECRET_FILES = ("secret_key", "encryption_key", "metrics_token")


def check_settings() -> list[Finding]:
    """Run the system checks of `manage.py check`."""
    messages = [
        check for check in run_checks() if check.level >= WARNING and not check.is_silenced()
    ]
    if not messages:
        return [report_good("settings", "They are safe to run with.")]
    return [
        (report_wrong if check.level >= ERROR else report_doubtful)(
            "settings", check.msg, check.hint or ""
        )
        for check in messages
    ]


def check_addresses() -> list[Finding]:
    """Check that links to PUBLIC_URL work and are safe."""
    findings = [_report_debug()] if values.DEBUG else []
    if not values.PUBLIC_URL:
        return [
            *findings,
            report_good("addresses", f"Answers to {', '.join(values.ALLOWED_HOSTS)}."),
        ]
    public = urlsplit(values.PUBLIC_URL)
    host = public.hostname or ""
    if not validate_host(host, values.ALLOWED_HOSTS):
        hint = f"Add {host} to ALLOWED_HOSTS."
        findings.append(report_wrong("addresses", f"{host} of PUBLIC_URL is not answered.", hint))
    if values.PUBLIC_URL not in values.ALLOWED_ORIGINS:
        hint = "Add it, or leave ALLOWED_ORIGINS unset."
        problem = "Forms and sockets of PUBLIC_URL are refused: ALLOWED_ORIGINS is without it."
        findings.append(report_wrong("addresses", problem, hint))
    if public.scheme == "http" and not is_loopback(host):
        hint = "Serve it over https, from a proxy that has a certificate."
        findings.append(
            report_doubtful("addresses", "PUBLIC_URL sends passwords in the clear.", hint)
        )
    return findings or [report_good("addresses", f"People reach this at {values.PUBLIC_URL}.")]


def _report_debug() -> Finding:
    return report_doubtful(
        "addresses", "DEBUG is on: errors show the program's inside.", "Unset DEBUG."
    )


def check_files() -> list[Finding]:
    """Check that VAR_DIR is writable, has free space, and protects its secrets."""
    folder = Path(values.VAR_DIR)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        hint = "Give this user the right to write there, or set VAR_DIR."
        return [report_wrong("files", f"{folder} cannot be written: {error.strerror}.", hint)]
    findings = [
        _report_exposed(folder / name) for name in SECRET_FILES if _is_exposed(folder / name)
    ]
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        findings.append(
            report_wrong("files", f"The disk of {folder} is nearly full.", "Make room.")
        )
    return findings or [report_good("files", f"{folder} can be written.")]


def _is_exposed(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _report_exposed(path: Path) -> Finding:
    return report_wrong(
        "files", f"Other users of this machine can read {path}.", f"chmod 600 {path}"
    )
