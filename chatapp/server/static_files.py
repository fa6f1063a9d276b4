"""Static files: one sheet and one script served from the sources of each component; collected and
compressed again only when a source changed."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder, FileSystemFinder, get_finders
from django.core.files.storage import FileSystemStorage, Storage
from django.core.management import call_command

# What is served as one file, and its sources in the order in which they count.
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
        "css/picker.css",
        "css/models.css",
        "css/tools.css",
        "css/question.css",
        "css/own_cards.css",
        "css/memory.css",
        "css/results.css",
        "css/services.css",
        "css/usage.css",
        "css/log.css",
        "css/tokens.css",
    ],
    "css/workbench.css": ["css/results.css", "css/bench.css"],
    "js/countersign.js": [
        "js/composer.js",
        "js/copy.js",
        "js/keyboard.js",
        "js/announce.js",
        "js/paint.js",
        "js/stream.js",
    ],
}
# What no page asks for: the readable twins of the admin's minified scripts, and other languages.
NEVER_SERVED = [
    "admin/js/vendor/jquery/jquery.js",
    "admin/js/vendor/select2/select2.full.js",
    "admin/js/vendor/xregexp/xregexp.js",
    "admin/js/vendor/select2/i18n/[!e]*.js",
    "admin/css/*rtl.css",
    *(source for sources in BUNDLES.values() for source in sources),
]


class BundleFinder(BaseFinder):
    """Finds the bundles wherever Django looks for static files: a page gets the same with DEBUG."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.storage = FileSystemStorage(settings.VAR_DIR / "bundles")
        self.sources = FileSystemFinder()

    def check(self, **_: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        found = [self._built(path)] if path in BUNDLES else []
        return found if find_all else next(iter(found), None)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for name in BUNDLES:
            self._built(name)
            yield name, self.storage

    def _built(self, name: str) -> str:
        """The file's path. It is written only when it has changed, so its time says when."""
        path = Path(self.storage.path(name))
        joined = b"".join(Path(str(self.sources.find(s))).read_bytes() for s in BUNDLES[name])
        if not path.exists() or path.read_bytes() != joined:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            unfinished.write_bytes(joined)
            unfinished.replace(path)
        return str(path)


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
