"""Collected and compressed static files, made again only when a source changed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

# What no page asks for: the readable twins of the admin's minified scripts, and other languages.
NEVER_SERVED = [
    "admin/js/vendor/jquery/jquery.js",
    "admin/js/vendor/select2/select2.full.js",
    "admin/js/vendor/xregexp/xregexp.js",
    "admin/js/vendor/select2/i18n/[!e]*.js",
    "admin/css/*rtl.css",
]


def collect() -> bool:
    """Bring STATIC_ROOT up to date; whether anything had to be done."""
    root = Path(settings.STATIC_ROOT)
    stamp = root.with_name(f"{root.name}.stamp")
    state = fingerprint()
    if (root / "staticfiles.json").exists() and stamp.exists() and stamp.read_text() == state:
        return False
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=NEVER_SERVED)
    stamp.write_text(state)
    return True


def fingerprint() -> str:
    """A hash that changes when a source is added, removed or written."""
    lines = sorted(sources())
    backend = settings.STORAGES["staticfiles"]["BACKEND"]
    return hashlib.sha256("\n".join([backend, *lines]).encode()).hexdigest()


def sources() -> Iterator[str]:
    for finder in get_finders():
        for name, storage in finder.list(["CVS", ".*", "*~"]):
            found = Path(storage.path(name)).stat()
            yield f"{name} {found.st_size} {found.st_mtime_ns}"
