"""Static files: bundles of style sheets and scripts, collected and compressed only after a
change."""

import contextlib
import ctypes
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.admin.widgets import SELECT2_TRANSLATIONS
from django.contrib.staticfiles.finders import BaseFinder, FileSystemFinder, get_finders
from django.core.files.storage import FileSystemStorage, Storage
from django.core.management import call_command

# The files that are served, each with its sources in order.
BUNDLES = {
    "css/countersign.css": [
        "css/base.css",
        "css/layout.css",
        "css/conversation.css",
        "css/prose.css",
        "css/approval.css",
        "css/inbox.css",
        "css/app.css",
        "css/composer.css",
        "css/palette.css",
        "css/picker.css",
        "css/models.css",
        "css/tools.css",
        "css/question.css",
        "css/own_cards.css",
        "css/memory.css",
        "css/results.css",
        "css/chart.css",
        "css/services.css",
        "css/usage.css",
        "css/log.css",
        "css/tokens.css",
        "css/export.css",
        "css/shared.css",
        "css/imports.css",
        "css/presets.css",
        "css/projects.css",
        "css/touch.css",
    ],
    "css/workbench.css": ["css/results.css", "css/bench.css"],
    "js/countersign.js": [
        "js/composer.js",
        "js/figures.js",
        "js/keyboard.js",
        "js/announce.js",
        "js/modules.js",
        "js/paint.js",
        "js/stream.js",
        "js/open.js",
    ],
}
# No page requests these: sources of the admin's minified scripts, and our sources.
NEVER_SERVED = [
    "admin/js/vendor/jquery/jquery.js",
    "admin/js/vendor/select2/select2.full.js",
    "admin/js/vendor/xregexp/xregexp.js",
    *(source for sources in BUNDLES.values() for source in sources),
]


class BundleFinder(BaseFinder):
    """Finds the bundles for `collectstatic` and, with DEBUG, for the server."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.storage = FileSystemStorage(settings.VAR_DIR / "bundles")
        self.sources = FileSystemFinder()

    def check(self, **_: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        found = [self._build(path)] if path in BUNDLES else []
        return found if find_all else next(iter(found), None)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for name in BUNDLES:
            self._build(name)
            yield name, self.storage

    def _build(self, name: str) -> str:
        """Write the bundle if it has changed, and return its path."""
        path = Path(self.storage.path(name))
        joined = b"".join(Path(str(self.sources.find(s))).read_bytes() for s in BUNDLES[name])
        if not path.exists() or path.read_bytes() != joined:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            unfinished.write_bytes(joined)
            unfinished.replace(path)
        return str(path)


def list_unused() -> list[str]:
    """Return the patterns of files that no page requests. Of the admin's search boxes, these are
    the texts in languages that this server does not have."""
    used = {_find_search_texts(code) for code, _name in settings.LANGUAGES}
    others = sorted(set(SELECT2_TRANSLATIONS.values()) - used)
    return [*NEVER_SERVED, *(f"admin/js/vendor/select2/i18n/{name}.js" for name in others)]


def _find_search_texts(code: str) -> str:
    """Return the name of the texts as the admin does, which would load the whole language."""
    while code and code not in SELECT2_TRANSLATIONS:
        code = code.rpartition("-")[0]
    return SELECT2_TRANSLATIONS.get(code, "")


def collect() -> bool:
    """Bring STATIC_ROOT up to date. Return whether anything had changed."""
    root = Path(settings.STATIC_ROOT)
    stamp = root.with_name(f"{root.name}.stamp")
    state = compute_fingerprint()
    if (root / "staticfiles.json").exists() and stamp.exists() and stamp.read_text() == state:
        return False
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=list_unused())
    stamp.write_text(state)
    release_memory()
    return True


def release_memory() -> None:
    """Return freed memory to the system. Some C libraries keep that of the threads that compressed,
    which is a tenth of what the server needs."""
    with contextlib.suppress(AttributeError, OSError):  # other libraries lack the function
        ctypes.CDLL(None).malloc_trim(0)


def compute_fingerprint() -> str:
    """Return a hash that changes when a source is added, removed or written, or a language
    added."""
    lines = sorted(list_sources())
    backend = settings.STORAGES["staticfiles"]["BACKEND"]
    return hashlib.sha256("\n".join([backend, *list_unused(), *lines]).encode()).hexdigest()


def list_sources() -> Iterator[str]:
    for finder in get_finders():
        for name, storage in finder.list(["CVS", ".*", "*~"]):
            found = Path(storage.path(name)).stat()
            yield f"{name} {found.st_size} {found.st_mtime_ns}"
