"""Checks of the settings, the addresses and the files of the installation."""

import shutil
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings as values
from django.core.checks import ERROR, WARNING, run_checks
from django.http.request import validate_host
from django.utils.translation import gettext as _

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
        return [report_good("settings", _("No problems found."))]
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
            report_good(
                "addresses",
                _("Host names: %(hosts)s.") % {"hosts": ", ".join(values.ALLOWED_HOSTS)},
            ),
        ]
    public = urlsplit(values.PUBLIC_URL)
    host = public.hostname or ""
    if not validate_host(host, values.ALLOWED_HOSTS):
        hint = _("Add %(host)s to ALLOWED_HOSTS.") % {"host": host}
        findings.append(
            report_wrong(
                "addresses",
                _("PUBLIC_URL has the host %(host)s, which is not allowed.") % {"host": host},
                hint,
            )
        )
    if values.PUBLIC_URL not in values.ALLOWED_ORIGINS:
        hint = _("Add PUBLIC_URL to ALLOWED_ORIGINS, or leave ALLOWED_ORIGINS unset.")
        problem = _("ALLOWED_ORIGINS is without PUBLIC_URL, so its forms and sockets are refused.")
        findings.append(report_wrong("addresses", problem, hint))
    if public.scheme == "http" and not is_loopback(host):
        hint = _("Serve it over https, from a proxy with a certificate.")
        findings.append(
            report_doubtful("addresses", _("PUBLIC_URL sends passwords unencrypted."), hint)
        )
    return findings or [
        report_good(
            "addresses", _("People reach Countersign at %(url)s.") % {"url": values.PUBLIC_URL}
        )
    ]


def _report_debug() -> Finding:
    return report_doubtful(
        "addresses", _("DEBUG is on, so errors show internal details."), _("Unset DEBUG.")
    )


def check_files() -> list[Finding]:
    """Check that VAR_DIR is writable, has free space, and protects its secrets."""
    folder = Path(values.VAR_DIR)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        hint = _("Give this user write access there, or set VAR_DIR.")
        return [
            report_wrong(
                "files",
                _("%(folder)s can’t be written: %(reason)s.")
                % {"folder": folder, "reason": error.strerror},
                hint,
            )
        ]
    findings = [
        _report_exposed(folder / name) for name in SECRET_FILES if _is_exposed(folder / name)
    ]
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        findings.append(
            report_wrong(
                "files",
                _("The disk of %(folder)s is nearly full.") % {"folder": folder},
                _("Free some space."),
            )
        )
    return findings or [report_good("files", _("%(folder)s can be written.") % {"folder": folder})]


def _is_exposed(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _report_exposed(path: Path) -> Finding:
    return report_wrong(
        "files",
        _("Other users of this machine can read %(path)s.") % {"path": path},
        f"chmod 600 {path}",
    )
